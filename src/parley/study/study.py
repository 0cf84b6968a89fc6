"""A study: one YAML file that names a game, its grids of conditions, its fixed parameters and its seeds.

The file is checked (`study_file.py`), expanded into conditions (`expand.py`), and these into simulations, which are
dealt into shards.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os.path import exists
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from parley import paths
from parley.engine.models import ModelEntry, load_models
from parley.engine.service.limits_config import BudgetLimits
from parley.errors import GameError, RecordError, UsageError
from parley.games.base import Game
from parley.games.evidence import EFFECTS, INFLUENCE, FigureSpec
from parley.games.figure_kinds import KINDS
from parley.games.registry import game_class
from parley.identity import digest
from parley.policies.kinds import ChosenPolicy
from parley.policies.own_code import look_beside
from parley.study.axes import axes_text, axis_names
from parley.study.comparisons import Comparison, compared
from parley.study.condition import BYZANTINE_AXIS, OWN_CODE, SCRIPTED, SCRIPTED_AT_ONCE, Condition, Simulation
from parley.study.expand import NOBODY, Expander
from parley.study.forks import Forks
from parley.study.growing import GrowingSeeds, decided, on_disk
from parley.study.margins import Effects, PaperRate, check_rates
from parley.study.own_prompts import OwnPrompts
from parley.study.questions import Question
from parley.study.study_file import LEDGER_FORMAT, SAME, Companions, Drawn, LedgerSettings, StudyFile
from parley.study.unfinished import Unfinished
from parley.text import one_line
from parley.text.suggest import choose, meant
from parley.text.yamlfile import is_slug, load_yaml, validated

SCRIPTED_SHARD = 500  # simulations: some seconds, so that few starts of a process keep all cores busy
# Raised when the same records give other tables, figures or reports: what is there is made again.
TABLES_VERSION = 16
_PLAIN_LEDGER = LedgerSettings()
_MOST_DRAWN = 24  # simulations that a study may name for one figure
_PLAIN_EFFECTS = Effects()
_SEED_FILE = re.compile(r"seed=(0|[1-9][0-9]{0,8})\.parquet")


@dataclass(frozen=True)
class Study:
    """A study, checked and expanded into conditions."""

    name: str
    file: Path
    models_file: Path
    title: str
    game: type[Game]
    shard_size: int
    conditions: tuple[Condition, ...]
    models: Mapping[str, ModelEntry]
    budget: BudgetLimits | None = None
    most_unusable: float | None = None
    ledger: LedgerSettings = _PLAIN_LEDGER
    drawn: Mapping[str, Sequence[Drawn]] = field(default_factory=dict)
    questions: tuple[Question, ...] = ()
    paper: tuple[PaperRate, ...] = ()
    effects: Effects = _PLAIN_EFFECTS
    companions: Companions | None = None
    own_prompts: OwnPrompts | None = None
    achievable: ChosenPolicy | None = None
    unfinished: Unfinished | None = None  # what this is a part of, if not all that was asked for is played

    @cached_property
    def axes(self) -> list[str]:
        """The names of the axes, in the order of the paths."""
        return list(self.conditions[0].axes)

    @cached_property
    def varying(self) -> list[str]:
        """The axes in which conditions differ."""
        return [axis for axis in self.axes if len({condition.axes[axis] for condition in self.conditions}) > 1]

    @cached_property
    def first_repeat(self) -> "Study":
        """The study without what is played again to measure noise: what tables and figures show."""
        first = tuple(condition for condition in self.conditions if not condition.repeat)
        return self if len(first) == len(self.conditions) else replace(self, conditions=first)

    @property
    def first_time(self) -> dict[str, int]:
        """The axis that tells the simulations of `first_repeat` from the others; empty without repeats."""
        return {} if self.conditions[0].repeat is None else {"repeat": 0}

    def simulations(self) -> Iterator[Simulation]:
        """Yield all simulations, seeds outermost (in the order of their lists), so that added seeds come last."""
        for place in range(max(len(condition.seeds) for condition in self.conditions)):
            for condition in self.conditions:
                if place < len(condition.seeds):
                    yield Simulation(condition, condition.seeds[place])

    def records(self, *, by_shard: bool) -> Iterator[Path]:
        """Yield the paths of the records that are played a shard in a process, or of all others, in order."""
        for simulation in self.simulations():
            if simulation.condition.plays_by_shard == by_shard:
                yield simulation.record(self.name)

    def shards(self) -> dict[Path, tuple[str, int]]:
        """Return for each record its engine and the number of its shard.

        The engine is that of the condition. Its shards hold equally many simulations (see `_shard_sizes`), in the
        order of `simulations`: added seeds fill new shards and move nothing.
        """
        counts = dict.fromkeys(self._shard_sizes, 0)
        shards = {}
        for simulation in self.simulations():
            engine = simulation.condition.engine
            shards[simulation.record(self.name)] = (engine, counts[engine] // self._shard_sizes[engine])
            counts[engine] += 1
        return shards

    def requests_at_once(self, condition: Condition) -> dict[str, int]:
        """Return, for each model of a condition that has a server of ours, how many requests it may get at once.

        That is one for each of its agents in each simulation of a full shard.
        """
        games = self._shard_sizes[condition.engine]
        return {
            name: games * sum(group.count for group in condition.groups if group.player.model == name)
            for name, entry in condition.entries.items()
            if not entry.is_service
        }

    @cached_property
    def _shard_sizes(self) -> dict[str, int]:
        """Simulations in a shard, by engine: `shard_size`, or more where more are played at once."""
        sizes: dict[str, int] = {}
        for condition in self.conditions:
            engine = condition.engine
            least = condition.at_once if condition.plays_by_shard else 1
            sizes[engine] = max(sizes.get(engine, self.shard_size), least)
        of_no_model = {SCRIPTED: SCRIPTED_SHARD, OWN_CODE: SCRIPTED_AT_ONCE * self.shard_size}
        return {engine: of_no_model.get(engine, size) for engine, size in sizes.items()}

    @cached_property
    def figures(self) -> tuple[FigureSpec, ...]:
        """The figures of the game that this study has the axes for, and conditions to show in, or to compare.

        Where conditions differ in one axis alone, effects are among them; in studies of forks what changes the end.
        """
        specs = self.game.evidence.figures
        found = tuple(spec for spec in specs if self._has(spec))
        compared = EFFECTS not in specs and any(_compare(self.conditions, axis) for axis in self.axes)
        forked = any(condition.fork for condition in self.conditions)
        return (*([INFLUENCE] if forked else []), *found, *([EFFECTS] if compared else []))

    def shown_in(self, spec: FigureSpec) -> list[Condition]:
        """Return the conditions of which a figure can show something."""
        if spec.kind == "achievable" and self.achievable is None:
            return [c for c in self.conditions if not c.honest_by_rules]
        return [c for c in self.conditions if self.game.evidence.shows(spec, c.parameters, c.seating)]

    def _has(self, spec: FigureSpec) -> bool:
        shown = self.shown_in(spec)
        varying = {axis for axis in self.axes if len({condition.axes[axis] for condition in shown}) > 1}
        if not shown or not varying.issuperset(spec.needs) or (spec.blocks and self.unfinished):
            return False  # no ledger is made of a part
        return spec.x not in spec.needs or _compare(shown, spec.x, "model" if spec.by_player else "")

    def notes(self) -> dict[str, str]:
        """Return what readers should know of the models that are used, by name."""
        used = sorted({name for condition in self.conditions for name in condition.models})
        return {name: self.models[name].note for name in used if self.models[name].note}

    @cached_property
    def plan(self) -> str:
        """Eight hexadecimal digits that name what tables and figures show: title, simulations, those drawn, questions.

        And how they are made: tables of an earlier version of Parley are made again.
        """
        return digest([TABLES_VERSION, self._shown, *self.questions_json, *self.shown_besides])[:8]

    @cached_property
    def _shown(self) -> str:
        played = [[condition.name, condition.identity, list(condition.seeds)] for condition in self.conditions]
        drawn = {name: [c.model_dump(mode="json") for c in choices] for name, choices in self.drawn.items()}
        return digest([self.title, *played, *([drawn] if drawn else [])])[:8]

    @property
    def questions_json(self) -> list[dict[str, Any]]:
        """The questions as plain JSON values."""
        return [question.model_dump(mode="json", exclude_defaults=True) for question in self.questions]

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        """What the questions compare, in the order of the file: the family whose p are corrected together."""
        if self.unfinished is not None:  # also those of which no condition was played
            whole: Study = self.unfinished.whole
            return whole.comparisons
        return tuple(
            comparison
            for place, question in enumerate(self.questions)
            for comparison in compared(question, self.first_repeat.conditions, f"{self.file}: questions[{place}]")
        )

    @property
    def shown_besides(self) -> list[Any]:
        """What is shown that no record has: the rates of a paper, the model of effects, the studies beside it."""
        effects = [] if self.effects == _PLAIN_EFFECTS else [self.effects.model_dump(mode="json")]
        beside = [] if self.companions is None else [self.companions.model_dump(mode="json")]
        wanted = [] if self.achievable is None else [self.achievable.identity()]
        return [*(each.model_dump(mode="json") for each in self.paper), *effects, *beside, *wanted]

    @cached_property
    def ledger_plan(self) -> str:
        """Eight hexadecimal digits that name what the ledger holds: the set of simulations, and how it is made."""
        return digest([self._shown, LEDGER_FORMAT, self.ledger.model_dump(mode="json")])[:8]

    def fitting(self, axes: Mapping[str, Any]) -> list[Condition]:
        """Return the conditions that have these values of axes, as in a path or as a study writes them.

        Raises UsageError if the study has no such axis, or no such condition.
        """
        if unknown := [axis for axis in axes if axis not in self.axes]:
            remedy = choose(unknown[0], self.axes)
            raise UsageError(f"{self.file}: {unknown[0]}: not an axis of this study; {remedy}")
        meant = {axis: axis_names(self.game, axis, str(value)) for axis, value in axes.items()}
        found = [c for c in self.conditions if all(str(c.axes[axis]) in names for axis, names in meant.items())]
        if not found:
            remedy = f"{self._meant(axes)}`parley expand {self.file}` lists them"
            raise UsageError(f"{self.file}: no condition has {axes_text(axes)}; {remedy}")
        return found

    def named_for(self, figure: str, some_left_out: bool = False) -> list[Simulation]:
        """Return the simulations that the study names for a figure, each once, in its order; none if it names none.

        Raises UsageError where it names some that it does not have, unless `some_left_out`: of a study without the
        simulations whose records are damaged.
        """
        found: dict[tuple[str, int], Simulation] = {}
        for place, choice in enumerate(self.drawn.get(figure, ())):
            where = f"{self.file}: figures.{figure}[{place}]"
            try:
                conditions = self.fitting(choice.where)
            except UsageError as error:
                if some_left_out:
                    continue
                raise UsageError(f"{where}.where: {str(error).removeprefix(f'{self.file}: ')}") from None
            for condition in conditions:
                for seed in choice.seeds or [min(condition.seeds)]:
                    if seed in condition.seeds:
                        found[condition.name, seed] = Simulation(condition, seed)
                    elif not some_left_out:
                        raise UsageError(
                            f"{where}.seeds: {seed}: not a seed of {condition.name}; choose one of its own"
                        )
        return list(found.values())

    def _meant(self, axes: Mapping[str, Any]) -> str:
        """Return what conditions have in place of the first value that none has; "" if each of the values is there."""
        for axis, value in axes.items():
            there = list(dict.fromkeys(str(condition.axes[axis]) for condition in self.conditions))
            if not axis_names(self.game, axis, str(value)).intersection(there):
                close = None if str(value).isdecimal() else meant(value, there)
                question = f"did you mean {axis}={close}? " if close else ""
                return f"{question}{axis} is one of {one_line(', '.join(there), 300)}; "
        return ""

    def find(self, record: Path) -> Simulation:
        """Return the simulation whose record has this path; raises UsageError if it is not in the study."""
        if name := _SEED_FILE.fullmatch(record.name):
            seed = int(name[1])
            for condition in self.conditions:
                if seed in condition.seeds and record == paths.simulation(self.name, condition.place, seed):
                    return Simulation(condition, seed)
        raise UsageError(
            f"{record}: not a simulation of {self.file}; `parley expand {self.file}` lists them "
            "(the path's spec changes when a parameter, prompt or model does)"
        )


def _compare(conditions: Sequence[Condition], axis: str, besides: str = "") -> bool:
    """Return whether any two conditions differ in this axis alone, or in it and the one `besides`.

    Along b, what goes with it may differ too.
    """
    free = {axis, "n", BYZANTINE_AXIS} if axis == "b" else {axis, besides}
    found: dict[tuple[Any, ...], set[Any]] = {}
    for condition in conditions:
        alike = tuple(value for name, value in condition.axes.items() if name not in free)
        found.setdefault(alike, set()).add(condition.axes[axis])
    return any(len(values) > 1 for values in found.values())


def _check_drawn(study: Study) -> None:
    """Raise UsageError if a study names figures, conditions or seeds that it does not have, or too many."""
    known = [spec.name for spec in study.game.evidence.figures if KINDS[spec.kind].single]
    for figure in study.drawn:
        if figure not in known:
            remedy = choose(figure, known)
            raise UsageError(f"{study.file}: figures.{figure}: no figure of single simulations; {remedy}")
        if (number := len(study.named_for(figure))) > _MOST_DRAWN:
            raise UsageError(
                f"{study.file}: figures.{figure}: {number} simulations; at most {_MOST_DRAWN} are drawn; name fewer"
            )


def check_name(file: Path) -> None:
    """Raise UsageError if a study file's name cannot name its study."""
    if not is_slug(file.stem):
        raise UsageError(
            f"{one_line(str(file), 300)}: the file's name becomes a folder; use letters, digits, '.', '_' and '-'"
        )


