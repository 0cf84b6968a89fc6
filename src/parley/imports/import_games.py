"""The `import` command: games that were played elsewhere become a study file and its records.

Each is played by the rules from its replies, and compared with what it says. The study is loaded like any other, and
each record is that of one of its simulations: from there on nothing differs.
"""

import logging
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
from parley.imports.games import (
    CUT_SHORT,
    ENDED,
    MISSING,
    NO_GAME,
    PAYOFFS,
    SEATS,
    TWICE,
    UNASKED,
    Defect,
    ImportedGame,
    format_called,
)
from parley.play.record import provenance, write_record
from parley.play.record_store import read_own, write_conditions
from parley.play.replay import Key, replay_replies
from parley.play.runner import Play
from parley.policies import said_name
from parley.policies.kinds import IMPORTED, ChosenPolicy, ImportedGames
from parley.study import Study, load_study
from parley.study.condition import Simulation
from parley.text import choose, counted, one_line
from parley.text.yamlfile import is_slug, yaml_text

_log = logging.getLogger(__name__)


# What is wrong with a game


def condition_key(game: ImportedGame) -> str:
    """Return what tells the condition of a game: all but its seed, its replies and who sat where."""
    byzantine = game.byzantine if game.byzantine_agents else ""
    who = [game.players, byzantine, len(game.agents), game.byzantine_agents, game.prompt]
    return canonical_json([game.game, *who, game.own_parameters.model_dump(mode="json")])


def _prompt_of(game: ImportedGame) -> str:
    prompts = game.rules.prompts
    if game.prompt and game.prompt not in prompts:
        raise ValueError(f"prompt {game.prompt}: {choose(game.prompt, prompts)}")
    return game.prompt or next(iter(prompts))


def material_of(game: ImportedGame) -> Any:
    """Return what the record of a game keeps of who sat where, and of what a seed would deal.

    Raises ValueError if the game needs more than its file says.
    """
    players = {name: agent.player for name, agent in game.agents.items() if agent.player}
    roles = {name: agent.role for name, agent in game.agents.items()}
    own = game.rules.imported_material(game.own_parameters, roles, game.material)
    return ImportedSeating(roles, players, game.links).as_material(own)


def check(found: Iterable[ImportedGame | Defect]) -> tuple[list[ImportedGame], list[Defect]]:
    """Return the games that can be played by the rules, each with its defects, and what is no game."""
    games: list[ImportedGame] = []
    none: list[Defect] = []
    for each in found:
        if isinstance(each, Defect):
            none.append(each)
            continue
        try:
            games.append(replace(each, defects=tuple(_defects(each, *played(each)))))
        except (ParleyError, ValidationError, LookupError, ValueError) as error:
            none.append(each.defect(NO_GAME, one_line(str(error), 150)))
    return _compared(games), none


def played(game: ImportedGame) -> tuple[Play, list[Key]]:
    """Play a game by the rules from its replies; return what happened, and which replies are missing."""
    return replay_replies("", _new(game), game.replies)


def _new(game: ImportedGame) -> Game:
    policy = ChosenPolicy(IMPORTED, ImportedGames(players=game.players))
    groups = [
        Group(HONEST, len(game.agents) - game.byzantine_agents, policy),
        Group(BYZANTINE, game.byzantine_agents, policy),
    ]
    unknown = {name for link in game.links or () for name in link} - {*game.agents}
    if unknown:
        raise ValueError(f"links name {min(unknown)}, who plays no part")
    game.rules.check(game.own_parameters, groups)
    seated = groups, _prompt_of(game), game.number, material_of(game)
    return new_game(game.rules, game.own_parameters, *seated)


def _defects(game: ImportedGame, play: Play, missing: Sequence[Key]) -> Iterator[Defect]:
    last = max((given.entry.round for given in game.replies), default=0)
    rounds = max((x.entry.round for x in play.exchanges), default=0)  # some games count from 0
    if last < rounds:
        yield game.defect(CUT_SHORT, f"{last} of {rounds} rounds")
    lacks: set[tuple[int, str]] = set()
    for number, phase, agent in missing:
        if number <= last and (number, agent) not in lacks:
            lacks.add((number, agent))  # told once, however often it is asked
            yield game.defect(MISSING, f"round {number}: {agent} has no {phase}")
    asked = {x.entry.key[:3] for x in play.exchanges}
    if unasked := sorted({given.entry.key[:3] for given in game.replies} - asked):
        number, phase, agent = unasked[0]
        yield game.defect(UNASKED, f"round {number}: {phase} of {agent}; {len(unasked)} in all")
    yield from _payoffs(game, play)
    yield from _ended(game, play)
    for given in game.replies:
        entry = given.entry
        seat = said_name(game.agents[entry.agent].model) if entry.agent in game.agents else None
        if entry.served_model and seat and entry.served_model != seat:
            yield game.defect(SEATS, f"round {entry.round}: {entry.agent} is {entry.served_model}, and {seat} before")
            return


