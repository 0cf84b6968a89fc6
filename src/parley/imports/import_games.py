"""The `import` command: games that were played elsewhere become a study file and its records.

Each is played by the rules from its replies, and compared with what it says. The study is loaded like any other, and
each record is that of one of its simulations: from there on nothing differs.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from parley import paths
from parley.errors import ParleyError, RecordError, UsageError
from parley.files import read_regular, write_atomically
from parley.games.base import Game, ImportedSeating, new_game
from parley.games.parameters import BYZANTINE, HONEST, Group
from parley.identity import canonical_json, digest
from parley.imports import byzantine_cheap_talk, byzantine_consensus
from parley.imports.games import (
    CUT_SHORT,
    ENDED,
    MISSING,
    NO_GAME,
    PAYOFFS,
    TWICE,
    UNASKED,
    Defect,
    ImportedGame,
)
from parley.play.record import provenance, write_record
from parley.play.record_store import read_own, write_conditions
from parley.play.replay import Key, replay_replies
from parley.play.runner import Play
from parley.policies.kinds import IMPORTED, ChosenPolicy, ImportedGames
from parley.study import Study, load_study
from parley.study.condition import Simulation
from parley.text import choose, counted, one_line
from parley.text.yamlfile import is_slug, yaml_text

FORMATS = {
    "byzantine-cheap-talk": byzantine_cheap_talk.FORMAT,
    "byzantine-consensus": byzantine_consensus.FORMAT,
}


# What is wrong with a game


def check(found: Iterable[ImportedGame | Defect]) -> tuple[list[ImportedGame], list[Defect]]:
    """Return the games that are as the rules would have them, each once, and all that is wrong with others."""
    games: list[ImportedGame] = []
    defects: list[Defect] = []
    seen: dict[tuple[str, str], str] = {}
    for each in found:
        if isinstance(each, Defect):
            defects.append(each)
            continue
        try:
            wrong = list(_defects(each, *played(each)))
            first = seen.setdefault((condition_key(each), each.sha256), each.file)
        except (ParleyError, ValidationError, LookupError, ValueError) as error:
            defects.append(Defect(NO_GAME, each.file, one_line(str(error), 150)))
            continue
        if first != each.file:
            wrong.append(Defect(TWICE, each.file, f"{first} is the same"))
        defects += wrong
        games += [] if wrong else [each]
    return games, defects


def condition_key(game: ImportedGame) -> str:
    """Return what tells the condition of a game: all but its seed, its replies and who sat where."""
    byzantine = game.byzantine if game.byzantine_agents else ""
    who = [game.players, byzantine, len(game.agents), game.byzantine_agents, game.prompt]
    return canonical_json([*who, game.own_parameters.model_dump(mode="json")])


def played(game: ImportedGame) -> tuple[Play, list[Key]]:
    """Play a game by the rules from its replies; return what happened, and which replies are missing."""
    return replay_replies("", _new(game), game.replies)


def _new(game: ImportedGame) -> Game:
    if game.prompt not in game.rules.prompts:
        raise ValueError(f"prompt {game.prompt}: {choose(game.prompt, game.rules.prompts)}")
    policy = ChosenPolicy(IMPORTED, ImportedGames(players=game.players))
    groups = [
        Group(HONEST, len(game.agents) - game.byzantine_agents, policy),
        Group(BYZANTINE, game.byzantine_agents, policy),
    ]
    game.rules.check(game.own_parameters, groups)
    return new_game(game.rules, game.own_parameters, groups, game.prompt, game.number, _material(game))


def _material(game: ImportedGame) -> Any:
    """Return what the record of a game keeps of who sat where, and of what a seed would deal.

    Raises ValueError if the game needs more than its file says.
    """
    players = {name: agent.player for name, agent in game.agents.items()}
    roles = {name: agent.role for name, agent in game.agents.items()}
    own = game.rules.imported_material(game.own_parameters, roles, game.material)
    return ImportedSeating(roles, players, game.links).as_material(own)


def _defects(game: ImportedGame, play: Play, missing: Sequence[Key]) -> Iterator[Defect]:
    """Yield what is wrong with a game of which so much is missing; whatever has one place, with the first of them."""
    last = max((given.round for given in game.replies), default=0)
    rounds = max((x.entry.round for x in play.exchanges), default=0)
    if last < rounds:
        yield Defect(CUT_SHORT, game.file, f"{last} of {rounds} rounds")
    # Told once, however often it is asked.
    lacks = {(number, agent): phase for number, phase, agent in reversed(missing) if number <= last}
    for (number, agent), phase in sorted(lacks.items()):
        yield Defect(MISSING, game.file, f"round {number}: {agent} has no {phase}")
    asked = {x.entry.key[:3] for x in play.exchanges}
    if unasked := sorted({given.key[:3] for given in game.replies} - asked):
        number, phase, agent = unasked[0]
        yield Defect(UNASKED, game.file, f"round {number}: {phase} of {agent}; {len(unasked)} in all")
    yield from _payoffs(game, play)
    yield from _ended(game, play)


def _ended(game: ImportedGame, play: Play) -> Iterator[Defect]:
    """Yield a defect if agents hold other values than the file says, or if the game ends otherwise."""
    for entry in play.outcome.trace:
        held = sorted(value for value in entry.get("values", {}).values() if value is not None)
        if (values := game.held.get(entry["round"], held)) != held:
            yield Defect(ENDED, game.file, f"round {entry['round']}: values {list(values)}, by the rules {held}")
            return
    outcome = play.outcome
    ended = game.rules.class_of(outcome.name, outcome.detail), outcome.rounds
    if game.ended not in (None, ended):
        yield Defect(ENDED, game.file, "{} in round {}, by the rules {} in round {}".format(*game.ended, *ended))


def _payoffs(game: ImportedGame, play: Play) -> Iterator[Defect]:
    """Yield a defect for each round whose payoffs are others than the rules give for its actions."""
    for entry in play.outcome.trace:
        by_rules = {} if entry.get("excluded") else entry.get("points", {})  # what does not count is not paid
        paid = {name: game.points.get((entry["round"], name), points) for name, points in by_rules.items()}
        if wrong := [name for name, points in paid.items() if points != by_rules[name]]:
            name, action = wrong[0], entry["actions"][wrong[0]] or "no action"
            told = f"{name} has {paid[name]} points for {action}, by the rules {by_rules[name]}"
            yield Defect(PAYOFFS, game.file, f"round {entry['round']}: {told}")


# What is imported


@dataclass(frozen=True)
class Imported:
    """What was imported: counts; and all that is wrong with what was left out."""

    study: Path
    games: int
    rounds: int
    conditions: int
    defects: Sequence[Defect]

    def lines(self) -> Iterator[str]:
        """Yield what a terminal shows: each defect, their number by kind, and what was imported."""
        yield from map(str, self.defects)
        for kind, number in Counter(defect.kind for defect in self.defects).items():
            yield f"{kind}: {number:,}"
        if self.defects:
            yield f"{counted(len({defect.file for defect in self.defects}), 'damaged game')} left out"
        games, rounds = counted(self.games, "game"), counted(self.rounds, "round")
        yield f"{self.study}: {games} of {rounds} in {counted(self.conditions, 'condition')}"


def import_games(name: str, path: Path, study: str) -> Imported:
    """Import the games of a file or folder into a study: its file under config/, and a record for each game.

    `name` is that of the format. Raises UsageError if PATH holds no game of it that can be imported, or if there is
    another study of that name.
    """
    if not is_slug(study) or study.endswith((".yaml", ".yml")):
        raise UsageError(f"--name {study}: becomes a file under config/; use letters, digits, '.', '_' and '-'")
    if not path.exists():
        raise UsageError(f"{path}: no such file or folder")
    form = FORMATS[name]
    games, defects = check(form.read(path))
    if not games:
        raise UsageError(f"{path}: no game to import as {name}; {defects[0]}")
    note = {"format": name, "source": form.source, "license": form.license}
    by_condition: dict[str, list[ImportedGame]] = defaultdict(list)
    for each in games:
        by_condition[condition_key(each)].append(each)
    groups = list(by_condition.values())
    loaded = _study(paths.study_file(study), groups, note)
    write_conditions(loaded)
    for condition, group in zip(loaded.conditions, groups, strict=True):  # the grids are one each, in this order
        for each in group:
            _write(loaded.name, Simulation(condition, each.number), each, note)
    rounds = sum(len({given.round for given in each.replies}) for each in games)
    return Imported(loaded.file, len(games), rounds, len(groups), defects)


def _study(file: Path, groups: Sequence[Sequence[ImportedGame]], note: Mapping[str, str]) -> Study:
    """Write the study file, where it is not there as it would be, and return the study."""
    content = _text(groups, note).encode()
    is_new = not file.exists()
    if not is_new and (not file.is_file() or read_regular(file) != content):
        raise UsageError(f"{file}: is there already, with other content; choose another --name, or remove it")
    if is_new:
        write_atomically(file, lambda out: out.write(content))
    try:
        return load_study(file)
    except UsageError as error:
        if is_new:
            file.unlink()
        raise UsageError(f"{error}; import fewer games") from None


def _text(groups: Sequence[Sequence[ImportedGame]], note: Mapping[str, str]) -> str:
    own = [first.own_parameters.model_dump(mode="json") for first, *_ in groups]
    names = dict.fromkeys(name for first, *_ in groups for name in first.parameters)
    varied = [name for name in names if len({canonical_json(each[name]) for each in own}) > 1]
    content = {
        "game": groups[0][0].rules.name,
        "title": f"Games played elsewhere: {note['source']}",
        "parameters": {name: own[0][name] for name in names if name not in varied},
        "grids": [
            _grid(games, note["format"], {name: [each[name]] for name in varied})
            for games, each in zip(groups, own, strict=True)
        ],
    }
    return (
        f"# Written by `parley import`. These games were played elsewhere and cannot be played again; their records\n"
        f"# are under results/. Format: {note['format']}. Source: {note['source']}.\n"
        f"# License: {note['license']}.\n"
    ) + yaml_text(content)


def _grid(games: Sequence[ImportedGame], form: str, varied: Mapping[str, Any]) -> dict[str, Any]:
    """Return one condition; `files` makes its identity that of these games."""
    first, files = games[0], digest(sorted(each.sha256 for each in games))
    player = {"name": IMPORTED.name, "players": first.players, "source": form, "files": files}
    adversary = {"name": IMPORTED.name, "players": first.byzantine, "source": form}
    return {
        "model": player,
        "n": len(first.agents),
        "b": first.byzantine_agents,
        **({"byzantine": [adversary]} if first.byzantine_agents else {}),
        "prompt": first.prompt,
        **({"vary": varied} if varied else {}),
        "seeds": sorted(each.number for each in games),
    }


def _write(study: str, simulation: Simulation, each: ImportedGame, note: Mapping[str, str]) -> None:
    """Write the record of a simulation, unless it is there."""
    record = simulation.record(study)
    try:
        read_own(record, simulation)
        return
    except RecordError:
        pass
    simulation = replace(simulation, recorded=_material(each))
    play, _ = replay_replies(simulation.id, simulation.game(), each.replies)
    imported = {**note, "file": one_line(each.file, 300), "sha256": each.sha256}
    write_record(record, simulation, play, provenance(datetime.now(UTC), {}) | {"imported": imported})