def check_alone(file: Path, *known: Path) -> None:
    """Raise UsageError if another study file, none of `known`, has the same name, and so the same results."""
    beside = (file.with_suffix(suffix) for suffix in (".yaml", ".yml"))
    for other in (paths.study_file(file.stem), *beside):
        if other not in known and other.exists() and not (file.exists() and other.samefile(file)):
            raise UsageError(
                f"{file} and {other}: two studies of one name would share {paths.results(file.stem)}; give one of the "
                "files another name (mv)"
            )


def check_there(file: Path) -> None:
    """Raise UsageError for a study file that is not there, with those that are beside it."""
    try:
        file.stat()
    except FileNotFoundError:
        there = paths.studies(file.parent) or paths.studies(paths.root())
        remedy = choose(file.stem, there) if there else "parley new NAME writes a study"
        raise UsageError(f"{file}: no such file; {remedy}") from None
    except OSError:  # reading it says why
        pass


def _repeated(conditions: tuple[Condition, ...], repeats: int, where: str) -> tuple[Condition, ...]:
    """Return the conditions once for each time that they are played; raises UsageError if nothing can differ."""
    if repeats == 1:
        return conditions
    if greedy := next((condition.name for condition in conditions if not condition.samples), None):
        raise UsageError(
            f"{where}: repeats: {repeats}: {greedy} asks its models at temperature 0, so the same seed gives "
            "the same game again; remove repeats, or raise a temperature"
        )
    return tuple(replace(condition, repeat=repeat) for repeat in range(repeats) for condition in conditions)


