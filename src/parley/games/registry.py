"""The games, by name. A new game is one folder and one line here; one of the user's own needs neither."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

from parley import trust
from parley.errors import UsageError
from parley.games.base import Game
from parley.games.consensus.game import ConsensusGame
from parley.games.deliberation.game import DeliberationGame
from parley.games.own_game import load_game
from parley.games.parameters import BYZANTINE, HONEST, Group
from parley.games.stag_hunt.game import StagHuntGame
from parley.policies.kinds import ChosenPolicy, PolicyKind
from parley.text import choose, one_line

GAMES: dict[str, type[Game]] = {game.name: game for game in (ConsensusGame, DeliberationGame, StagHuntGame)}


def game_class(name: str, folder: Path = Path()) -> type[Game]:
    """Return the game called `name`: one of these, a module:attribute of the user's own, or an installed entry point.

    `folder` is that of the study that names it; by default the working directory, for a name given to a command. The
    user's own code is imported. Raises UsageError for an unknown one, GameError for what is no game.
    """
    if name in GAMES:
        return GAMES[name]
    if trust.names_own_code(name):
        return load_game(name, folder)
    installed = trust.entry_points(trust.GAME_ENTRY_POINTS)
    if name in installed:
        return load_game(installed[name], folder)
    raise UsageError(f"unknown game {name!r}; {choose(name, sorted(GAMES), installed)}, or your own module:attribute")


# `parley policies`: the policies of a game with their parameters, for people


_TYPES = {"integer": "integer", "string": "text", "boolean": "true or false", "number": "number"}
_OWN = PolicyKind("module:attribute", "A policy of your own.", fingerprint="of its module")


def policy_lines(game: type[Game]) -> Iterator[str]:
    """Yield what a terminal shows of the policies of `game`: a paragraph each, then what else may be named."""
    for kind in game.policies.values():
        agents = f"{' and '.join(kind.roles) or 'any'} agents"
        answers = "scripted" if kind.rule is not None else "asks a model"
        needs = f", needs {kind.needs}: true" if kind.needs else ""
        yield f"{kind.name}  ({'; '.join(filter(None, [f'{agents}, {answers}{needs}', threat_text(game, kind)]))})"
        yield f"    {kind.summary}"
        properties = kind.Parameters.model_json_schema().get("properties", {})
        for name, field in kind.Parameters.model_fields.items():
            yield f"    - {name}: {_taken(properties[name])}, {_default(field)}. {field.description or ''}".rstrip()
    yield f"module:attribute  ({'; '.join(filter(None, ['any agents', threat_text(game, _OWN)]))})"
    yield "    A policy of your own: a class or function of a module beside the study; its parameters are yours."
    for name, where in trust.entry_points(trust.POLICY_ENTRY_POINTS).items():
        yield f"    {one_line(name, 100)}: installed, {one_line(where, 300)}"


def threat_text(game: type[Game], kind: PolicyKind) -> str:
    """Return what the threat model says of one Byzantine agent among four that is played so; "" for nothing."""
    if kind.roles and BYZANTINE not in kind.roles:
        return ""
    # Of parameters a threat model reads the game's alone: those that a kind requires need no values.
    policy = ChosenPolicy(kind, kind.Parameters.model_construct())
    groups = [Group(HONEST, 3), Group(BYZANTINE, 1, policy)]
    verdict, _, reason = game.threat_model(game.Parameters(), groups).partition(": ")
    words = {
        "none": "",
        "paper": "within the paper's threat model",
        "beyond": f"beyond the paper's threat model: {reason}",
        "unknown": "unknown to the paper's threat model",
    }[verdict]
    return f"a Byzantine agent so played is {words}" if words else ""


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
    low, above, high = (schema.get(bound) for bound in ("minimum", "exclusiveMinimum", "maximum"))
    start = f"from {low}" if low is not None else f"above {above}" if above is not None else ""
    span = f" {start} to {high}" if start and high is not None else ""
    return _TYPES[schema["type"]] + span
