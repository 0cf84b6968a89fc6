"""What every game is made of: asks, replies, outcomes, and the generator that turns one into the other.

A game is pure. It yields the asks of one phase and is sent the replies to them, in the same order; when it
returns, it returns the outcome. It does no I/O, reads no clock, and draws only from the generator passed in.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from parley.errors import UsageError
from parley.games.evidence import (
    FigureSpec,
    GameColumns,
    Indicator,
    Measure,
    OutcomeClass,
    Quantity,
    Session,
    Timeline,
    Trajectory,
)
from parley.games.network.graph import Network
from parley.games.network.topology import Complete, Topology, build
from parley.games.network.topology import check as check_topology
from parley.identity import stream
from parley.policies import Ask, Reply, ReplyFormat
from parley.policies.kinds import BY_MODEL, ChosenPolicy, PolicyKind

if TYPE_CHECKING:
    from parley.games.problems.problem import Problem

# The roles that games share: who keeps to the rules, and who may break them.
HONEST = "honest"
BYZANTINE = "byzantine"


class GameParameters(BaseModel):
    """Parameters that every game has; each game adds its own."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    retries: int = Field(
        default=3, ge=0, le=20, description="How often an unusable reply is asked for again, with a new seed."
    )
    topology: Topology = Field(
        default=Complete(), description="Who hears whom: a name, or a kind with its parameters. Drawn for each seed."
    )
    reply_format: ReplyFormat = Field(
        default="json",
        description="How language models reply: in JSON; in free text with labeled lines (text); or freely first, and "
        "then in JSON (two_steps).",
        exclude_if=lambda value: bool(value == "json"),  # identities are older than this parameter
    )

    @property
    def longest(self) -> int | None:
        """Rounds of the longest possible game; None if nothing bounds them."""
        return None


@dataclass(frozen=True, slots=True)
class Seat:
    """One agent as the game knows it: its name, its role, and what plays it; `group` counts the study's groups."""

    name: str
    role: str
    policy: ChosenPolicy = BY_MODEL
    group: int = 0


@dataclass(frozen=True, slots=True)
class Group:
    """Agents of one role that are played alike."""

    role: str
    count: int
    policy: ChosenPolicy = BY_MODEL


@dataclass(frozen=True)
class Outcome:
    """How a simulation ended, in the game's own classes.

    `metrics` are the game's numbers for one row of the simulations table; `trace` has one mapping per round,
    from which the figures of single simulations are drawn. All of it is JSON.
    """

    name: str
    detail: str | None
    diagnosis: str | None
    rounds: int
    finished_early: bool
    metrics: Mapping[str, Any]
    trace: tuple[Mapping[str, Any], ...]

    def as_json(self) -> dict[str, Any]:
        """Return the outcome as plain JSON values."""
        return json.loads(json.dumps(self.__dict__))  # type: ignore[no-any-return]