def _as_decided(conditions: tuple[Condition, ...], study: str) -> tuple[Condition, ...]:
    """Return the conditions with the seeds that they have by now, where they grow: as decided, else as on the disk."""
    numbers = decided(study) if any(condition.growing for condition in conditions) else {}

    def seeds(condition: Condition, growing: GrowingSeeds) -> range:
        number = numbers.get(condition.place)
        if number is None:
            number = on_disk(paths.simulation(study, condition.place, 0).parent)
        return range(growing.step(number))

    return tuple(replace(c, seeds=seeds(c, c.growing)) if c.growing else c for c in conditions)


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
    where = str(file)
    check_there(file)
    content = validated(StudyFile, load_yaml(file), where)
    check_name(file)
    look_beside(file.parent)
    try:
        game = game_class(content.game)
    except (UsageError, GameError) as error:
        raise type(error)(f"{where}: game: {error}") from None
    if content.ledger is not None and not game.evidence.keeps_ledger:
        raise UsageError(f"{where}: ledger: the game {game.name} keeps none; remove this key")
    models_file = models_file or paths.models_file(file)
    recorded = recorded or {}
    models = {**recorded, **(load_models(models_file) if exists(models_file) else {})}
    for name in models:
        if name in game.policies or name in (SAME, SCRIPTED, OWN_CODE, NOBODY):
            raise UsageError(f"{models_file}: models.{name}: a reserved name; rename the entry")
    expander = Expander(where, content, game, models, models_file, needs_weights)
    _check_made_of(content, where)
    if content.fork is None:
        once, repeats = expander.conditions(), content.repeats
    else:
        once, repeats = Forks(f"{where}: fork", game, expander).conditions(content.fork, file), content.fork.repeats
        models = {**{name: entry for c in once for name, entry in c.entries.items()}, **models}
    conditions = _as_decided(_repeated(once, repeats, where), file.stem)
    used = (name for c in conditions for name in c.models if models[name] is not recorded.get(name))
    check_prices(content.budget, used, models, where, models_file)
    _check_batches(conditions, where)
    study = Study(
        name=file.stem,
        file=file,
        models_file=models_file,
        title=content.title or file.stem,
        game=game,
        shard_size=content.shard_size,
        conditions=conditions,
        models=models,
        budget=content.budget,
        most_unusable=content.most_unusable,
        ledger=content.ledger or _PLAIN_LEDGER,
        drawn=content.figures,
        questions=tuple(content.questions),
        paper=tuple(content.paper),
        effects=content.effects or _PLAIN_EFFECTS,
        companions=content.companions,
        own_prompts=expander.own_prompts,
        achievable=None if content.achievable is None else expander.protocol(content.achievable),
    )
    _check_drawn(study)
    _ = study.comparisons  # a question that no condition answers is refused before anything is played
    _check_achievable(study)
    check_rates(study.paper, study.effects, game, study.axes, where)
    for each in study.paper:
        study.fitting(each.where)
    return study


