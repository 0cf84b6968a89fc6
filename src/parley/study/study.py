"""A study: its conditions, the simulations that these have, and the shards into which they are dealt."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count, islice
from pathlib import Path
from typing import Any

from parley import paths
from parley.engine.models import ModelEntry
from parley.errors import UsageError
from parley.games.base import Game
from parley.games.evidence import INFLUENCE, FigureSpec
from parley.identity import digest
from parley.study.comparisons import Comparison, compared
from parley.study.condition import (
    BYZANTINE_AXIS,
    SCRIPTED,
    SERVICES,
    Condition,
    Parent,
    Simulation,
    axes_text,
    axis_names,
    check_axis,
)
from parley.study.study_file import LEDGER_FORMAT, StudyFile
from parley.text.yamlfile import check_known

SCRIPTED_SHARD = 500  # simulations: some seconds, so that few starts of a process keep all cores busy
# Raised when the same records give other tables, figures or reports: what is there is made again.
TABLES_VERSION = 28
_SEED_FILE = re.compile(r"seed=(0|[1-9][0-9]{0,8})\.parquet")


@dataclass(frozen=True)
class Study:
    """A study file with its content, checked and expanded into conditions."""

    file: Path
    content: StudyFile
    models_file: Path
    game: type[Game]
    conditions: tuple[Condition, ...]
    models: Mapping[str, ModelEntry]
    part_of: "Study | None" = None  # the study as planned, if not all that it asks for is played

    @property
    def name(self) -> str:
        """The name of its file, which its results have, too."""
        return self.file.stem

    @property
    def title(self) -> str:
        """One line for people; its name where the file gives none."""
        return self.content.title or self.name

    @property
    def whole(self) -> "Study":
        """The study as planned."""
        return self.part_of or self

    @property
    def shortfall(self) -> str:
        """A sentence on how much of the study as planned is here; "" if that is all."""
        there, planned = (sum(len(each.seeds) for each in of.shown.conditions) for of in (self, self.whole))
        return f"{there:,} of {planned:,} planned simulations are played." if self.part_of else ""

    @cached_property
    def axes(self) -> list[str]:
        """The names of the axes, in the order of the paths."""
        return list(self.conditions[0].axes)

    @cached_property
    def varying(self) -> list[str]:
        """The axes in which conditions differ."""
        return [axis for axis in self.axes if len({condition.axes[axis] for condition in self.conditions}) > 1]

    @cached_property
    def shown(self) -> "Study":
        """The first game of each seed: what tables, figures and reports show. The others measure noise."""
        first = tuple(condition for condition in self.conditions if not condition.repeat)
        return self if len(first) == len(self.conditions) else replace(self, conditions=first)

    @property
    def repeats(self) -> int:
        """How many times it plays its seeds."""
        return len(self.conditions) // len(self.shown.conditions)

    @cached_property
    def parents(self) -> dict[Path, Parent]:
        """The recorded games of which it has forks, by their records; none in studies of other games."""
        forks = [condition.fork for condition in self.conditions if condition.fork]
        return {parent.record: parent for fork in forks for parent in fork.parents.values()}

    @property
    def first_time(self) -> dict[str, int]:
        """The axis that tells the simulations that are `shown` from the others; empty without repeats."""
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
        numbers = {engine: count() for engine in self._shard_sizes}
        shards = {}
        for simulation in self.simulations():
            engine = simulation.condition.engine
            shards[simulation.record(self.name)] = (engine, next(numbers[engine]) // self._shard_sizes[engine])
        return shards

    def shard(self, engine: str, number: int) -> list[Simulation]:
        """Return the simulations of one of the `shards`, in order; none if there is no such shard."""
        size = self._shard_sizes.get(engine, 0)
        of_engine = (each for each in self.simulations() if each.condition.engine == engine)
        return list(islice(of_engine, number * size, (number + 1) * size))

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
        """Simulations in a shard, by engine: `shard_size`, and all of services."""
        special = {SCRIPTED: SCRIPTED_SHARD, SERVICES: sum(len(condition.seeds) for condition in self.conditions)}
        engines = {condition.engine for condition in self.conditions}
        return {engine: special.get(engine, self.content.shard_size) for engine in engines}

    @cached_property
    def figures(self) -> tuple[FigureSpec, ...]:
        """The figures of the game that this study has the axes for, and conditions to show in, or to compare.

        In studies of forks what changes the end is the first.
        """
        return (
            *([INFLUENCE] if self.parents else []),
            *(spec for spec in self.game.evidence.figures if self._has(spec)),
        )

    @property
    def main_figure(self) -> FigureSpec | None:
        """The figure that says most at a glance: how games ended, by condition, or what changes that in forks."""
        whole = [spec for spec in self.figures if spec.kind in ("influence", "stacked") and not spec.of]
        return next(iter([*whole, *self.figures]), None)

    def shown_in(self, spec: FigureSpec) -> list[Condition]:
        """Return the conditions of which a figure can show something."""
        if spec.kind == "achievable":
            return [c for c in self.conditions if not c.honest_by_rules]
        return [c for c in self.conditions if self.game.evidence.shows(spec, c.parameters, c.seating)]

    def _has(self, spec: FigureSpec) -> bool:
        shown = self.shown_in(spec)
        varying = {axis for axis in self.axes if len({condition.axes[axis] for condition in shown}) > 1}
        if not shown or not varying.issuperset(spec.needs):
            return False
        return spec.x not in spec.needs or _compare(shown, spec.x, "model" if spec.kind == "map" and spec.of else "")

    def notes(self) -> dict[str, str]:
        """Return what readers should know of the models that are used, by name."""
        used = sorted({name for condition in self.conditions for name in condition.models})
        return {name: self.models[name].note for name in used if self.models[name].note}

    @cached_property
    def plan(self) -> str:
        """Eight hexadecimal digits that name what tables and figures show, and how they are made.

        Tables of an earlier version of Parley are made again.
        """
        return digest([TABLES_VERSION, self._contents, self.shown_besides])[:8]

    @property
    def shown_besides(self) -> dict[str, Any]:
        """What the file says that is shown and that no record has."""
        keys = {"title", "questions", "paper", "figures"}
        return self.content.model_dump(mode="json", include=keys, exclude_defaults=True)

    @cached_property
    def _contents(self) -> str:
        played = [[condition.name, condition.identity, list(condition.seeds)] for condition in self.conditions]
        # Words are shown also where nobody reads them.
        words = [each.prompt_digests for each in self.conditions if self.content.prompts]
        return digest([self.title, *played, *words])[:8]

    @property
    def questions_json(self) -> list[dict[str, Any]]:
        """The questions as plain JSON values."""
        return [question.model_dump(mode="json", exclude_defaults=True) for question in self.content.questions]

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        """What the questions compare, in the order of the file: the family whose p are corrected together."""
        if self.part_of is not None:  # also those of which no condition was played
            return self.part_of.comparisons
        return tuple(
            comparison
            for place, question in enumerate(self.content.questions)
            for comparison in compared(question, self.shown.conditions, f"{self.file}: questions[{place}]")
        )

    @cached_property
    def of_paper(self) -> list[list[Condition]]:
        """The conditions, of all that are planned, that each number of a paper is over."""
        wheres = ({axis: [value] for axis, value in each.where.items()} for each in self.content.paper)
        return [[c for c in self.whole.shown.conditions if c.has(where)] for where in wheres]

    @cached_property
    def ledger_plan(self) -> str:
        """Eight hexadecimal digits that name what the ledger holds: the set of simulations, and how it is made."""
        return digest([self._contents, LEDGER_FORMAT, self.content.ledger.model_dump(mode="json")])[:8]

    def fitting(self, axes: Mapping[str, Any], where: str = "") -> list[Condition]:
        """Return the conditions that have these values of axes, as in a path or as a study writes them.

        Raises UsageError, naming the file and `where` in it, if the study has no such axis, or no such condition.
        """
        place = f"{self.file}: {where}" if where else f"{self.file}"
        for axis, value in axes.items():
            check_axis(place, axis, self.axes, self.game)
            there = dict.fromkeys(str(condition.axes[axis]) for condition in self.conditions)
            if not axis_names(self.game, axis, str(value)).intersection(there):
                check_known(place, str(value), there, axis)
        if not (fitting := self._having(axes)):
            raise UsageError(f"{place}: no condition has {axes_text(axes)}; `parley expand {self.file}` lists them")
        return fitting

    def named_for(self, figure: str) -> list[Simulation]:
        """Return the simulations that the study names for a figure, each once, in its order; none if it names none."""
        chosen = [(self._having(choice.where), choice.seeds) for choice in self.content.figures.get(figure, ())]
        named = {
            (condition.name, seed): Simulation(condition, seed)
            for conditions, seeds in chosen
            for condition in conditions
            for seed in seeds or [min(condition.seeds)]
            if seed in condition.seeds
        }
        return list(named.values())

    def _having(self, axes: Mapping[str, Any]) -> list[Condition]:
        return [each for each in self.conditions if each.has({axis: [value] for axis, value in axes.items()})]

    def find(self, record: Path) -> Simulation:
        """Return the simulation whose record has this path; raises UsageError if it is not in the study."""
        if name := _SEED_FILE.fullmatch(record.name):
            seed = int(name[1])
            for condition in self.conditions:
                if seed in condition.seeds and record == paths.simulation(self.name, condition.folder, seed):
                    return Simulation(condition, seed)
        said = "the path's spec changes when a parameter, prompt or model does"
        raise UsageError(f"{record}: not a simulation of {self.file} ({said})")


def _compare(conditions: Sequence[Condition], axis: str, besides: str) -> bool:
    """Return whether any two conditions differ in this axis alone, or in it and the one `besides`.

    Along b, what goes with it may differ too.
    """
    free = {axis, "n", BYZANTINE_AXIS} if axis == "b" else {axis, besides}
    found: dict[tuple[Any, ...], set[Any]] = {}
    for condition in conditions:
        alike = tuple(value for name, value in condition.axes.items() if name not in free)
        found.setdefault(alike, set()).add(condition.axes[axis])
    return any(len(values) > 1 for values in found.values())
