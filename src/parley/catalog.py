"""`parley policies`: the policies of a game with their parameters, for people."""

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic.fields import FieldInfo

from parley.errors import UsageError
from parley.games.base import Game
from parley.games.kinds import ChosenPolicy, PolicyKind
from parley.policies.plugin import entry_points
from parley.text import one_line
from parley.yamlfile import validated

_TYPES = {"integer": "integer", "string": "text", "boolean": "true or false", "number": "number"}
_BOUNDS = ("minimum", "maximum")


def policy_lines(game: type[Game]) -> Iterator[str]:
    """Yield what a terminal shows of the policies of `game`: a paragraph each, then what else may be named."""
    for kind in game.policies.values():
        agents = f"{' and '.join(kind.roles) or 'any'} agents"
        answers = "scripted" if kind.rule is not None else "asks a model"
        needs = f", needs {kind.needs}: true" if kind.needs else ""
        yield f"{kind.name}  ({agents}, {answers}{needs}; {threat_text(kind)})"
        yield f"    {kind.summary}"
        for line in parameter_lines(kind):
            yield f"    - {line}"
    yield "module:attribute  (any agents; unknown to the paper's threat model)"
    yield "    A policy of your own: a class or function of a module on Python's path; its parameters are yours."
    for name, values in entry_points().items():
        yield f"    {one_line(name, 100)}: installed, {one_line(' and '.join(values), 300)}"


def told_to(game: type[Game], role: str, part: str, strategies: Sequence[str]) -> ChosenPolicy:
    """Return the policy that tells a language model these strategies, with their defaults.

    Raises UsageError if the game has no such policy, or tells agents of `role` nothing in this part of their prompts.
    """
    kind = game.policies.get("llm_strategies")
    if kind is None:
        raise UsageError(f"--strategy: the game {game.name} has no strategies; leave it out")
    if role not in kind.roles or part != "system":
        raise UsageError(
            f"--strategy: it is told to {' and '.join(kind.roles)} agents in their system prompts; add "
            f"--role {kind.roles[0]} --part system"
        )
    return ChosenPolicy(kind, validated(kind.Parameters, {"strategies": list(strategies)}, "--strategy"))


def threat_text(kind: PolicyKind) -> str:
    """Return whether the paper's threat model allows a Byzantine agent to be played so."""
    return f"beyond the paper's threat model: {kind.beyond}" if kind.beyond else "within the paper's threat model"


def parameter_lines(kind: PolicyKind) -> Iterator[str]:
    """Yield a line per parameter: its name, what it takes, whether it must be given, and what it does."""
    properties = kind.Parameters.model_json_schema()["properties"] if kind.Parameters.model_fields else {}
    for name, field in kind.Parameters.model_fields.items():
        yield f"{name}: {_taken(properties[name])}, {_default(field)}. {field.description or ''}".rstrip()


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    return "optional" if default is None else f"default {default}"


def _taken(schema: dict[str, Any]) -> str:
    """Return what a parameter takes, from its JSON schema."""
    if "anyOf" in schema:
        return " or ".join(_taken(part) for part in schema["anyOf"] if part != {"type": "null"})
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if schema["type"] == "array":
        return f"one or a list of {_taken(schema['items'])}"
    low, high = (schema.get(bound) for bound in _BOUNDS)
    span = "" if low is None or high is None else f" from {low} to {high}"
    return _TYPES[schema["type"]] + span
