"""Conditions and simulations: frozen, each with an identity.

The identity follows from everything that can change a result and from nothing else, neither the study's name nor the
place in it.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from parley import paths
from parley.engine.models import ModelEntry
from parley.engine.service.dialect import DEFAULT_CONCURRENT
from parley.errors import UsageError
from parley.games.base import (
    Game,
    ImportedSeating,
    Point,
    new_game,
    players_of,
    scripted_roles,
    seats_of,
    split_material,
)
from parley.games.parameters import GameParameters, Group, Seat
from parley.games.playing import recast
from parley.games.prompts import OwnPrompt
from parley.identity import digest
from parley.policies import Sampling, Tokens
from parley.policies.kinds import IMPORTED, LLM, ChosenPolicy
from parley.policies.reply_text import AS_WRITTEN, Reading
from parley.text.yamlfile import check_known, plain

BASE_AXES = ("model", "n", "b", "prompt")  # in the order of the path
SCRIPTED = "scripted"  # the engine of simulations that need none
OWN_CODE = "own_code"  # the same, where code of the user's own plays
SERVICES = "services"  # that of all simulations that services alone answer: one process keeps limits and budget
SCRIPTED_AT_ONCE = 4  # while one is synced to the disk, or waits for others, another is played
BYZANTINE_AXIS = "byzantine"  # after them, in studies that vary what plays the Byzantine agents


# Axes: what a parameter's value is called in paths and tables, and what a user may write for it


def axis_value(value: Any) -> Any:
    """Return a parameter's value as it stands in a path and in the tables; a label is what it is called there.

    What is returned is text or a number for all values that can be an axis.
    """
    value = getattr(value, "label", value)
    if isinstance(value, tuple):
        return "+".join(value) or "none"
    if isinstance(value, bool):  # as YAML writes it
        return str(value).lower()
    if isinstance(value, Fraction):  # always text, so that an axis that mixes 1/2 and 2/3 has one type
        exact = str(float(value))
        return exact if Fraction(exact) == value else f"{value.numerator}_{value.denominator}"
    return value


def axes_text(axes: Mapping[str, Any]) -> str:
    """Return axes with their values for people: `model=majority, n=4`."""
    return ", ".join(f"{axis}={value}" for axis, value in axes.items())


def check_axis(where: str, name: str, axes: Iterable[str], game: type[Game]) -> None:
    """Raise UsageError, which begins with `where`, if a study has no such axis, or nothing that differs along it."""
    if name not in (axes := [*axes]) and name in (BYZANTINE_AXIS, *game.Parameters.model_fields):
        raise UsageError(f"{where}: {name}: has one value in this study, so it is no axis; remove it")
    check_known(where, name, axes, "axis")


@lru_cache(maxsize=4096)
def axis_names(game: type[Game], axis: str, text: str) -> frozenset[str]:
    """Return what the value of an axis may be called in a path if a user writes `text` for it.

    `text` is that name, or the value as it stands in a study: `0.80`, `2/3`, `True`, `{kind: erdos_renyi, p: 0.5}`.
    """
    given = plain(text)
    names = {text, str(axis_value(given))}
    if axis in game.Parameters.model_fields:
        try:
            value = TypeAdapter(game.Parameters.model_fields[axis].rebuild_annotation()).validate_python(given)
            names.add(str(axis_value(value)))
        except ValidationError:  # no condition can have it
            pass
    return frozenset(names)


@dataclass(frozen=True)
class Player:
    """What plays some agents: a policy, the model that it asks, if any, and their own prompt, if they have one."""

    policy: ChosenPolicy
    model: str | None = None
    entry: ModelEntry | None = None
    prompt: str | None = None

    @property
    def label(self) -> str:
        """A readable name, which tells groups with prompts of their own apart: `qwen3-8b-watched`."""
        return self.name if self.prompt is None else f"{self.name}-{self.prompt}"

    @property
    def name(self) -> str:
        """It without a prompt: the model's for an ordinary language model, else the policy's with its model's."""
        if self.model is None:
            return self.policy.label
        return self.model if self.policy.kind is LLM else f"{self.policy.label}-{self.model}"

    @property
    def reading(self) -> Reading:
        """How its replies are read."""
        return self.entry.reading if self.entry else AS_WRITTEN

    def identity(self) -> dict[str, Any]:
        """Return what can change its replies; a model's name in models.yaml cannot."""
        prompt = {} if self.prompt is None else {"prompt": self.prompt}
        model = {"model": self.entry.identity(), "grammar": self.entry.grammar_name} if self.entry else {}
        return self.policy.identity() | prompt | model


