"""A study file becomes a study: checked (`study_file.py`), expanded into conditions (`expand.py`), fit to play.

With the plan of a run, by which jobs refuse to run if the study changed.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields, replace
from os.path import exists, lexists
from pathlib import Path
from typing import Any

from parley import paths
from parley.engine.models import ModelEntries, ModelEntry, load_models
from parley.engine.weights import check_source
from parley.errors import ParleyError, RecordError, UsageError, located
from parley.games.figure_kinds import KINDS
from parley.games.registry import GAMES, game_class
from parley.identity import digest
from parley.policies.kinds import BY_MODEL
from parley.study.comparisons import rates_of
from parley.study.condition import OWN_CODE, SCRIPTED, SERVICES, Player
from parley.study.expand import NOBODY, Expander, check_one_place
from parley.study.recorded import Forks
from parley.study.study import Study
from parley.study.study_file import SAME, StudyFile
from parley.text import choose, one_line
from parley.text.yamlfile import check_known, is_slug, load_yaml, validated


def load_study(
    file: Path,
    models_file: Path | None = None,
    recorded: Mapping[str, ModelEntry] | None = None,
    needs_weights: bool = True,
) -> Study:
    """Read and check a study; raises UsageError with one line: file, key, value, remedy.

    To look at results, `recorded` entries stand in for those that the models file does not have, or for a file that is
    gone, and without `needs_weights` those on this machine are not looked for.
    """
    if not lexists(file):
        there = paths.studies(file.parent) or paths.studies(paths.root())
        remedy = choose(file.stem, there) if there else "parley new NAME writes a study"
        raise UsageError(f"{file}: no such file; {remedy}")
    written = load_yaml(file)
    check_name(file)
    return _checked(file, written, models_file, recorded or {}, needs_weights)


def study_of(name: str, content: Any, models_file: Path | None) -> Study:
    """Return the study that a file of this name and content would be, which there is none of; raises as `load_study`.

    Messages do not name the file.
    """
    file = Path(f"{name}.yaml")
    try:
        return _checked(file, content, models_file, {}, True)
    except (UsageError, RecordError) as error:
        raise type(error)(re.sub(rf"(?m)^{re.escape(str(file))}: ", "", str(error))) from None


def played_by(study: Study, model: str, entry: ModelEntry, role: str) -> Study:
    """Return a study in which a model plays a role, and all that the same played; raises as `load_study`."""
    check_source(model, entry, study.models_file)
    conditions = {}
    for condition in study.conditions:
        axes = {**condition.axes, "model": model} if role == study.game.roles[0] else condition.axes
        before = [group.player for group in condition.groups if group.role == role]
        groups = tuple(
            replace(g, player=Player(BY_MODEL, model, entry, g.player.prompt)) if g.player in before else g
            for g in condition.groups
        )
        changed = replace(condition, axes=axes, groups=groups)
        conditions[changed.name] = changed
    played = replace(study, conditions=tuple(conditions.values()), models={**study.models, model: entry})
    _check_services(played, {})
    return played


def _checked(
    file: Path, written: Any, models_file: Path | None, recorded: Mapping[str, ModelEntry], needs_weights: bool
) -> Study:
    where = str(file)
    content = validated(StudyFile, written, where, _game_parameters(written))
    with located(f"{where}: game"):
        game = game_class(content.game, file.parent)
    if "ledger" in content.model_fields_set and not game.evidence.keeps_ledger:
        raise UsageError(f"{where}: ledger: the game {game.name} keeps none; remove this key")
    models_file = models_file or paths.models_file(file)
    found = load_models(models_file) if exists(models_file) else ModelEntries({})
    models = ModelEntries({**recorded, **found}, found.problems)
    for name in models:
        if name in game.policies or name in (SAME, SCRIPTED, OWN_CODE, SERVICES, NOBODY):
            raise UsageError(f"{models_file}: models.{name}: a reserved name; rename the entry")
    expander = Expander(where, content, game, models, models_file, needs_weights)
    _check_made_of(content, where)
    if content.fork is None:
        once, repeats = expander.conditions(), content.repeats
    else:
        once, repeats = Forks(f"{where}: fork", game, expander).conditions(content.fork, file), content.fork.repeats
        models = ModelEntries({**{name: entry for c in once for name, entry in c.entries.items()}, **models})
    conditions = once
    if repeats > 1:
        conditions = tuple(replace(condition, repeat=repeat) for repeat in range(repeats) for condition in once)
    study = Study(file, content, models_file, game, conditions, dict(models), expander.own_prompts)
    _check_services(study, recorded)
    _check_drawn(study)
    _ = study.comparisons  # a question that no condition answers is refused before anything is played
    _check_lost(study)
    _check_paper(study)
    return study


def _game_parameters(written: Any) -> Mapping[str, str]:
    """Return where parameters of a study's game stand in its file, by name, if the game is one of Parley's."""
    game = GAMES.get(str(written.get("game"))) if isinstance(written, dict) else None
    return dict.fromkeys(game.Parameters.model_fields if game else (), "parameters")


def _check_made_of(content: StudyFile, where: str) -> None:
    """Raise UsageError unless either grids or recorded games make the conditions."""
    if content.fork is None and not content.grids:
        raise UsageError(f"{where}: grids: missing; add a block of conditions")
    if content.fork is not None and (
        said := {"grids", "parameters", "seeds", "repeats", "compare_with"} & content.model_fields_set
    ):
        raise UsageError(f"{where}: {min(said)}: the recorded games of `fork` say it already; remove this key")


def _check_lost(study: Study) -> None:
    """Raise UsageError for questions about what was lost where rules alone play, which are held against nothing."""
    lost = {quantity.name for quantity in study.game.evidence.lost}
    asked = next((name for each in study.comparisons for name in each.outcomes if name in lost), None)
    if asked and all(condition.honest_by_rules for condition in study.conditions):
        raise UsageError(f"{study.file}: questions: {asked}: only games of models lose it; ask about one")


def _check_services(study: Study, recorded: Mapping[str, ModelEntry]) -> None:
    """Raise UsageError for services that one job cannot play, and for a budget that cannot be counted.

    A model that is only `recorded` needs no price.
    """
    conditions = [condition for condition in study.conditions if condition.plays_by_shard and condition.models]
    services = {name: entry for condition in conditions for name, entry in condition.entries.items()}
    check_one_place({name: entry.cluster for name, entry in services.items()}, f"{study.file}", study.models_file)
    budget = study.content.budget
    if budget is None:
        return
    where = f"{study.file}: budget"
    if beside := next((c for c in study.conditions if not c.plays_by_shard and c.asks_services), None):
        raise UsageError(f"{where}: {beside.name} asks a service and a server of Parley's own; remove one of these")
    for name, entry in sorted(services.items()) if budget.cost is not None else ():
        if entry.price is None and entry is not recorded.get(name):
            remedy = f"add price to models.{name} in {study.models_file}, or give budget.tokens alone"
            raise UsageError(f"{where}.cost: {budget.cost:g}: {name} has no price; {remedy}")


# Its file


def check_name(file: Path) -> None:
    """Raise UsageError if a study file's name cannot name its study."""
    if not is_slug(file.stem):
        said = "the file's name becomes a folder; use letters, digits, '.', '_' and '-'"
        raise UsageError(f"{one_line(str(file), 300)}: {said}")