class Game(ABC):
    """Base of all games: the class says what a study may ask for, an instance is played once."""

    name: ClassVar[str]
    code_sha256: ClassVar[str] = ""  # of the source of a game of the user's own; part of the identity
    # Raised whenever agents would read something else, or the same replies could lead to another outcome.
    # tests/games/test_versions.py finds it where it is forgotten.
    protocol_version: ClassVar[int]
    roles: ClassVar[tuple[str, ...]]
    outcomes: ClassVar[tuple[OutcomeClass, ...]]
    figures: ClassVar[tuple[FigureSpec, ...]]
    measures: ClassVar[tuple[Measure, ...]] = ()  # by round, from the trace: see `series`
    indicators: ClassVar[tuple[Indicator, ...]] = ()  # metrics that are true, false or None
    quantities: ClassVar[tuple[Quantity, ...]] = ()  # metrics that are numbers or None
    columns: ClassVar[GameColumns] = GameColumns()  # what its metrics mean, and what each agent did by round
    paired_by: ClassVar[tuple[str, ...]] = ()  # metrics that simulations of a pair share, besides their seed
    round_name: ClassVar[str] = "round"  # what figures call the rounds of `series`
    comparisons: ClassVar[tuple[tuple[str, str], ...]] = ()  # pairs of indicators, compared in the same simulations
    read_texts: ClassVar[frozenset[str]] = frozenset()  # texts of replies that decide how the game goes on
    keeps_ledger: ClassVar[bool] = False  # whether `transcript` gives something to sign and chain
    Parameters: ClassVar[type[GameParameters]]
    prompts: ClassVar[Mapping[str, Mapping[str, Path]]]  # prompt name -> template name -> file
    prompt_phases: ClassVar[tuple[str, ...]]  # the phases that `prompt_template` knows
    question_styles: ClassVar[tuple[str, ...]] = ()  # the ways in which `question` asks, named after the game
    policies: ClassVar[Mapping[str, PolicyKind]]  # by name; LLM among them

    def __init__(
        self,
        parameters: GameParameters,
        seats: tuple[Seat, ...],
        prompt: str,
        rng: np.random.Generator,
        network: Network | None = None,
        material: Any = None,
    ) -> None:
        """`network` says who hears whom, as `draw_network` drew it; None is the complete one.

        `material` is what `draw_material` drew.
        """
        self.network = network or Network.complete(len(seats))
        self.parameters = parameters
        self.seats = seats
        self.prompt = prompt
        self.rng = rng
        self.material = material
        self.set_up()

    @abstractmethod
    def set_up(self) -> None:
        """Draw and keep what this game needs before it is played; called once, by the constructor."""

    def format_for(self, seat: Seat) -> ReplyFormat:
        """Return how a seat replies: a language model in the study's format, a rule or the user's own code in JSON."""
        return self.parameters.reply_format if seat.policy.kind.asks_model else "json"

    @property
    def about(self) -> str:
        """What this game is about, for people; "" for nothing."""
        return ""

    @abstractmethod
    def play(self) -> Generator[list[Ask], list[Reply], Outcome]:
        """Play once: yield the asks of each phase, be sent the replies, return the outcome."""

    @classmethod
    @abstractmethod
    def prompt_template(cls, prompt: str, role: str, phase: str, part: str) -> str:
        """Return the unrendered text of one prompt; raises UsageError for an unknown one."""

    @classmethod
    @abstractmethod
    def sample_prompt(cls, prompt: str, role: str, phase: str, part: str, given: Mapping[str, Any]) -> str:
        """Return one prompt filled with sample values, some of which are `given`."""

    @classmethod
    def question(cls, style: str, problem: "Problem", reply_format: ReplyFormat) -> tuple[Ask, str]:
        """Return how the game asks for the answer to a problem, and the field of the reply that holds the answer.

        For calibrations. A style may have no such format: then the ask has another. A game that has `question_styles`
        says it.
        """
        raise NotImplementedError(cls.name)

    @classmethod
    def sample_values(cls, prompt: str, role: str, phase: str, part: str) -> frozenset[str]:
        """Return the names of the values that a sample of this prompt reads from `given`."""
        return frozenset({"reply_format"} if part == "user" else ())

    @classmethod
    def trajectory(cls, outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]) -> Trajectory:
        """Return what happened, round by round, from the outcome and the trace of a record.

        A game that has a figure of the kind `trajectories` says it.
        """
        raise NotImplementedError(cls.name)

    @classmethod
    def timeline(cls, outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]) -> Timeline:
        """Return what each agent said and did, round by round, from the outcome and the trace of a record.

        A game that has a figure of the kind `timeline` says it.
        """
        raise NotImplementedError(cls.name)

    @classmethod
    def series(
        cls, outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]
    ) -> Mapping[str, Sequence[tuple[int, float]]]:
        """Return the (round, value in [0, 1]) points of each measure, by name; rounds where it has none are left out.

        A game that has `measures` says it.
        """
        return {}

    @classmethod
    def sweep(cls, metrics: Mapping[str, Any]) -> Mapping[str, Sequence[tuple[float, float]]]:
        """Return the (threshold, share in [0, 1]) points of each share of a simulation, by name.

        A game that has a figure of the kind `sweep` says it.
        """
        return {}

    @classmethod
    def of_agents(cls, metrics: Mapping[str, Any]) -> Mapping[str, Mapping[str, float]]:
        """Return, by agent, its values in [0, 1] of quantities that are shares of agents, by the quantity's name.

        The quantity is the mean over these agents; so it can also be told of those alone that one model plays. A game
        that has such quantities may say it.
        """
        return {}

    @classmethod
    def transcript(cls, outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]) -> Sequence[Session]:
        """Return what was said, for the ledger, in order: the sessions of one simulation.

        A game that `keeps_ledger` says it.
        """
        return ()

    @classmethod
    def check(cls, parameters: GameParameters, groups: Sequence[Group]) -> None:
        """Raise UsageError, in one line with the remedy, if `groups` cannot play with these parameters."""
        check_topology(parameters.topology, sum(group.count for group in groups))
        for group in groups:
            if group.count and (problem := group.policy.misfit(parameters)):
                raise UsageError(f"{group.role}: {group.policy.kind.name}: {problem}")

    @classmethod
    def draw_network(cls, parameters: GameParameters, n: int, rng: np.random.Generator) -> Network:
        """Return who hears whom among `n` agents: a network of the topology that the study asks for."""
        return build(parameters.topology, n, rng)

    @classmethod
    def draw_material(cls, parameters: GameParameters, seed: int) -> Any:
        """Return what the game of this seed is about besides its parameters, as JSON; None for nothing.

        The record keeps it, so that a replay needs no other file. Raises UsageError if it cannot be had.
        """
        return None

    @classmethod
    def threat_model(cls, parameters: GameParameters, groups: Sequence[Group]) -> str:
        """Return whether the paper's threat model allows the adversaries among `groups`, and why not; "none" if none.

        A game that has adversaries says it for each of its conditions.
        """
        return "none"

    @classmethod
    def possible_outcomes(cls, parameters: GameParameters, groups: Sequence[Group]) -> frozenset[str]:
        """Return the names of the outcomes that a game of `groups` with these parameters can have, by its rules.

        Not by who plays: whatever agents reply, no other outcome comes up. Every one, unless a game rules some out.
        """
        return frozenset(outcome.name for outcome in cls.outcomes)

    @classmethod
    def shows(cls, figure: FigureSpec, parameters: GameParameters, groups: Sequence[Group]) -> bool:
        """Return whether a figure can show anything of a condition in which `groups` play with these parameters.

        It is asked before anything is played: a figure that shows nothing of any condition is not made.
        """
        return True

    @classmethod
    def seat_names(cls, parameters: GameParameters, roles: Sequence[str], rng: np.random.Generator) -> list[str]:
        """Return a name for each agent: neutral, and in shuffled order, so that neither says anything of its role."""
        names = [f"agent_{i + 1}" for i in range(len(roles))]
        rng.shuffle(names)
        return names

    @classmethod
    def templates(cls, prompt: str, parameters: GameParameters) -> Mapping[str, Path]:
        """Return the files of the templates that agents are sent, by name; raises KeyError for an unknown prompt."""
        return cls.prompts[prompt]

    @classmethod
    def prompt_digests(cls, prompt: str, roles: Sequence[str], parameters: GameParameters) -> dict[str, str]:
        """Return the SHA-256 of the templates of `prompt` that agents of `roles` are sent.

        Templates are named after their role; these hashes are part of a simulation's identity.
        """
        return {
            template: hashlib.sha256(path.read_bytes()).hexdigest()
            for template, path in sorted(cls.templates(prompt, parameters).items())
            if template.startswith(tuple(f"{role}_" for role in roles))
        }


