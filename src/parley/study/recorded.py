"""What a record describes: its game, prompts and policies, the simulation that it is of; and forks of such games.

Forks are recorded games that are played again up to a point, changed there, and let go on. A condition of them is what
a change at a point does to the recorded games of one condition; its seeds are theirs. What is read here of a record is
what it says it is; that its replies are these is checked before anything is played (`parley.play.forks`).
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from parley import paths
from parley.engine.models import recorded_entry
from parley.errors import RecordError, UsageError, located
from parley.files import open_regular, read_columns
from parley.games.base import Game, Point
from parley.games.own_game import game_with
from parley.games.prompts import OwnPrompt
from parley.games.registry import game_class
from parley.identity import digest
from parley.policies import FIRST_STEP
from parley.policies.kinds import IMPORTED, ChosenPolicy, PolicyKind, find_kind
from parley.policies.own_code import PluginParameters
from parley.study.condition import BASE_AXES, Condition, Fork, Parent, Player, PlayerGroup, Simulation
from parley.study.expand import Expander, check_size
from parley.study.study_file import ALL, EACH, Change, ForkKeys, SaidInstead
from parley.text import one_line
from parley.text.yamlfile import check_known, is_slug
from parley.trust import names_own_code


def rebuilt(path: Path, described: Any, version: object = "unknown") -> Simulation:
    """Return the simulation that a record describes, made by a `version`; raises RecordError if its id is another now.

    `described` is what the record says of its simulation.
    """
    try:
        simulation = recorded_simulation(path, described)
        same = simulation.id == described["id"]
    except (UsageError, ValidationError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(f"{path}: describes no simulation that can be played: {one_line(str(error), 150)}") from None
    if not same:
        raise RecordError(
            f"{path}: its game or prompts changed since, so this version of Parley plays another simulation; use "
            f"the version that made it ({one_line(str(version), 40)})"
        )
    return simulation


def recorded_simulation(path: Path, described: Any) -> Simulation:
    """Return the simulation that a record describes, whatever its id; raises what a bad description does."""
    game = recorded_game(path, described)
    own = recorded_prompts(game, described)
    seed = int(described["seed"])
    condition = Condition(
        game=game,
        axes={**{axis: described["axes"][axis] for axis in BASE_AXES}, **described["axes"]},
        parameters=game.Parameters.model_validate(described["parameters"]),
        groups=tuple(PlayerGroup(g["role"], g["count"], _player_of(game, g, own)) for g in described["groups"]),
        prompt=own.get(described["prompt"], described["prompt"]),
        seeds=(seed,),
        repeat=described.get("repeat"),
        fork=_fork_of(path, described["fork"], seed) if "fork" in described else None,
    )
    return Simulation(condition, seed, described.get("material"))


def _fork_of(path: Path, described: Any, seed: int) -> Fork:
    before, parent = described["before"], described["parent"]
    point = Point(described["round"], described["phase"])
    parents = {seed: Parent(path, parent["id"], parent["digest"], None, described["seats"])}
    return Fork(recorded_simulation(path, before).condition, point, described["change"], parents)


def _player_of(game: type[Game], group: Mapping[str, Any], prompts: Mapping[Any, Any]) -> Player:
    """Return what plays a group as a record describes it; code of the user's own is neither needed nor run."""
    if "code_sha256" in group:
        kind = PolicyKind(group["policy"], Parameters=PluginParameters, fingerprint=group["code_sha256"])
    else:
        kind = find_kind(game.policies, group["policy"])
    policy = ChosenPolicy(kind, kind.Parameters.model_validate(group.get("parameters", {})))
    prompt = prompts.get(group.get("prompt"), group.get("prompt"))
    if "model" not in group:
        return Player(policy, prompt=prompt)
    return Player(policy, group["model_name"], recorded_entry(group["model"], group.get("grammar")), prompt)


def recorded_prompts(game: type[Game], simulation: Mapping[str, Any]) -> dict[str, OwnPrompt]:
    """Return, by name, the prompts that a study brought, with their templates as far as a record has them.

    Raises UsageError, or AttributeError, TypeError or ValueError, for templates that the game cannot fill in.
    """
    unsent = next(iter(game.prompts.variants.values()))
    by_prompt: dict[str, dict[str, str]] = {}
    for described in (simulation, *simulation["groups"]):
        if "templates" in described:
            by_prompt.setdefault(described["prompt"], {}).update(described["templates"])
    return {name: game.prompts.own(name, {**unsent, **templates}) for name, templates in by_prompt.items()}


