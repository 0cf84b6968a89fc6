"""The policies that a game offers: kinds, and the choice of one with its parameters."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import Field

from parley.errors import UsageError
from parley.identity import digest
from parley.policies import Ask, Completion
from parley.text.yamlfile import StrictModel, is_slug

if TYPE_CHECKING:
    import numpy as np

# A scripted policy: (view, generator) -> the reply as a mapping. It sees what an agent may see, no more.
Rule = Callable[[Any, "np.random.Generator"], Mapping[str, Any]]


class PolicyParameters(StrictModel):
    """Parameters of a policy; a kind adds its own."""


@dataclass(frozen=True)
class PolicyKind:
    """A policy as a game offers it.

    `rule` is the scripted rule, which gets its parameters, too, `instructions` what a language model is told besides
    the game's prompts. `beyond` says what the paper's threat model excludes of it ("" if nothing). `needs` names a
    parameter of the game that must be true where it plays; `misfit` says, from its parameters and the game's, which of
    them does not fit the game ("" if all do). `version` is raised whenever the same view could lead to another reply;
    `fingerprint` is the SHA-256 of code that is not Parley's own, `folder` that of the study that names it (None where
    a record does). `unlabeled` parameters are left out of its label.
    """

    name: str
    roles: tuple[str, ...] = ()  # who may be played by it; () is everyone
    Parameters: type[PolicyParameters] = PolicyParameters
    rule: Callable[..., Mapping[str, Any]] | None = None  # (view, generator, given)
    instructions: Callable[[Any], str] | None = None
    beyond: str = ""
    needs: str = ""
    misfit: Callable[[Any, Any], str] | None = None
    version: int = 1
    fingerprint: str = ""
    folder: Path | None = field(default=None, compare=False)
    unlabeled: tuple[str, ...] = ()

    @property
    def is_plugin(self) -> bool:
        """Whether the user's own code answers."""
        return bool(self.fingerprint)

    @property
    def asks_model(self) -> bool:
        """Whether a language model answers by itself, so that one must be named."""
        return self.rule is None and not self.is_plugin


_LONGEST_KIND = 50

LLM = PolicyKind("llm")  # a language model with the game's prompts


class ImportedGames(PolicyParameters):
    """Games that were played elsewhere: who played them, and which they are."""

    players: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9.+_-]*$", max_length=52, description="What played, in a word or a few."
    )
    source: str = Field(default="", max_length=200, description="Format that they were imported from.")
    files: str = Field(
        default="", pattern=r"^([0-9a-f]{64})?$", description="SHA-256 over the files of the condition, with seeds."
    )


def _played_elsewhere(view: Any, rng: "np.random.Generator", given: ImportedGames) -> Mapping[str, Any]:
    raise UsageError(f"imported: {given.players}: this game was played elsewhere and cannot be played again")


# Stands for whoever played a game elsewhere; every game has it.
IMPORTED = PolicyKind(
    "imported",
    Parameters=ImportedGames,
    rule=_played_elsewhere,
    unlabeled=("source", "files"),
)


def find_kind(policies: Mapping[str, PolicyKind], name: str) -> PolicyKind:
    """Return the policy called `name` of those of a game, or IMPORTED; raises LookupError if there is none."""
    return IMPORTED if name == IMPORTED.name else policies[name]


def scripted_kind(
    rule: Callable[..., Mapping[str, Any]],
    parameters: type[PolicyParameters] = PolicyParameters,
    roles: tuple[str, ...] = (),
    **more: Any,
) -> PolicyKind:
    """Return the kind of a rule (view, generator, parameters), by its name.

    `more` are what else a PolicyKind has: `beyond`, `needs`, `misfit`.
    """
    return PolicyKind(rule.__name__, roles, parameters, rule, **more)


def policy_table(*kinds: PolicyKind) -> dict[str, PolicyKind]:
    """Return the policies that a game offers, by name, in the order in which they are listed."""
    return {kind.name: kind for kind in kinds}


@dataclass(frozen=True)
class ChosenPolicy:
    """A kind with its parameters."""

    kind: PolicyKind
    parameters: PolicyParameters

    @property
    def rule(self) -> Rule | None:
        """The scripted rule that answers; None where a language model or the user's own code does."""
        return None if self.kind.rule is None else partial(self.kind.rule, given=self.parameters)

    @cached_property
    def label(self) -> str:
        """Return a readable name, a folder's: the kind and what is not the default, `crash-3`; else with a hash."""
        parts = [self.kind.name.rpartition(":")[2]]
        for name, parameter in self.kind.Parameters.model_fields.items():
            if name in self.kind.unlabeled:
                continue
            value = getattr(self.parameters, name)
            if parameter.is_required():
                parts.append(_shown(value))
            elif value != parameter.get_default(call_default_factory=True):
                parts += [name, _shown(value)]
        parts += [
            part for name, value in (self.parameters.model_extra or {}).items() for part in (name, _shown(value))
        ]
        label = "-".join(parts)
        if is_slug(label.replace("+", "-")):
            return label
        return f"{parts[0][:_LONGEST_KIND].strip('-._')}-{digest(self.parameters.model_dump(mode='json'))[:6]}"

    @property
    def instructions(self) -> str:
        """What a language model is told besides the game's prompts; "" for nothing."""
        return self.kind.instructions(self.parameters) if self.kind.instructions else ""

    def misfit(self, parameters: Any) -> str:
        """Return why it cannot play a game with these parameters: key, value, remedy; "" if it can."""
        if self.kind.needs and not getattr(parameters, self.kind.needs, False):
            return f"plays only with {self.kind.needs}: true among the game's parameters; add it"
        return self.kind.misfit(self.parameters, parameters) if self.kind.misfit else ""

    def identity(self) -> dict[str, Any]:
        """Return all that can change what it answers to the same ask, as JSON values."""
        found: dict[str, Any] = {"policy": self.kind.name, "version": self.kind.version}
        if parameters := self.parameters.model_dump(mode="json"):
            found["parameters"] = parameters
        if self.kind.fingerprint:
            found["code_sha256"] = self.kind.fingerprint
        if self.instructions:
            found["instructions_sha256"] = hashlib.sha256(self.instructions.encode()).hexdigest()
        return found


def _shown(value: Any) -> str:
    return "+".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


BY_MODEL = ChosenPolicy(LLM, PolicyParameters())


class _Generator:
    """The generator of a seed, made when a rule draws: few do, and to make one takes longer than most rules."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._made, name)

    @cached_property
    def _made(self) -> "np.random.Generator":
        import numpy as np

        return np.random.default_rng(self._seed)


@dataclass(frozen=True)
class ScriptedPolicy:
    """Answers by a rule; the reply is serialized, so that it is parsed and recorded like a model's."""

    rule: Rule

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        """Return the rule's reply, as JSON."""
        return Completion(text=self.text(ask, seed), finish_reason="stop")

    def text(self, ask: Ask, seed: int) -> str:
        """Return the text of the reply."""
        return json.dumps(self.rule(ask.view, cast("np.random.Generator", _Generator(seed))))
