"""`parley show`: a record for people, its replies, and the study file that plays its simulation again.

What is printed is YAML, whose strings are escaped: a record may come from anyone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from parley import paths
from parley.engine.models import UNKNOWN_PATH, ModelEntry, load_models
from parley.engine.sources import FolderSource, GgufSource, ServiceSource
from parley.errors import RecordError, UsageError
from parley.files import write_new
from parley.play.journal import Entry
from parley.play.live import can_draw, outcome_line, print_final, transcript_lines
from parley.play.matrix import WatchedGame
from parley.play.record import Summary, provenance_warnings, read_record
from parley.play.replay import (
    play_recorded,
    rebuild_game,
)
from parley.policies.kinds import IMPORTED, LLM
from parley.study.condition import ARM_AXIS, BASE_AXES, BYZANTINE_AXIS, Condition, Player
from parley.study.expand import NOBODY
from parley.study.load import check_name
from parley.study.recorded import rebuilt, recorded_templates
from parley.study.study_file import SAME
from parley.text import one_line
from parley.text.yamlfile import yaml_text


@dataclass(frozen=True)
class StudyFiles:
    """The content of a study file of one simulation, and of the models file that it needs (None if none)."""

    study: dict[str, Any]
    models: dict[str, Any] | None


def summary_text(path: Path, summary: Summary) -> str:
    """Return what a record says of its simulation as a whole, provenance in full, as YAML."""
    of_engines = provenance_warnings(summary.provenance)
    return yaml_text(
        {
            "record": str(path),
            "simulation": summary.simulation,
            "outcome": summary.outcome,
            "telemetry": summary.telemetry,
            "digest": summary.digest,
            **({"warnings": of_engines} if of_engines else {}),
            "provenance": summary.provenance,
        }
    )


def study_text(files: StudyFiles) -> str:
    """Return the study file, and the models file if there is one, as YAML documents with a heading each."""
    parts = [
        "# The study file of this simulation; `parley show FILE --output NEW.yaml` writes it.\n",
        yaml_text(files.study),
    ]
    if files.models is not None:
        parts += ["---\n", f"# {paths.models_beside(Path()).name}, beside it:\n", _models_text(files.models)]
    return "".join(parts)


def write_study(files: StudyFiles, target: Path) -> list[Path]:
    """Write the study file, and the models file beside it; return what was written.

    A models file that is there already is left alone, and must have the same entries. Raises UsageError if it has not,
    or if the study file exists: nothing is overwritten.
    """
    if target.suffix not in (".yaml", ".yml"):
        raise UsageError(f"{target}: a study file's name ends in .yaml")
    check_name(target)
    models = paths.models_beside(target)
    if target == models:
        raise UsageError(f"{target}: this is the name of models files; choose another one")
    texts = {target: yaml_text(files.study)}
    if files.models is not None:
        if models.exists():  # checked before anything is written
            _check_entries(files.models, models)
        else:
            texts[models] = _models_text(files.models)
    return write_new(texts)


def _check_entries(needed: Mapping[str, Any], models_file: Path) -> None:
    there = load_models(models_file)
    for name, content in needed["models"].items():
        entry = ModelEntry.model_validate(content)
        if name not in there or there[name].identity() != entry.identity():
            what = "another entry" if name in there else "no entry"
            raise UsageError(
                f"{models_file}: has {what} {name!r} than the record, and nothing is overwritten; use another folder"
            )


def study_files(path: Path, summary: Summary) -> StudyFiles:
    """Return the study that has this simulation alone: the same id, and the same path but for the study's name.

    Where the short form of a grid named what plays honest agents, and there were none, the path is another one.

    Raises RecordError if this version of Parley cannot play it as it was.
    """
    simulation = rebuilt(path, summary.simulation, summary.provenance.get("parley", "unknown"))
    condition = simulation.condition
    if condition.fork is not None:
        raise RecordError(f"{path}: a fork of a recorded game, so no study file of one game plays it again")
    if any(group.player.policy.kind is IMPORTED for group in condition.groups):
        raise RecordError(f"{path}: imported: it was played elsewhere, so no study file plays it again")
    parameters = condition.parameters.model_dump(mode="json")
    varied = [axis for axis in condition.axes if axis not in (*BASE_AXES, BYZANTINE_AXIS, ARM_AXIS)]
    grid = {**_population(condition), "prompt": str(condition.prompt)}
    if varied:
        # What identities leave out at its default is no key of `parameters`: reply_format.
        grid["vary"] = {axis: [parameters.pop(axis, getattr(condition.parameters, axis))] for axis in varied}
    study = {"game": condition.game.name, "seeds": [simulation.seed], "parameters": parameters, "grids": [grid]}
    if templates := recorded_templates(summary.simulation):
        study["prompts"] = {name: {"templates": texts} for name, texts in templates.items()}
    models = {name: _content(entry) for name, entry in condition.entries.items()}
    return StudyFiles(study, {"models": models} if models else None)


def _population(condition: Condition) -> dict[str, Any]:
    """Return the keys of a grid that make the agents: the short form where one says it, else the groups."""
    honest, byzantine = (condition.game.roles[place] for place in (0, -1))
    of_role = {role: [g for g in condition.groups if g.role == role] for role in (honest, byzantine)}
    is_axis = BYZANTINE_AXIS in condition.axes
    prompted = any(group.player.prompt is not None for group in condition.groups)
    if len(of_role[honest]) == 1 and len(of_role[byzantine]) < 2 and not prompted:
        [group] = of_role[honest]
        n = group.count if ARM_AXIS in condition.axes else condition.axes["n"]  # of an arm that is of the talking game
        grid: dict[str, Any] = {"model": _player(group.player), "n": n, "b": condition.axes["b"]}
        adversaries = [_player(g.player) for g in of_role[byzantine]]
        if is_axis:
            grid["byzantine"] = [SAME] if condition.axes[BYZANTINE_AXIS] in (SAME, NOBODY) else adversaries
        elif adversaries and adversaries != [grid["model"]]:
            [grid["byzantine"]] = adversaries
        return grid
    groups = [_group(g.role, g.count, g.player) for g in condition.groups]
    if is_axis and not of_role[byzantine]:  # the axis is there in studies that have such a group
        groups.append(_group(byzantine, 0, condition.groups[0].player))
    return {"groups": groups}


def _group(role: str, count: int, player: Player) -> dict[str, Any]:
    model = {} if player.model is None else {"model": player.model}
    policy = {} if player.policy.kind is LLM else {"policy": _policy(player)}
    prompt = {} if player.prompt is None else {"prompt": str(player.prompt)}
    return {"role": role, "count": count, **model, **policy, **prompt}


def _policy(player: Player) -> str | dict[str, Any]:
    parameters = player.policy.parameters.model_dump(mode="json")
    return {"name": player.policy.kind.name, **parameters} if parameters else player.policy.kind.name


def _player(player: Player) -> str | dict[str, Any]:
    """Return a player as the short form writes it: a model's name, a policy's, or a policy with parameters."""
    if player.policy.kind is LLM and player.model is not None:
        return player.model
    policy = _policy(player)
    if player.model is None:
        return policy
    return {**({"name": policy} if isinstance(policy, str) else policy), "model": player.model}


def _content(entry: ModelEntry) -> dict[str, Any]:
    """Return the keys of a models file that make the entry; no record says where a service or a file is."""
    found = entry.identity()
    if isinstance(entry.source, ServiceSource):
        found["source"] = {"url": entry.source.url, **found["source"]}
    elif isinstance(entry.source, GgufSource):
        found["source"] = {**found["source"], "from": [{"path": UNKNOWN_PATH}]}
    return found


def _models_text(models: dict[str, Any]) -> str:
    kinds = {type(ModelEntry.model_validate(entry).source) for entry in models["models"].values()}
    notes = {
        FolderSource: "# Of a local folder only the last part is recorded: put the folder's path there.\n",
        GgufSource: "# Where a GGUF file is had is not recorded: put the path of the file with this SHA-256 there.\n",
        ServiceSource: "# Where a service answers is not recorded: put its URL there, and its key_variable.\n",
    }
    return "".join(note for kind, note in notes.items() if kind in kinds) + yaml_text(models)


def read_lines(path: Path, terminal: TextIO) -> Iterator[str]:
    """Yield the replies of a record in full, a line for each and one for each text, then how the game ended.

    A `terminal` that can show it gets the matrix at the end. Where this version cannot play the game again, such as an
    imported one without its prompts, replies come as they were written. Raises RecordError if it cannot be read.
    """
    summary, entries = read_record(path)
    try:
        watched = WatchedGame(rebuild_game(path, summary))
        played = play_recorded(summary, watched.game, entries, watched)
    except RecordError as error:
        yield f"# As they were written; {one_line(str(error))}"
        yield from _written(entries)
        return
    yield from transcript_lines(played.exchanges, True, watched.game.read_texts, longest=None)
    if can_draw(terminal):
        watched.end(played.outcome)
        print_final(watched, [one_line(str(path))], terminal)
    else:
        yield outcome_line(type(watched.game), played.outcome)


def _written(entries: list[Entry]) -> Iterator[str]:
    heading = ""
    for entry in entries:
        before, heading = heading, f"Round {entry.round}, {one_line(entry.phase)}"
        if heading != before:
            yield heading
        yield f"  {one_line(entry.agent):<9} {one_line(entry.text)}"