def study_of(name: str, content: Mapping[str, Any], models_file: Path | None, needs_weights: bool = True) -> Study:
    """Return the study that a file of this name and content would be, which there is none of; raises as `load_study`.

    Messages do not name the file.
    """
    with TemporaryDirectory() as folder:
        file = Path(folder) / f"{name}.yaml"
        file.write_text(json.dumps(content), encoding="utf-8")  # JSON is YAML
        try:
            return load_study(file, models_file or paths.models_file(Path("study.yaml")), needs_weights=needs_weights)
        except (UsageError, RecordError) as error:
            raise type(error)(str(error).removeprefix(f"{file}: ")) from None


def _check_made_of(content: StudyFile, where: str) -> None:
    """Raise UsageError unless either grids or recorded games make the conditions."""
    if content.fork is None and not content.grids:
        raise UsageError(f"{where}: grids: missing; add a block of conditions")
    if content.fork is not None and (
        said := {"grids", "parameters", "seeds", "repeats", "compare_with"} & content.model_fields_set
    ):
        raise UsageError(f"{where}: {min(said)}: the recorded games of `fork` say it already; remove this key")


def _check_achievable(study: Study) -> None:
    """Raise UsageError for a protocol that cannot play, and questions about what was lost where none is played."""
    for condition in study.conditions if study.achievable else ():
        try:
            Simulation(condition, 0).game().best_known(study.achievable)
        except UsageError as error:
            raise UsageError(f"{study.file}: {error}") from None
    lost = {quantity.name for quantity in study.game.evidence.lost}
    asked = next((name for each in study.comparisons for name in each.outcomes if name in lost), None)
    if asked and study.achievable is None and all(condition.honest_by_rules for condition in study.conditions):
        raise UsageError(
            f"{study.file}: questions: {asked}: games of rules are held against no protocol; add achievable: PROTOCOL"
        )


def _check_batches(conditions: Iterable[Condition], where: str) -> None:
    """Raise UsageError if a game that asks in batches has a process of its own, or counts how long replies take."""
    for condition in conditions:
        batched = next((name for name, entry in condition.entries.items() if entry.batch), None)
        why = (
            "code of the user's own plays, in a process for each game"
            if condition.runs_own_code
            else "time_limit counts how long replies take"
            if getattr(condition.parameters, "time_limit", None) is not None
            else None
        )
        if batched and why:
            raise UsageError(f"{where}: {condition.name}: {why}, and {batched} is asked in batches; remove its batch")


def check_prices(
    budget: BudgetLimits | None, used: Iterable[str], models: Mapping[str, ModelEntry], where: str, models_file: Path
) -> None:
    """Raise UsageError if money is limited and a model that is used has no price."""
    if budget is None or budget.cost is None:
        return
    for name in sorted(set(used)):
        if models[name].price is None:
            raise UsageError(
                f"{where}: budget.cost: {budget.cost:g}: {name} has no price; add price: {{prompt: ..., "
                f"completion: ...}} to models.{name} in {models_file}, or give budget.tokens alone"
            )