@dataclass(frozen=True)
class PlayerGroup:
    """Agents of one role and what plays them; `count` is at least 1. A game knows them as a `Group`, by policy."""

    role: str
    count: int
    player: Player


@dataclass(frozen=True)
class Parent:
    """A recorded game of which there are forks; `seats` says, by agent, which group plays it from the point on."""

    record: Path
    id: str
    digest: str  # of its content
    material: Any
    seats: Mapping[str, int]
    left: int = 0  # questions of it that follow the point, which a fork may ask about


@dataclass(frozen=True)
class Fork:
    """What a condition of forks does to games that were recorded: `before` is as they were played, all by seed."""

    before: "Condition"
    point: Point
    change: Mapping[str, Any]  # as in a study, as JSON
    parents: Mapping[int, Parent]

    @property
    def recasts(self) -> bool:
        """Whether others play from the point on."""
        return "swap" in self.change

    @property
    def identity(self) -> list[Any]:
        """What tells it from others, but for who plays then, which its condition says."""
        change = {kind: {"seat": how["seat"]} if kind == "swap" else how for kind, how in self.change.items()}
        return [self.before.identity, [self.point.round, self.point.phase], change]


@dataclass(frozen=True)
class Condition:
    """One cell of a study: a value for every axis."""

    game: type[Game]
    axes: Mapping[str, str | int | float]
    parameters: GameParameters
    groups: tuple[PlayerGroup, ...]
    prompt: str
    seeds: Sequence[int]  # a range where the study gives their number, else the numbers that it lists
    repeat: int | None = None  # which time its seeds are played; None where they are played once
    fork: Fork | None = None  # of what recorded games it is, which have the same seeds

    @cached_property
    def identity(self) -> str:
        """SHA-256 of all that can change a result, but the seed.

        A repeat has another one, and so other sampling seeds; what a seed deals stays the same.
        """
        counts = [group.count for group in self.groups]
        repeat = [{"repeat": self.repeat}] if self.repeat else []  # the first is what an unrepeated study plays
        parameters = self.parameters.model_dump(mode="json")
        groups = [
            {"role": group.role, **group.player.identity(), **({"prompt_digests": digests} if digests else {})}
            for group, digests in zip(self.groups, map(self._read, self.seating, self.group_digests), strict=True)
        ]
        own = [self.game.code_sha256] if self.game.code_sha256 else []
        read = self._read(self, self.prompt_digests)
        fixed = [self.game.name, self.game.protocol_version, parameters, groups, read, *own]
        fork = [{"fork": self.fork.identity}] if self.fork else []
        return digest([*fixed, counts, self.prompt, *repeat, *fork])

    @cached_property
    def spec(self) -> str:
        """Eight hexadecimal digits that name the condition in its study: the first of its identity."""
        return self.identity[:8]

    @cached_property
    def name(self) -> str:
        """All axes for people: `axis=value/axis=value/...`."""
        return "/".join(f"{axis}={value}" for axis, value in self.all_axes.items())

    @property
    def all_axes(self) -> dict[str, Any]:
        """The axes, and as one more which repeat it is, where there are several."""
        return {**self.axes, **({} if self.repeat is None else {"repeat": self.repeat})}

    @cached_property
    def folder(self) -> str:
        """The folder of its records, below that of the study's."""
        return paths.condition(self.axes, self.spec)

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models that it needs, in order."""
        return tuple(sorted(self.entries))

    @cached_property
    def entries(self) -> Mapping[str, ModelEntry]:
        """The models that it needs, by name."""
        players = [group.player for group in self.groups]
        return {player.model: player.entry for player in players if player.model is not None and player.entry}

    def money(self, tokens: Tokens) -> float:
        """Return what tokens of its simulations cost; NaN where nobody knows."""
        prices = {entry.price for entry in self.entries.values()}
        price = prices.pop() if len(prices) == 1 else None  # records do not say what each of several models used
        return price.of(tokens) if price is not None else math.nan

    @cached_property
    def plays_by_shard(self) -> bool:
        """Whether one job plays all of its simulations that are in a shard: not beside a server of ours."""
        return all(entry.is_service for entry in self.entries.values())

    @property
    def asks_services(self) -> bool:
        """Whether a service answers for any of its agents."""
        return any(entry.is_service for entry in self.entries.values())

    @cached_property
    def has_own_policies(self) -> bool:
        """Whether policies of the user's own play."""
        return any(group.player.policy.kind.is_plugin for group in self.groups)

    @property
    def keeps_journal(self) -> bool:
        """Whether its replies are kept as they come; those of rules are there again in no time."""
        return self.has_own_policies or bool(self.entries)

    @cached_property
    def engine(self) -> str:
        """What its shards are named after: SERVICES, or SCRIPTED or OWN_CODE for no model, or its models' names."""
        if self.entries:
            return SERVICES if self.plays_by_shard else "+".join(self.models)
        return OWN_CODE if self.has_own_policies else SCRIPTED

    @cached_property
    def at_once(self) -> int:
        """How many of its simulations fill what the services that answer for it allow, or the disk if none does."""
        if not self.entries:
            return SCRIPTED_AT_ONCE
        requests = min(entry.limits.concurrent or DEFAULT_CONCURRENT for entry in self.entries.values())
        return math.ceil(requests / sum(group.count for group in self.groups))

    @property
    def seating(self) -> list[Group]:
        """The groups as the study lists them."""
        return [Group(g.role, g.count, g.player.policy, g.player.reading, g.player.prompt) for g in self.groups]

    @property
    def playing(self) -> list[Group]:
        """The groups with as many agents as play, where Byzantine agents replace some that are listed."""
        if self.fork is not None and self.fork.recasts:  # its groups are of those who play
            return self.seating
        return players_of(self.parameters, self.seating, self.game.roles[-1])

    @cached_property
    def threat_model(self) -> str:
        """Whether the paper's threat model allows its adversaries: "none", "paper", or what is beyond or unknown."""
        if any(g.role == self.game.roles[-1] and g.player.policy.kind is IMPORTED for g in self.groups):
            return "unknown: imported"
        return self.game.threat_model(self.parameters, self.playing)

    @cached_property
    def possible_outcomes(self) -> frozenset[str]:
        """Names of the outcomes that its simulations can have by the rules of the game."""
        return self.game.possible_outcomes(self.parameters, self.playing)

    @cached_property
    def prompt_digests(self) -> dict[str, str]:
        """SHA-256 of the templates that its agents are sent, by name; but for groups with prompts of their own."""
        return self._digests(self.prompt, [group for group in self.seating if group.prompt is None])

    def _read(self, whose: "Condition | Group", digests: dict[str, str]) -> dict[str, str]:
        """Return what may change a result: words of a study's own prompt only where not rules alone play."""
        kinds = [group.player.policy.kind for group in self.groups]
        by_rules = not self.game.code_sha256 and all(kind.rule and not kind.is_plugin for kind in kinds)
        return {} if by_rules and isinstance(whose.prompt, OwnPrompt) else digests

    @cached_property
    def group_digests(self) -> list[dict[str, str]]:
        """The same for each group with a prompt of its own; nothing for others."""
        return [self._digests(group.prompt, [group]) if group.prompt is not None else {} for group in self.seating]

    def _digests(self, prompt: str, groups: Sequence[Group]) -> dict[str, str]:
        roles = sorted({group.role for group in groups})
        return self.game.prompts.digests(prompt, roles, self.parameters, scripted_roles(groups))

    @property
    def roles_by_prompt(self) -> dict[str, set[str]]:
        """The roles of the agents that have each prompt, by its name."""
        found: dict[str, set[str]] = {}
        for group in self.groups:
            found.setdefault(group.player.prompt or self.prompt, set()).add(group.role)
        return found

    @property
    def samplings(self) -> dict[str, Sampling]:
        """The parameters that sample the phases in which agents are asked, all if the game names no phases."""
        roles = {group.role for group in self.groups}
        phases = self.game.prompts.asked(self.parameters)
        asked = {phase.sampled_by() for phase in phases if roles.intersection(phase.roles)}
        sampled = {name: x for name, x in dict(self.parameters).items() if isinstance(x, Sampling)}
        return {name: x for name, x in sampled.items() if name in asked} or sampled

    @property
    def honest_by_rules(self) -> bool:
        """Whether rules alone play the agents of the first role; an imported game was played by something else."""
        kinds = [group.player.policy.kind for group in self.groups if group.role == self.game.roles[0] and group.count]
        return all(kind.rule is not None and kind is not IMPORTED for kind in kinds)

    def has(self, where: Mapping[str, Sequence[Any]]) -> bool:
        """Whether it has one of these values of each axis, as in a path or as a study writes them."""
        return all(
            any(str(self.axes[axis]) in axis_names(self.game, axis, str(value)) for value in values)
            for axis, values in where.items()
        )

    def count(self, role: str) -> int:
        """Return the number of agents of one role that play."""
        return sum(group.count for group in self.playing if group.role == role)


