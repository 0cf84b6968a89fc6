"""What every game is made of: asks, replies, outcomes, and the generator that turns one into the other.

A game is pure. It yields the asks of one phase and is sent the replies to them, in the same order; when it
returns, it returns the outcome. It does no I/O, reads no clock, and draws only from the generator passed in.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from pydantic import BaseModel

from parley.errors import GameError, UsageError
from parley.games.evidence import Evidence, OutcomeClass
from parley.games.network import Network, Star, check_topology, draw_network
from parley.games.parameters import BYZANTINE, HONEST, GameParameters, Group, P, Seat
from parley.games.prompts import Instruction, Phase, Prompts, fill
from parley.identity import stream
from parley.policies import FIRST_STEP, Ask, Reply, ReplyFormat
from parley.policies.kinds import LLM, PolicyKind
from parley.text import by_number, choose

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Paper:
    """The publication that a game is from."""

    title: str
    url: str


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a simulation ended: all of it is JSON. `trace` has a mapping per round."""

    name: str
    detail: str | None = None
    diagnosis: str | None = None
    rounds: int
    finished_early: bool = False
    metrics: Mapping[str, Any] = field(default_factory=dict)
    trace: tuple[Mapping[str, Any], ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the outcome as plain JSON values."""
        return json.loads(json.dumps(self.__dict__))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Point:
    """Where a game is changed: before the first question of a round, or of a phase of it; None is the first phase."""

    round: int
    phase: str | None = None

    def is_of(self, number: int, phase: str) -> bool:
        """Whether a question of this round and phase is at the point."""
        return number == self.round and self.phase in (None, phase.removesuffix(FIRST_STEP))

    def __str__(self) -> str:
        return f"{self.round}" if self.phase is None else f"{self.round}-{self.phase}"


class Game(ABC, Generic[P]):
    """The rules of a game: the class says what a study may ask for, an instance is played once.

    A game says its `Parameters`, its `outcomes` and `play`; all else has a default.
    """

    name: ClassVar[str]  # by default that of the class: `stag_hunt` of StagHuntGame
    # Raised whenever agents would read something else, or the same replies could lead to another outcome.
    # tests/games/test_versions.py finds it where it is forgotten.
    protocol_version: ClassVar[int] = 1
    code_sha256: ClassVar[str] = ""  # of the source of a game of the user's own; part of the identity
    does: ClassVar[str] = ""  # what agents do, in a sentence for strangers; the report begins with it
    paper: ClassVar[Paper | None] = None
    roles: ClassVar[tuple[str, ...]] = (HONEST, BYZANTINE)
    outcomes: ClassVar[tuple[OutcomeClass, ...]]
    Parameters: ClassVar[type[GameParameters]] = GameParameters
    policies: ClassVar[Mapping[str, PolicyKind]] = {LLM.name: LLM}  # by name; LLM among them
    read_texts: ClassVar[frozenset[str]] = frozenset()  # texts of replies that decide how the game goes on
    prompts: ClassVar[Prompts[Any]] = Prompts()
    evidence: ClassVar[Evidence[Any]] = Evidence()
    begun: "tuple[Game[P], Point] | None" = None  # the game that it goes on from, at this point

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        if not hasattr(cls, "name"):
            cls.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__.removesuffix("Game")).lower()

    def __init__(
        self,
        parameters: P,
        seats: tuple[Seat, ...],
        prompt: str,
        rng: "np.random.Generator",
        network: Network | None = None,
        material: Any = None,
    ) -> None:
        """`network` says who hears whom; None is the complete one. `material` is what `draw_material` drew."""
        self.network = network or Network.complete(len(seats))
        self.parameters = parameters
        self.seats = tuple(seat if seat.prompt else replace(seat, prompt=prompt) for seat in seats)
        self.rng = rng
        self.material = material
        self.sent = cache(partial(self.prompts.sent, parameters=parameters))
        self._form = cache(self._form_of)
        self.set_up()

    def set_up(self) -> None:
        """Draw and keep what this game needs before it is played; called once, by the constructor."""

    @property
    def about(self) -> str:
        """What this game is about, for people; "" for nothing."""
        return ""

    @abstractmethod
    def play(self) -> Generator[list[Ask], list[Reply], Outcome]:
        """Play once: yield the asks of each phase, be sent the replies, return the outcome."""

    def ask(
        self,
        seat: Seat,
        number: int,
        phase: str | Phase,
        values: Mapping[str, object],
        reply_model: type[BaseModel],
        view: Any,
    ) -> Ask:
        """Return what an agent is asked in round `number`: the prompts of the phase, filled with `values`.

        `view` is what they say, as data, for scripted policies. Raises GameError for a phase that the prompts lack.
        """
        phase, written, form = self._form(seat.role, self.parameters.format_for(seat), phase)
        filled = {"reply": form.reply, **values}

        def prompted(part: str) -> str:
            return fill(self.wording(seat, phase, part, form), filled, doubled=phase.doubled)

        return Ask(
            agent=seat.name,
            role=seat.role,
            round=number,
            phase=phase.name,
            # What a policy tells a language model besides stands on lines of its own.
            system="\n".join(filter(None, [prompted("system"), seat.policy.instructions])),
            user=prompted("user"),
            reply_model=reply_model,
            sampling=getattr(self.parameters, phase.sampled_by()),
            reply_format=written,
            follow_up=form.follow_up and prompted("follow_up"),
            view=view,
        )

    def _form_of(
        self, role: str, reply_format: ReplyFormat, phase: str | Phase
    ) -> tuple[Phase, ReplyFormat, Instruction]:
        """Return a phase, by its name or itself, and how agents of a role reply in it."""
        if isinstance(phase, str):
            phases = {each.name: each for each in self.prompts.asked(self.parameters)}
            if phase not in phases:
                raise GameError(f"{self.name}: its prompts have no phase {phase}; {choose(phase, phases)}")
            phase = phases[phase]
        return phase, phase.written(reply_format), phase.form(role, reply_format)

    def wording(self, seat: Seat, phase: Phase, part: str, form: Instruction) -> str:
        """Return the unfilled text of a part of a question: `system`, `user`, or the `follow_up` of a second step.

        It is made of the texts that the seat is `sent`, which are in the identity. Raises GameError if there is none.
        """
        if part == "follow_up":
            return form.follow_up
        texts, names = self.sent(seat.prompt, seat.role), phase.templates(part)
        for name in names:
            if name in texts:
                return texts[name]
        raise GameError(f"{self.name}: the prompt {seat.prompt} has no {seat.role}_{names[0]}; write it")

    @classmethod
    def check(cls, parameters: P, groups: Sequence[Group]) -> None:
        """Raise UsageError, in one line with the remedy, if `groups` cannot play with these parameters."""
        check_topology(parameters.topology, sum(group.count for group in groups))
        check_seat(parameters, groups, cls.roles[-1])
        for group in groups:  # also those whose agents are all replaced: in other seeds some may stay
            if problem := group.policy.misfit(parameters):
                raise UsageError(f"{group.role}: {group.policy.kind.name}: {problem}")

    @classmethod
    def draw_material(cls, parameters: P, seed: int) -> Any:
        """Return what the game of this seed is about besides its parameters, as JSON; None for nothing.

        The record keeps it, so that a replay needs no other file. Raises UsageError if it cannot be had.
        """
        return None

    @classmethod
    def imported_material(cls, parameters: P, roles: Mapping[str, str], recorded: Mapping[str, Any]) -> Any:
        """Return the material of a game that other code played, from what its file recorded; ValueError if wrong.

        `roles` are those of its agents by name.
        """
        raise ValueError(f"{cls.name}: its games cannot be imported")

    @classmethod
    def threat_model(cls, parameters: P, groups: Sequence[Group]) -> str:
        """Return "none" without adversaries, "paper" if the paper's model allows them, else what is `beyond` it."""
        kinds = [group.policy.kind for group in groups if group.role == BYZANTINE and group.count]
        if not kinds or cls.paper is None:
            return "none"
        if reasons := "; ".join(dict.fromkeys(cls.beyond(parameters, groups))):
            return f"beyond: {reasons}"
        return "unknown: own policy" if any(kind.is_plugin for kind in kinds) else "paper"

    @classmethod
    def beyond(cls, parameters: P, groups: Sequence[Group]) -> Iterable[str]:
        """Return what of the adversaries, of whom there are some, the paper's threat model excludes."""
        return ()

    @classmethod
    def arms(cls, parameters: P, agents: int) -> Mapping[str, tuple[Mapping[str, Any], int]]:
        """Return the games that one is held against (`compare_with`), by name: parameters, and how many agents."""
        return {}

    @classmethod
    def possible_outcomes(cls, parameters: P, groups: Sequence[Group]) -> frozenset[str]:
        """Return the names of the outcomes that the rules allow, whatever agents reply; all by default."""
        return frozenset(outcome.name for outcome in cls.outcomes)

    @classmethod
    def plays_fractions(cls, parameters: P) -> bool:
        """Return whether values of this game may be fractions (columns of the type "number")."""
        return False

    @classmethod
    def class_of(cls, name: str, detail: str | None) -> str:
        """Return the outcome class in which tables and figures count an outcome; records stay as they are."""
        return name

    @classmethod
    def seat_names(cls, parameters: P, roles: Sequence[str], rng: "np.random.Generator") -> list[str]:
        """Return a name for each agent: neutral, and in shuffled order, so that neither says anything of its role."""
        names = [f"agent_{i + 1}" for i in range(len(roles))]
        rng.shuffle(names)
        return names


def scripted_roles(agents: Collection[Group | Seat]) -> frozenset[str]:
    """Return the roles of which nobody reads what is sent: rules alone play them."""
    of_rules = {agent.role for agent in agents if agent.policy.kind.rule is not None}
    return frozenset(of_rules - {agent.role for agent in agents if agent.policy.kind.rule is None})


def new_game(
    game: type[Game],
    parameters: GameParameters,
    groups: Sequence[Group],
    prompt: str,
    seed: int,
    material: Any = None,
) -> Game:
    """Return a fresh game of `groups`, whose agents sit by role, then in the order given.

    `material` is what a record kept; None draws it. Names and network depend on the seed and the number of agents, the
    game's own draws on game and seed alone: conditions are paired by seed. Raises ValueError for groups that are none.
    """
    seating, material = split_material(material)
    seats, network = seats_of(game, parameters, groups, prompt, seed, seating)
    if network is None:
        network = draw_network(parameters.topology, len(seats), stream("topology", seed, len(seats)))
    if material is None:
        material = game.draw_material(parameters, seed)
    return game(parameters, seats, prompt, stream("game", game.name, seed), network, material)


def seats_of(
    game: type[Game],
    parameters: GameParameters,
    groups: Sequence[Group],
    prompt: str,
    seed: int,
    seating: "ImportedSeating | None",
) -> tuple[tuple[Seat, ...], Network | None]:
    """Return who sits where in a game (`new_game`), and its network if that was needed to know."""
    if unknown := {group.role for group in groups} - set(game.roles):
        raise ValueError(f"unknown role: {sorted(unknown)[0]}")
    if not any(group.count > 0 for group in groups):
        raise ValueError("there must be at least one agent")
    order = sorted(range(len(groups)), key=lambda index: game.roles.index(groups[index].role))
    listed = [index for index in order for _ in range(groups[index].count)]
    roles = [groups[index].role for index in listed]
    n = sum(group.count for group in players_of(parameters, groups, game.roles[-1]))
    names = seating.names(roles) if seating else game.seat_names(parameters, roles[:n], stream("names", seed, n))
    named = list(zip(names, range(n), strict=True))
    network = None
    if seating and seating.links is not None:
        network = seating.network()
    elif not seating and parameters.seat is not None:  # a seating says who sits where
        named, network = seated(parameters, roles, names, seed, game.roles[-1])
    seated_groups = [(name, listed[place], groups[listed[place]]) for name, place in named]
    return tuple(Seat(n, g.role, g.policy, i, g.reading, g.prompt or prompt) for n, i, g in seated_groups), network


# Who sits where, if a study says it (`seat`): the agents of the last role, and the hub of a star.
#
# With `seat`, agents sit in the order in which the study lists them, around the adversaries, whose seats are drawn for
# each seed among those that `seat` allows. So is who stands where in the network, if its places differ in their links:
# a ring keeps the order of the agents.


def players_of(parameters: GameParameters, groups: Sequence[Group], last_role: str) -> list[Group]:
    """Return the groups with as many agents as play: those who are replaced are taken from the last groups."""
    playing = list(groups)
    if not parameters.replaces_honest:
        return playing
    left = sum(group.count for group in groups if group.role == last_role)
    for place in reversed(range(len(playing))):
        if playing[place].role != last_role:
            gone = min(left, playing[place].count)
            playing[place] = replace(playing[place], count=playing[place].count - gone)
            left -= gone
    return playing


def check_seat(parameters: GameParameters, groups: Sequence[Group], last_role: str) -> None:
    """Raise UsageError, with the remedy, if the agents of the last role cannot sit as `seat` says."""
    seat, topology = parameters.seat, parameters.topology
    if parameters.replaces_honest and seat is None:
        raise UsageError("replaces_honest: needs to know whose seats may be taken; set seat: any")
    if seat is None:
        return
    if seat != "any" and not isinstance(topology, Star):
        raise UsageError(f"seat: {seat}: topology {topology} has none; use star")
    adversaries = sum(group.count for group in groups if group.role == last_role)
    n = sum(group.count for group in groups)
    places = {"hub": 1, "spoke": n - 1, "any": n}[seat]
    if adversaries > places:
        raise UsageError(
            f"seat: {seat}: has room for {places}, and there are {adversaries} {last_role} agents; lower b"
        )


def seated(
    parameters: GameParameters, roles: Sequence[str], names: Sequence[str], seed: int, last_role: str
) -> tuple[list[tuple[str, int]], Network]:
    """Return the name of each agent that plays with its place in `roles`, and the network.

    `names` are neutral, as drawn. Draws of two values of `seat` agree as far as they can: conditions are paired.
    """
    n = len(names)
    rng = stream("topology", seed, n)
    network = draw_network(parameters.topology, n, rng)
    at: Sequence[int] = range(n)  # the agent that stands at each node, counted from 0
    if len({len(peers) for peers in network.neighbors}) > 1:
        at = [int(place) for place in stream("seats", seed, n).permutation(n)]
        network = Network.of_edges(n, [(at[node], at[peer]) for node in range(n) for peer in network.neighbors[node]])
    adversaries = [place for place, role in enumerate(roles) if role == last_role]
    in_turn = [by_number(name)[1] - 1 for name in reversed(names)]  # as they would sit without `seat`, the last first
    hub = at[0]
    allowed = {"hub": [hub], "spoke": [agent for agent in in_turn if agent != hub]}.get(parameters.seat or "", in_turn)
    taken = allowed[: len(adversaries)]
    listed = [place for place, role in enumerate(roles) if role != last_role]
    free = [agent for agent in range(n) if agent not in taken]
    # Who is replaced does not play; else the listed ones fill the free seats in their order.
    honest = [(agent, listed[agent if parameters.replaces_honest else place]) for place, agent in enumerate(free)]
    pairs = sorted([*honest, *zip(taken, adversaries, strict=True)], key=lambda pair: pair[1])
    return [(f"agent_{agent + 1}", place) for agent, place in pairs], network


# Games that were played elsewhere: the record keeps who sat where as its material


_KEY = "imported"


@dataclass(frozen=True)
class ImportedSeating:
    """The agents of an imported game by name, with roles and players; `links` are pairs, None is everyone."""

    roles: Mapping[str, str]
    players: Mapping[str, str]
    links: Sequence[tuple[str, str]] | None

    def names(self, roles: Sequence[str]) -> list[str]:
        """Return the agents in the order of these `roles`; raises ValueError if they are others."""
        by_role = {role: [name for name, own in self.roles.items() if own == role] for role in {*roles}}
        if sorted(roles) != sorted(self.roles.values()):
            raise ValueError("its agents have other roles than its groups")
        return [by_role[role].pop(0) for role in roles]

    def network(self) -> Network:
        """Return who sees whom."""
        place = {name: index for index, name in enumerate(sorted(self.roles, key=by_number))}
        return Network.of_edges(len(place), ((place[a], place[b]) for a, b in self.links or ()))

    def as_material(self, own: Any) -> dict[str, Any]:
        """Return it as JSON, with the material that the game itself has."""
        links = None if self.links is None else [list(link) for link in self.links]
        return {_KEY: {"roles": dict(self.roles), "players": dict(self.players), "links": links}, "material": own}


def split_material(material: Any) -> tuple[ImportedSeating | None, Any]:
    """Return the seating of an imported game, None of one that Parley played, and the game's own material."""
    if not isinstance(material, Mapping) or _KEY not in material:
        return None, material
    seating = material[_KEY]
    links = None if seating["links"] is None else [(str(a), str(b)) for a, b in seating["links"]]
    return ImportedSeating(dict(seating["roles"]), dict(seating["players"]), links), material["material"]