def recorded_game(path: Path, simulation: Mapping[str, Any]) -> type[Game]:
    """Return the game that a record describes; of a game of the user's own the source must be the recorded one.

    Raises RecordError if it is another one, or gone; UsageError for an unknown game.
    """
    name = str(simulation["game"])
    if not names_own_code(name):
        return game_class(name)
    try:
        return game_with(name, str(simulation.get("game_code_sha256")))
    except UsageError as error:
        raise RecordError(f"{path}: {error}") from None


# Forks


_NO_FORK = frozenset({"at", "change"})  # axes of forks, which a fork of a fork would have twice


@dataclass(frozen=True)
class RecordedGame:
    """A recorded game: its simulation, the digest of its content, and who was asked in which phases, in order."""

    record: Path
    simulation: Simulation
    digest: str
    phases: Sequence[tuple[int, str, frozenset[str]]]

    def at(self, point: Point) -> frozenset[str] | None:
        """Return who was asked in the first phase at a point; None for a game that ended before it."""
        return next((agents for number, phase, agents in self.phases if point.is_of(number, phase)), None)

    def left(self, point: Point, change: Change) -> int:
        """Return how many questions of the game are not answered by its record in a fork."""
        start = next(i for i, (number, phase, _) in enumerate(self.phases) if point.is_of(number, phase))
        return sum(len(agents) for _, _, agents in self.phases[start + change.of_messages :])

    @property
    def axes(self) -> Mapping[str, Any]:
        """What `where` chooses it by."""
        return {**self.simulation.condition.axes, "spec": self.simulation.condition.spec}

    @cached_property
    def roles(self) -> Mapping[str, str]:
        """The role of each agent."""
        return {seat.name: seat.role for seat in self.simulation.seats}

    def selected(self, seat: str) -> frozenset[str]:
        """Return the agents that an agent's name, a role or "" (all) stands for; raises UsageError if nobody."""
        agents = frozenset(name for name, role in self.roles.items() if seat in ("", ALL, name, role))
        if not agents:
            check_known(f"{self.record}", seat, [*dict.fromkeys(self.roles.values()), *self.roles], "agent or role")
        return agents


def read_game(path: Path) -> RecordedGame:
    """Return a recorded game; raises RecordError for what is no record, or no game that this version plays."""
    import pyarrow as pa  # slow to import: few studies fork games

    try:
        with open_regular(path) as file:
            read = read_columns(file, ["round", "phase", "agent"])
        content = json.loads((read.schema.metadata or {})[b"parley"])
        rows = read.to_pylist()
        found, version = str(content["digest"]), content.get("provenance", {}).get("parley", "unknown")
        described = content["simulation"]
    except (OSError, pa.ArrowException, ValueError, LookupError, TypeError, AttributeError):
        raise RecordError(f"{path}: no record of Parley; name one, which is called seed=N.parquet") from None
    simulation = rebuilt(path, described, version)
    if _NO_FORK & set(simulation.condition.axes):
        raise RecordError(f"{path}: is a fork itself; name the game that it is of")
    asked = groupby(rows, lambda row: (row["round"], row["phase"].removesuffix(FIRST_STEP)))
    phases = [(*key, frozenset(row["agent"] for row in of)) for key, of in asked]
    return RecordedGame(path, simulation, found, phases)


def _records(of: str, where: str, file: Path) -> list[Path]:
    """Return the records that `of` names, as a study, a folder or a file."""
    places = [paths.simulations(of)] if "/" not in of and not of.endswith(".parquet") else []
    places += [file.parent / of, paths.root() / of]
    for place in places:
        if found := [place] if place.is_file() else sorted(filter(paths.is_record, place.rglob("*"))):
            return found
    raise UsageError(f"{where}.of: {one_line(of, 200)}: no records; name a study that was played, or a folder")