def new_game(
    game: type[Game],
    parameters: GameParameters,
    groups: Sequence[Group],
    prompt: str,
    seed: int,
    material: Any = None,
) -> Game:
    """Return a fresh game of `groups`, whose agents sit by role, then in the order given.

    `material` is what a record kept of it; None draws it. The names and the network depend on the seed and the number
    of agents, the game's own draws on the game and the seed alone: conditions are paired by seed.
    """
    if unknown := {group.role for group in groups} - set(game.roles):
        raise ValueError(f"unknown role: {sorted(unknown)[0]}")
    if not any(group.count > 0 for group in groups):
        raise ValueError("there must be at least one agent")
    order = sorted(range(len(groups)), key=lambda index: game.roles.index(groups[index].role))
    seated = [index for index in order for _ in range(groups[index].count)]
    roles = [groups[index].role for index in seated]
    names = game.seat_names(parameters, roles, stream("names", seed, len(seated)))
    seats = tuple(
        Seat(name, groups[index].role, groups[index].policy, index) for name, index in zip(names, seated, strict=True)
    )
    network = game.draw_network(parameters, len(seats), stream("topology", seed, len(seats)))
    if material is None:
        material = game.draw_material(parameters, seed)
    return game(parameters, seats, prompt, stream("game", game.name, seed), network, material)