def check_alone(file: Path) -> None:
    """Raise UsageError if another study file has the same name, and so the same results."""
    beside = (file.with_suffix(suffix) for suffix in (".yaml", ".yml"))
    for other in (paths.study_file(file.stem), *beside):
        if other.exists() and not (file.exists() and other.samefile(file)):
            shared = paths.results(file.stem)
            raise UsageError(f"{file} and {other}: two studies of one name would share {shared}; rename one (mv)")


# Its conditions, and what else it says


def _check_drawn(study: Study) -> None:
    """Raise UsageError if a study names figures, conditions or seeds that it does not have, or too many."""
    known = [spec.name for spec in study.game.evidence.figures if KINDS[spec.kind].single]
    for figure, choices in study.content.figures.items():
        where = f"{study.file}: figures.{figure}"
        check_known(f"{study.file}: figures", figure, known, "figure of single simulations")
        for place, choice in enumerate(choices):
            for condition in study.fitting(choice.where, f"figures.{figure}[{place}].where"):
                if gone := set(choice.seeds or ()).difference(condition.seeds):
                    remedy = f"not a seed of {condition.name}; choose one of its own"
                    raise UsageError(f"{where}[{place}].seeds: {min(gone)}: {remedy}")


def _check_paper(study: Study) -> None:
    """Raise UsageError for numbers of a paper that are about what the study does not have."""
    evidence = study.game.evidence
    shares = [*rates_of(study.game), *(each.name for each in evidence.indicators)]
    shares += [each.name for each in evidence.quantities if each.share]
    drawn = (name for spec in evidence.figures if spec.kind == "quantities" for name in spec.of)
    known = {
        None: list(dict.fromkeys([*shares, *(each.name for each in evidence.quantities), *drawn])),
        "round": [measure.name for measure in evidence.measures],
        "player": [behavior.name for behavior in evidence.about("behaviors")],
    }
    for index, each in enumerate(study.content.paper):
        place = f"{study.file}: paper[{index}]"
        check_known(f"{place}.what", each.what, known[each.part], "number of this game")
        fitting = study.fitting(each.where, f"paper[{index}].where")
        if each.part is None and each.form in ("rate", "count") and each.what not in shares:
            raise UsageError(f"{place}.{each.form}: {each.what} is no rate; give mean")
        if (each.part or each.what in shares) and (each.margin or 0) > 1:
            raise UsageError(f"{place}.margin: {each.margin:g}: of a share it is at most 1; write 5 points as 0.05")
        if each.part and len(fitting) > study.repeats:
            raise UsageError(f"{place}.where: {len(fitting)} conditions; name the one that its {each.part} is of")