def _chosen(keys: ForkKeys, where: str, file: Path) -> list[RecordedGame]:
    """Return the recorded games that a study has forks of: of what was played several times, the first."""
    games = [game for game in map(read_game, _records(keys.of, where, file)) if not game.simulation.condition.repeat]
    for axis, value in keys.where.items():
        check_known(f"{where}.where", str(value), sorted({str(game.axes.get(axis)) for game in games}), axis)
        games = [game for game in games if str(game.axes.get(axis)) == str(value)]
    games = [game for game in games if keys.seeds is None or game.simulation.seed in keys.seeds]
    if not games:
        raise UsageError(f"{where}.seeds: no game has one of them; name others")
    return games


def label(change: Change, player: Player | None) -> str:
    """Return what a change is called in a path: `silence-byzantine`, `swap-agent_2-majority`."""
    parts = [change.kind, change.seat]
    if isinstance(change.say, SaidInstead):
        parts += ["_".join(str(value).split()) for value in (change.say.model_extra or {}).values()]
        parts += [] if change.say.text is None else [digest(change.say.text)[:6]]
    if change.swap is not None:
        to = change.swap.to
        parts.append(to if isinstance(to, str) else player.label if player else "")
    text = "-".join(part for part in parts if part)
    return text if is_slug(text.replace("+", "-")) else f"{change.kind}-{digest(text)[:6]}"


def _point(at: int | str) -> Point:
    """Return the point that is written as a round, or a round and a phase."""
    number, _, phase = str(at).partition("-")
    return Point(int(number), phase or None)


