"""The `import` command: writes a study file and the records of games that were played elsewhere.

The study is loaded like any other, and each record is that of one of its simulations: from there on nothing differs.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from parley import paths
from parley.errors import RecordError, UsageError
from parley.files import write_atomically
from parley.games.registry import game_class
from parley.identity import canonical_json, digest
from parley.imports.check import Checked, check, condition_key, material_of
from parley.imports.games import TWICE, Defect, format_called
from parley.play.provenance import provenance
from parley.play.record import write_record
from parley.play.record_store import read_own, write_conditions
from parley.play.replay import replay_replies
from parley.policies.kinds import IMPORTED
from parley.study import Study, load_study
from parley.study.condition import Simulation
from parley.text import counted, one_line
from parley.text.yamlfile import is_slug

_log = logging.getLogger(__name__)


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
        raise UsageError(f"--study {study}: becomes a file under config/; use letters, digits, '.', '_' and '-'")
    file = paths.study_file(study)
    if not path.exists():
        raise UsageError(f"{path}: no such file or folder")
    form = format_called(name)
    checked, none = check(form.read(path))
    defects = (*none, *(defect for each in checked for defect in each.defects))
    kept = [each for each in checked if _is_kept(each, keep_damaged)]
    if not kept:
        for defect in defects:
            _log.warning("%s", defect)
        what = f"all {len(checked)} are damaged" if checked else "no file is one of this format"
        raise UsageError(f"{path}: no game to import as {name}: {what}")
    if len(games := {each.game.game for each in kept}) > 1:
        raise UsageError(f"{path}: games of {' and '.join(sorted(games))}; import each into a study of its own")
    note = {"format": name, "source": source or form.source, "license": license_note or form.license}
    loaded, by_place = _study(file, kept, note)
    write_conditions(loaded)
    for simulation in loaded.simulations():
        _write(loaded.name, simulation, by_place[simulation.condition.identity, simulation.seed], note)
    files = {each.game.file for each in checked} | {defect.file for defect in none}
    rounds = sum(len({given.entry.round for given in each.game.replies}) for each in checked)
    return Imported(file, len(files), len(checked), rounds, len(kept), len(loaded.conditions), defects)


def _is_kept(each: Checked, keep_damaged: bool) -> bool:
    return not each.defects or (keep_damaged and all(defect.kind != TWICE for defect in each.defects))


# The study


def _study(
    file: Path, kept: Sequence[Checked], note: Mapping[str, str]
) -> tuple[Study, dict[tuple[str, int], Checked]]:
    """Write the study file, where it is not there as it would be; return the study and its games by simulation."""
    by_condition: dict[str, list[Checked]] = defaultdict(list)
    for each in kept:
        by_condition[condition_key(each.game)].append(each)
    groups = list(by_condition.values())
    text = _text(groups, note)
    if file.exists() and file.read_text(encoding="utf-8") != text:
        raise UsageError(f"{file}: is there already, with other content; choose another --study, or remove it")
    with TemporaryDirectory() as folder:
        draft = Path(folder) / file.name
        draft.write_text(text, encoding="utf-8")
        loaded = load_study(draft, paths.models_file(file))
    if not file.exists():
        write_atomically(file, lambda out: out.write(text.encode()))
    # The grids are one condition each, in this order.
    of = {
        (condition.identity, each.game.number): each
        for condition, games in zip(loaded.conditions, groups, strict=True)
        for each in games
    }
    return loaded, of


def _text(groups: Sequence[Sequence[Checked]], note: Mapping[str, str]) -> str:
    given = [_parameters(games[0]) for games in groups]
    names = list(dict.fromkeys(name for parameters in given for name in parameters))
    varied = [name for name in names if len({canonical_json(p.get(name)) for p in given}) > 1]
    content = {
        "game": groups[0][0].game.game,
        "title": one_line(f"Games played elsewhere: {note['source']}", 200),
        "parameters": {name: value for name, value in given[0].items() if name not in varied},
        "grids": [_grid(games, note, varied) for games in groups],
    }
    head = (
        f"# Written by `parley import`. These games were played elsewhere and cannot be played again; their records\n"
        f"# are under results/. Format: {note['format']}. Source: {one_line(note['source'], 200)}.\n"
        f"# License: {one_line(note['license'], 200)}.\n"
    )
    return head + yaml.safe_dump(content, sort_keys=False, allow_unicode=False, default_flow_style=None, width=110)


def _parameters(each: Checked) -> dict[str, Any]:
    """Return the parameters that the games of a condition say, as the game reads them."""
    rules = game_class(each.game.game).Parameters.model_validate(each.game.parameters)
    dumped = rules.model_dump(mode="json")
    return {name: dumped.get(name, value) for name, value in each.game.parameters.items()}


def _grid(games: Sequence[Checked], note: Mapping[str, str], varied: Sequence[str]) -> dict[str, Any]:
    """Return one condition; `files` makes its identity that of these games."""
    first = games[0].game
    seeds = sorted(each.game.number for each in games)
    files = digest(sorted([each.game.number, each.game.sha256, each.game.key] for each in games))
    player = {"name": IMPORTED.name, "players": first.players, "source": note["format"], "files": files}
    adversary = {"name": IMPORTED.name, "players": first.byzantine, "source": note["format"]}
    rules = game_class(first.game)
    own = rules.Parameters.model_validate(first.parameters).model_dump(mode="json")
    return {
        "model": player,
        "n": len(first.agents),
        "b": first.byzantine_agents,
        **({"byzantine": [adversary]} if first.byzantine_agents else {}),
        "prompt": next(iter(rules.prompts)),
        **({"vary": {name: [own[name]] for name in varied}} if varied else {}),
        "seeds": seeds,
    }


# The records


def _write(study: str, simulation: Simulation, each: Checked, note: Mapping[str, str]) -> None:
    """Write the record of one game, unless it is there."""
    record = simulation.record(study)
    try:
        read_own(record, simulation)
        return
    except RecordError:
        pass
    simulation = replace(simulation, recorded=material_of(each.game))
    play, _ = replay_replies(simulation.id, simulation.game(), each.game.replies)
    where = each.game.file + (f", game {each.game.key}" if each.game.key else "")
    made = provenance(datetime.now(UTC), {})
    made["imported"] = {
        **note,
        "file": one_line(where, 300),
        "sha256": each.game.sha256,
        "defects": [str(defect) for defect in each.defects],
    }
    write_record(record, simulation, play, made)