# The plan of a run

_RUN = "PARLEY_RUN"


def plan_of(study: Study) -> str:
    """Return eight hexadecimal digits that name all that the jobs of a run depend on.

    They are the simulations, the shards these are dealt into, and what else shows in what is made of them: the title,
    the ledger settings, the questions. It takes time in proportion to the conditions, not the simulations: each job
    computes it.
    """
    conditions = [
        [c.name, c.folder, c.engine, str(c.seeds) if isinstance(c.seeds, range) else list(c.seeds)]
        for c in study.conditions
    ]
    ledger = study.content.ledger.model_dump(mode="json")
    more = [*study.questions_json, *study.shown_besides]
    return digest([study.name, study.title, study.content.shard_size, ledger, conditions, *more])[:8]


def require_plan(study: Study, plan: str | None) -> None:
    """Raise ParleyError if `study` is another one than when its run was planned; None is a command given by hand."""
    if plan is not None and plan_of(study) != plan:
        raise ParleyError(changed(study))


def changed_since(study: Study, plan: str) -> str | None:
    """Return the line to end a run with, whose plan this was, if its files say something else now; else None."""
    try:
        require_plan(load_study(study.file, study.models_file), plan)
    except ParleyError:
        return changed(study)
    return None


def changed(study: Study) -> str:
    """Return the line that says that a study changed while it ran."""
    return (
        f"{study.file} changed while it ran (or {study.models_file}, a prompt, or code that it names); what was "
        "played stays, and the same command plans anew and goes on"
    )


@dataclass(frozen=True)
class RunPlan:
    """What a run of the workflow is for: the same in all its jobs, on whatever node."""

    token: str  # of no other run
    study: str  # the `plan_of` its study
    report: str  # of its report: what is frozen meanwhile is in that of the next run

    def give_to_jobs(self) -> None:
        """Tell the jobs that this process starts."""
        os.environ[_RUN] = "-".join(astuple(self))


def run_plan() -> RunPlan | None:
    """Return the plan of the run that this process is a job of; None outside of a run."""
    given = os.environ.get(_RUN, "").split("-")
    return RunPlan(*given) if len(given) == len(fields(RunPlan)) else None
