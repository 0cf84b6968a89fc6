"""Whether a question was declared before its games were played: what was frozen, against the times of the games.

Times are those of the clocks of the machines that froze and that played. A clock can be set, and a page edited: that a
plan came first is shown to others by a copy that they hold, such as a commit that was pushed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from parley.analysis.simulations import IMPORTED
from parley.errors import RecordError
from parley.study import Study
from parley.study.condition import Condition
from parley.study.frozen import CHANGED, Frozen, asked_of, read_frozen
from parley.text import counted, one_line

_EXPLORATORY = "exploratory"
_MAX_SEEDS = 10  # that are named
_REPEAT = re.compile(r"/repeat=(\d+)$")

Told = tuple[str, bool, bool]  # the columns of `with_registration`


def with_registration(table: pd.DataFrame, rows: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Return a table with a row per comparison of the study's questions, and what was frozen of each by now.

    `rows` is the table of simulations. A question is `confirmatory` if it was frozen, as it is, before the first of
    the games that answer it began, and no seed was added or left out since; `registered` says so, or why not.
    `seeds_fixed` is whether nothing but that freeze said how many seeds there are.
    """
    found = list(registrations(rows, study))
    columns = ("registered", "confirmatory", "seeds_fixed")
    return table.assign(**{name: [each[place] for each in found] for place, name in enumerate(columns)})


def registrations(rows: pd.DataFrame, study: Study) -> Iterator[Told]:
    """Yield what was frozen of each comparison of the study's questions, see `with_registration`."""
    whole: Study = study.unfinished.whole if study.unfinished else study
    frozen, problem = None, ""
    try:
        frozen = read_frozen(whole)
    except FileNotFoundError:
        problem = "not frozen"
    except RecordError:
        problem = "the frozen page cannot be read"
    if frozen is not None and frozen.is_edited:
        problem = "the frozen page was edited"
    games = dict(list(rows.groupby("spec"))) if len(rows) else {}
    for comparison in study.comparisons:
        conditions = comparison.conditions
        why = problem or (_changed(frozen, whole, comparison.question.name, conditions) if frozen else "")
        if why or frozen is None:
            yield f"{why}: {_EXPLORATORY}", False, False
            continue
        yield _when(frozen, [(each, games[each.spec]) for each in conditions if each.spec in games], conditions)


def registered_lines(rows: pd.DataFrame, study: Study) -> list[str]:
    """Return in a line each what was frozen of which questions, see `with_registration`."""
    names: dict[str, dict[str, None]] = {}
    for comparison, (said, is_confirmatory, _) in zip(study.comparisons, registrations(rows, study), strict=True):
        text = f"confirmatory, {said}" if is_confirmatory else said
        names.setdefault(text, {})[comparison.question.name] = None
    return [one_line(f"{', '.join(questions)}: {text}") for text, questions in names.items()]


def _changed(frozen: Frozen, study: Study, question: str, conditions: Sequence[Condition]) -> str:
    """Return what of a question is not as it was frozen, besides the seeds; "" for nothing."""
    now, then = asked_of(study), frozen.content
    before, after = ({each["name"]: each for each in part["questions"]} for part in (then, now))
    if question not in before:
        return "not among the frozen questions"
    if before[question] != after[question]:
        return f"{CHANGED} since it was frozen"
    frozen_ones, ours = _first(then["conditions"]), _first(now["conditions"])
    if any(frozen_ones.get(_name(each), [""])[0] != each.identity for each in conditions):
        return f"its conditions {CHANGED} since they were frozen"
    names = {_name(each) for each in conditions if each.fork}  # the mean of all repeats of a fork is its value
    repeats = [{name for name in part["conditions"] if _REPEAT.sub("", name) in names} for part in (then, now)]
    if repeats[0] != repeats[1]:
        return f"its repeats {CHANGED} since it was frozen"
    if gone := sum(name not in ours for name in frozen_ones):
        return f"{counted(gone, 'condition')} left out since it was frozen"
    if gone := sum(name not in after for name in before):  # p is corrected for those that are left
        return f"{counted(gone, 'question')} left out since it was frozen"
    return ""


def _when(frozen: Frozen, games: Sequence[tuple[Condition, pd.DataFrame]], conditions: Sequence[Condition]) -> Told:
    """Return when a question was frozen that is as it was, before or after how many of its games; and the seeds."""
    if any(part["engine"].str.startswith(IMPORTED).any() for _, part in games):
        return f"imported games, whose times are not ours: {_EXPLORATORY}", False, False
    number, played = counted(sum(len(part) for _, part in games), "game"), _first(frozen.played)
    # A game that was there counts as played before, whatever the clock says of the machine that played it.
    early = [
        min(len(part), max(int((part["started"] < frozen.time).sum()), played.get(_name(each), 0)))
        for each, part in games
    ]
    if any(early):
        return f"frozen after {sum(early)} of {number}: {_EXPLORATORY}", False, False
    first = f"frozen before the first of {number}" if games else "frozen, and no game is played"
    of_old = _first(frozen.content["conditions"])
    seeds = [(of_old[_name(each)][1], each) for each in conditions]
    both = [(set(range(then) if isinstance(then, int) else then), set(each.seeds)) for then, each in seeds]
    if gone := {seed for then, now in both for seed in then - now}:
        return f"{first}; seeds left out since: {_named(gone)}: {_EXPLORATORY}", False, False
    if new := {seed for then, now in both for seed in now - then}:
        return f"{first}; seeds added since: {_named(new)}: {_EXPLORATORY} but for the anytime p", False, False
    return first, True, True


def _named(seeds: set[int]) -> str:
    more = f" and {len(seeds) - _MAX_SEEDS} more" if len(seeds) > _MAX_SEEDS else ""
    return f"{', '.join(map(str, sorted(seeds)[:_MAX_SEEDS]))}{more}"


def _name(condition: Condition) -> str:
    return replace(condition, repeat=None).name


def _first(by_name: Mapping[str, Any]) -> dict[str, Any]:
    """Return what conditions have, by name without the repeat: who plays seeds again changes no first game."""
    found = ((name, _REPEAT.search(name), value) for name, value in by_name.items())
    return {_REPEAT.sub("", name): value for name, repeat, value in found if repeat is None or repeat[1] == "0"}