@dataclass(frozen=True)
class Simulation:
    """One condition with one seed: one game, played once.

    `recorded` is what a record kept of what it is about; None draws it.
    """

    condition: Condition
    seed: int
    recorded: Any = field(default=None, compare=False)

    @cached_property
    def material(self) -> Any:
        """What the game is about besides its parameters, as JSON; None for nothing."""
        if self.recorded is not None:
            return self.recorded
        if self.parent is not None:
            return self.parent.material
        return self.condition.game.draw_material(self.condition.parameters, self.seed)

    @property
    def parent(self) -> Parent | None:
        """The recorded game that it is a fork of, if it is one."""
        return None if self.condition.fork is None else self.condition.fork.parents[self.seed]

    @cached_property
    def before(self) -> "Simulation":
        """A fork as it was before its point."""
        assert self.condition.fork is not None
        return Simulation(self.condition.fork.before, self.seed, self.material)

    @cached_property
    def id(self) -> str:
        """SHA-256 that names this simulation, in whatever study it is."""
        fork = self.condition.fork
        if fork is None:
            return digest([self.condition.identity, self.seed])
        parent = fork.parents[self.seed]
        return digest([self.condition.identity, parent.digest])

    def record(self, study: str) -> Path:
        """Return the path of its record."""
        return paths.simulation(study, self.condition.folder, self.seed)

    def game(self) -> Game:
        """Return a fresh game, ready to be played once."""
        condition = self.condition
        if condition.fork is not None:
            begun = self.before.game()
            return recast(begun, self.seats, self.seed, condition.fork.point) if condition.fork.recasts else begun
        groups, prompt = condition.seating, condition.prompt
        return new_game(condition.game, condition.parameters, groups, prompt, self.seed, self.material)

    @cached_property
    def seats(self) -> tuple[Seat, ...]:
        """Who sits where, as `game` has it; nothing else of a game is made."""
        seating, _ = split_material(self.recorded)
        condition = self.condition
        groups, prompt = condition.seating, condition.prompt
        if self.parent is not None:
            at = self.parent.seats
            placed = [(seat.name, at[seat.name], groups[at[seat.name]]) for seat in self.before.seats]
            return tuple(Seat(name, g.role, g.policy, i, g.reading, g.prompt or prompt) for name, i, g in placed)
        return seats_of(condition.game, condition.parameters, groups, prompt, self.seed, seating)[0]

    @cached_property
    def players(self) -> dict[str, Player]:
        """What plays each agent, by the agent's name."""
        players = {seat.name: self.condition.groups[seat.group].player for seat in self.seats}
        seating, _ = split_material(None if self.parent else self.recorded)
        return players if seating is None else {name: _own(player, seating, name) for name, player in players.items()}


def _own(player: Player, seating: ImportedSeating, name: str) -> Player:
    """Return the player of one agent of an imported game, called by what played this agent, where that is known."""
    if (own := seating.players.get(name)) is None:
        return player
    parameters = player.policy.parameters.model_copy(update={"players": own})
    return Player(ChosenPolicy(player.policy.kind, parameters))