def _ended(game: ImportedGame, play: Play) -> Iterator[Defect]:
    """Yield a defect if agents hold other values than the file says, or if the game ends otherwise."""
    for entry in play.outcome.trace:
        held = sorted(value for value in entry.get("values", {}).values() if value is not None)
        if (values := game.held.get(entry["round"], held)) != held:
            yield game.defect(ENDED, f"round {entry['round']}: values {list(values)}, by the rules {held}")
            return
    outcome = play.outcome
    ended = game.rules.class_of(outcome.name, outcome.detail), outcome.rounds
    if game.ended is not None and game.ended != ended:
        by_file, by_rules = (f"{name} in round {number}" for name, number in (game.ended, ended))
        yield game.defect(ENDED, f"{by_file}, by the rules {by_rules}")


def _payoffs(game: ImportedGame, play: Play) -> Iterator[Defect]:
    """Yield a defect for each round whose payoffs are others than the rules give for its actions."""
    for entry in play.outcome.trace:
        by_rules = {} if entry.get("excluded") else entry.get("points", {})  # what does not count is not paid
        paid = {name: game.points[entry["round"], name] for name in by_rules if (entry["round"], name) in game.points}
        wrong = [name for name, points in paid.items() if points != by_rules[name]]
        if wrong:
            name = wrong[0]
            action = entry["actions"][name] or "no action"
            text = (
                f"round {entry['round']}: {name} has {paid[name]} points for {action}, by the rules {by_rules[name]}"
            )
            yield game.defect(PAYOFFS, text + (f"; {len(wrong) - 1} more" if len(wrong) > 1 else ""))


def _compared(games: Sequence[ImportedGame]) -> list[ImportedGame]:
    seatings: dict[str, Counter[str]] = defaultdict(Counter)
    for each in games:
        seatings[condition_key(each)][_seating(each)] += 1
    seen: dict[tuple[str, int], ImportedGame] = {}
    result = []
    for game in games:
        more = []
        usual = seatings[condition_key(game)].most_common(1)[0][0]
        if _seating(game) != usual:
            more.append(game.defect(SEATS, f"{_seating(game)}; in most games of the condition {usual}"))
        first = seen.setdefault((condition_key(game), game.number), game)
        if first is not game:
            more.append(game.defect(TWICE, f"seed {game.number} is that of {first.place} too"))
        result.append(replace(game, defects=(*game.defects, *more)))
    return result


def _seating(game: ImportedGame) -> str:
    return ", ".join(f"{name}: {said_name(agent.model)}" for name, agent in game.agents.items() if agent.model)


# What is imported


@dataclass(frozen=True)
class Imported:
    """What was found and what was imported: counts, and all that is wrong."""

    study: Path
    files: int
    games: int
    rounds: int
    imported: int
    conditions: int
    defects: tuple[Defect, ...]

    def lines(self) -> Iterator[str]:
        """Yield what a terminal shows: each defect, their number by kind, and what was imported."""
        yield from map(str, self.defects)
        for kind, number in Counter(defect.kind for defect in self.defects).items():
            yield f"{kind}: {number:,}"
        yield (
            f"{counted(self.files, 'file')}, {counted(self.games, 'game')}, {counted(self.rounds, 'round')}, "
            f"{counted(len(self.defects), 'defect')}"
        )
        if left := self.games - self.imported:
            yield f"{counted(left, 'damaged game')} left out; --keep-damaged imports those that the rules can play"
        yield f"{self.study}: {counted(self.imported, 'game')} in {counted(self.conditions, 'condition')}"