class Forks:
    """Turns recorded games, points and changes into conditions."""

    def __init__(self, where: str, game: type[Game], expander: Expander) -> None:
        """`where` is what messages begin with; the expander knows the players of the study."""
        self._where, self._game, self._expander = where, game, expander

    def conditions(self, keys: ForkKeys, file: Path) -> tuple[Condition, ...]:
        """Return a condition for each one of the recorded games, point and change; raises UsageError, RecordError.

        Games that end before a point are left out of its conditions.
        """
        by_condition: dict[str, list[RecordedGame]] = defaultdict(list)
        for each in _chosen(keys, self._where, file):
            if (name := each.simulation.condition.game.name) != self._game.name:
                raise UsageError(f"{self._where}: {each.record}: is a game of {name}, not {self._game.name}")
            by_condition[each.simulation.condition.identity].append(each)
        played = [phase for own in by_condition.values() for game in own for phase in game.phases]
        known = list(dict.fromkeys(phase for _, phase, _ in played))
        for phase in filter(None, (str(each).partition("-")[2] for each in keys.at)):
            check_known(f"{self._where}: at", phase, known, "phase of these games")
        found: dict[str, Condition] = {}
        for own in by_condition.values():
            for point, change in self._places(own, keys):
                condition = self._condition(own, point, change)
                if condition is not None and found.setdefault(condition.name, condition).spec != condition.spec:
                    said = "two conditions of one name; choose one with where: {spec: ...}"
                    raise UsageError(f"{self._where}: {condition.name}: {said}")
        if not found:
            rounds = [number for number, _, _ in played]
            there = f"rounds {min(rounds)} to {max(rounds)}"
            raise UsageError(f"{self._where}: at: no game has this point; choose one of the {there}")
        conditions = list(found.values())
        if any(isinstance(condition.axes["at"], str) for condition in conditions):  # an axis has one type
            conditions = [replace(c, axes={**c.axes, "at": str(c.axes["at"])}) for c in conditions]
        number = sum(len(condition.seeds) for condition in conditions) * keys.repeats
        check_size(self._where, len(conditions) * keys.repeats, number)
        return tuple(conditions)

    def _places(self, games: Sequence[RecordedGame], keys: ForkKeys) -> Iterator[tuple[Point, Change]]:
        """Yield points and changes: in the order of the points, then of the phases in which each message is silenced.

        With what is done to messages of one phase goes the change that keeps them, if no change is listed.
        """
        phases = dict.fromkeys((number, phase) for game in games for number, phase, _ in game.phases)
        rounds = sorted({number for number, _ in phases})
        points = [point for at in keys.at for point in (map(Point, rounds) if at == EACH else [_point(at)])]
        messages = []
        if any(change.silence == EACH for change in keys.change):
            in_order = sorted(phases, key=lambda phase: phase[0])  # stable: phases of a round stay in their order
            messages = [Point(*phase) for phase in in_order if any(point.is_of(*phase) for point in points)]
        for point in dict.fromkeys([*points, *messages]):
            here: list[Change] = []
            for change in keys.change:
                if change.silence == EACH and point in messages:
                    asked = {name for game in games for name in game.at(point) or ()}
                    here += [Change(silence_once=name) for name in sorted(asked)]
                elif change.silence != EACH and point in points:
                    here.append(change)
            if any(change.kind == "none" for change in keys.change) and any(change.of_messages for change in here):
                here.insert(0, Change(keep=True))
            yield from ((point, change) for change in here)

    def _condition(self, games: Sequence[RecordedGame], point: Point, change: Change) -> Condition | None:
        before = games[0].simulation.condition
        player, role = self._player(before, change)
        parents: dict[int, Parent] = {}
        groups: tuple[PlayerGroup, ...] | None = None
        for game in games:
            asked, selected = game.at(point), game.selected(change.seat)
            if asked is None or (change.kind in ("say", "silence_once") and not selected & asked):
                continue
            own, seats = self._cast(game.simulation, selected, player, role)
            if groups not in (None, own):
                said = f"{change.kind}: {change.seat}: is of another group in other games"
                raise UsageError(f"{self._where}: change: {said}; name a role, or choose one seed")
            groups = own
            seed = game.simulation.seed
            if seed in parents:
                raise UsageError(f"{self._where}: of: {game.record}: another record of the same game; choose one")
            parents[seed] = Parent(
                game.record, game.simulation.id, game.digest, game.simulation.material, seats, game.left(point, change)
            )
        if groups is None:
            return None
        if any(group.player.policy.kind is IMPORTED for group in groups):
            raise UsageError(f"{self._where}: {games[0].record}: was played elsewhere, so it has no forks")
        written = change.model_dump(mode="json", exclude_none=True)
        number = point.round if point.phase is None else str(point)
        condition = Condition(
            game=before.game,
            axes={**before.axes, "at": number, "change": label(change, player)},
            parameters=before.parameters,
            groups=groups,
            prompt=before.prompt,
            seeds=tuple(sorted(parents)),
            fork=Fork(before, point, written, parents),
        )
        if condition.fork is not None and condition.fork.recasts:
            with located(f"{self._where}: change"):
                before.game.check(before.parameters, condition.playing)
        return condition

    def _player(self, before: Condition, change: Change) -> tuple[Player | None, str | None]:
        """Return who plays the seats of a change from then on, and their role if that is another one."""
        where = f"{self._where}: change"
        if change.swap is None:
            return None, None
        to = change.swap.to
        if isinstance(to, str) and to in self._game.roles:
            own = next((group.player for group in before.groups if group.role == to and group.count), None)
            if own is None:
                raise UsageError(f"{where}: swap: to: {to}: no agent of these games has this role")
            return own, to
        role = change.swap.seat if change.swap.seat in self._game.roles else self._game.roles[-1]
        return self._expander.player(to, f"{where}: swap: to", role), None

    def _cast(
        self, game: Simulation, selected: Collection[str], player: Player | None, role: str | None
    ) -> tuple[tuple[PlayerGroup, ...], dict[str, int]]:
        """Return the groups that play from the point on, and the group of each agent by name."""
        old = game.condition.groups
        if player is None:
            return tuple(self._with_entry(group) for group in old), {seat.name: seat.group for seat in game.seats}
        places = {seat.name: (seat.name in selected, seat.group) for seat in game.seats}
        order = sorted(set(places.values()))
        groups = []
        for is_new, at in order:
            count = sum(place == (is_new, at) for place in places.values())
            group = replace(old[at], count=count)
            if is_new:
                group = PlayerGroup(role or group.role, count, replace(player, prompt=group.player.prompt))
            groups.append(self._with_entry(group))
        return tuple(groups), {name: order.index(place) for name, place in places.items()}

    def _with_entry(self, group: PlayerGroup) -> PlayerGroup:
        """Return a group whose model is asked where models.yaml says, if the record's is there."""
        player = group.player
        if player.model is None or player.entry is None:
            return group
        return replace(group, player=replace(player, entry=self._expander.entry_as(player.model, player.entry)))