def import_games(
    name: str, path: Path, study: str, keep_damaged: bool = False, source: str = "", license_note: str = ""
) -> Imported:
    """Import the games of a file or folder into a study: its file under config/, and a record for each game.

    `source` and `license_note` are told in place of the format's own. Raises UsageError if the format is unknown, if
    PATH holds no game of it that can be imported, or if there is another study of that name.
    """
    if not is_slug(study) or study.endswith((".yaml", ".yml")):
        raise UsageError(f"--name {study}: becomes a file under config/; use letters, digits, '.', '_' and '-'")
    file = paths.study_file(study)
    if not path.exists():
        raise UsageError(f"{path}: no such file or folder")
    form = format_called(name)
    checked, none = check(form.read(path))
    defects = (*none, *(defect for each in checked for defect in each.defects))
    may_keep = [each for each in checked if all(defect.kind != TWICE for defect in each.defects)]
    kept = may_keep if keep_damaged else [each for each in checked if not each.defects]
    if not kept:
        for defect in defects:
            _log.warning("%s", defect)
        what = f"all {len(checked)} are damaged" if checked else "no file is one of this format"
        raise UsageError(f"{path}: no game to import as {name}: {what}")
    if len(games := {each.game for each in kept}) > 1:
        raise UsageError(f"{path}: games of {' and '.join(sorted(games))}; import each into a study of its own")
    note = {"format": name, "source": source or form.source, "license": license_note or form.license}
    loaded, by_place = _study(file, kept, note)
    write_conditions(loaded)
    for simulation in loaded.simulations():
        _write(loaded.name, simulation, by_place[simulation.condition.identity, simulation.seed], note)
    files = {each.file for each in checked} | {defect.file for defect in none}
    rounds = sum(len({given.entry.round for given in each.replies}) for each in checked)
    return Imported(file, len(files), len(checked), rounds, len(kept), len(loaded.conditions), defects)


# The study


def _study(
    file: Path, kept: Sequence[ImportedGame], note: Mapping[str, str]
) -> tuple[Study, dict[tuple[str, int], ImportedGame]]:
    """Write the study file, where it is not there as it would be; return the study and its games by simulation."""
    by_condition: dict[str, list[ImportedGame]] = defaultdict(list)
    for each in kept:
        by_condition[condition_key(each)].append(each)
    groups = list(by_condition.values())
    text = _text(groups, note)
    if file.exists() and (not file.is_file() or read_regular(file) != text.encode()):
        raise UsageError(f"{file}: is there already, with other content; choose another --name, or remove it")
    is_new = not file.exists()
    if is_new:
        write_atomically(file, lambda out: out.write(text.encode()))
    try:
        loaded = load_study(file)
    except UsageError as error:
        if is_new:
            file.unlink()
        raise UsageError(f"{error}; import fewer games") from None
    # The grids are one condition each, in this order.
    of = {
        (condition.identity, each.number): each
        for condition, games in zip(loaded.conditions, groups, strict=True)
        for each in games
    }
    return loaded, of


def _text(groups: Sequence[Sequence[ImportedGame]], note: Mapping[str, str]) -> str:
    given = []
    for first, *_ in groups:
        own = first.own_parameters.model_dump(mode="json")
        given.append({name: own.get(name, value) for name, value in first.parameters.items()})
    names = list(dict.fromkeys(name for parameters in given for name in parameters))
    varied = [name for name in names if len({canonical_json(p.get(name)) for p in given}) > 1]
    content = {
        "game": groups[0][0].game,
        "title": one_line(f"Games played elsewhere: {note['source']}", 200),
        "parameters": {name: value for name, value in given[0].items() if name not in varied},
        "grids": [_grid(games, note, varied) for games in groups],
    }
    head = (
        f"# Written by `parley import`. These games were played elsewhere and cannot be played again; their records\n"
        f"# are under results/. Format: {note['format']}. Source: {one_line(note['source'], 200)}.\n"
        f"# License: {one_line(note['license'], 200)}.\n"
    )
    return head + yaml_text(content)


def _grid(games: Sequence[ImportedGame], note: Mapping[str, str], varied: Sequence[str]) -> dict[str, Any]:
    """Return one condition; `files` makes its identity that of these games."""
    first = games[0]
    seeds = sorted(each.number for each in games)
    files = digest(sorted([each.number, each.sha256, each.key] for each in games))
    player = {"name": IMPORTED.name, "players": first.players, "source": note["format"], "files": files}
    adversary = {"name": IMPORTED.name, "players": first.byzantine, "source": note["format"]}
    own = first.own_parameters.model_dump(mode="json")
    return {
        "model": player,
        "n": len(first.agents),
        "b": first.byzantine_agents,
        **({"byzantine": [adversary]} if first.byzantine_agents else {}),
        "prompt": _prompt_of(first),
        **({"vary": {name: [own[name]] for name in varied}} if varied else {}),
        "seeds": seeds,
    }


# The records


def _write(study: str, simulation: Simulation, each: ImportedGame, note: Mapping[str, str]) -> None:
    record = simulation.record(study)
    try:
        read_own(record, simulation)
        return
    except RecordError:
        pass
    simulation = replace(simulation, recorded=material_of(each))
    play, _ = replay_replies(simulation.id, simulation.game(), each.replies)
    made = provenance(datetime.now(UTC), {})
    made["imported"] = {
        **note,
        "file": one_line(each.place, 300),
        "sha256": each.sha256,
        "defects": [str(defect) for defect in each.defects],
    }
    write_record(record, simulation, play, made)
