"""Whether a question was declared before its games were played: what was frozen, against the times of the games.

Times are those of the clocks of the machines that froze and that played. A clock can be set, and a page edited: that a
plan came first is shown to others by a copy that they hold, such as a commit that was pushed.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pandas as pd

from parley.analysis.questions import with_answers
from parley.analysis.simulations import IMPORTED
from parley.errors import RecordError
from parley.study import Study
from parley.study.condition import Condition
from parley.study.frozen import CHANGED, Frozen, content_of, read_frozen
from parley.text import counted, one_line

_EXPLORATORY = "exploratory"
_MAX_SEEDS = 10  # that are named
_REPEAT = re.compile(r"/repeat=(\d+)$")


class Told(NamedTuple):
    """What is said of a comparison, see `with_registration`; one that `stopped` has not all of its frozen games."""

    registered: str
    confirmatory: bool = False
    seeds_fixed: bool = False
    stopped: bool = False


def with_registration(table: pd.DataFrame, rows: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Return the table of questions with what was frozen of each comparison by now, and its answer.

    `rows` is the table of simulations. A question is `confirmatory` if it was frozen, as it is, before the first of
    the games that answer it began, every frozen seed of its conditions is there, and none was added or left out since;
    `registered` says so, or why not. `seeds_fixed` is whether nothing but that freeze said how many seeds there are.
    The answer of a question that stopped early, or went on, is by the p that holds at any time.
    """
    told = pd.DataFrame(registrations(rows, study), columns=Told._fields, index=table.index)
    return with_answers(table.assign(**told), study)


def registrations(rows: pd.DataFrame, study: Study) -> Iterator[Told]:
    """Yield what was frozen of each comparison of the study's questions, see `with_registration`."""
    whole: Study = study.whole
    frozen = None
    try:
        frozen = read_frozen(whole)
        problem = "the frozen page was edited" if frozen.is_edited else ""
    except FileNotFoundError:
        problem = "not frozen"
    except RecordError:
        problem = "the frozen page cannot be read"
    games = dict(list(rows.groupby("spec"))) if len(rows) else {}
    for comparison in study.comparisons:
        conditions = comparison.conditions
        why = problem or (_changed(frozen, whole, comparison.question.name, conditions) if frozen else "")
        if why or frozen is None:
            yield Told(f"{why}: {_EXPLORATORY}")
            continue
        yield _when(frozen, [(each, games[each.spec]) for each in conditions if each.spec in games], conditions)


def registered_lines(rows: pd.DataFrame, study: Study) -> list[str]:
    """Return in a line each what was frozen of which questions, see `with_registration`."""
    names: dict[str, dict[str, None]] = {}
    for comparison, told in zip(study.comparisons, registrations(rows, study), strict=True):
        text = f"confirmatory, {told.registered}" if told.confirmatory else told.registered
        names.setdefault(text, {})[comparison.question.name] = None
    return [one_line(f"{', '.join(questions)}: {text}") for text, questions in names.items()]


def _changed(frozen: Frozen, study: Study, question: str, conditions: Sequence[Condition]) -> str:
    """Return what of a question is not as it was frozen, besides the seeds; "" for nothing."""
    now, then = content_of(study), frozen.content
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
        return Told(f"imported games, whose times are not ours: {_EXPLORATORY}")
    number, begun = counted(sum(len(part) for _, part in games), "game"), _begun(frozen.played, conditions)
    # A game that was there counts as played before, whatever the clock says of the machine that played it.
    early = sum(
        min(len(part), max(int((part["started"] < frozen.time).sum()), begun.get(_name(each), 0)))
        for each, part in games
    )
    said = f"frozen {len(frozen.earlier) + 1} times, last" if frozen.earlier else "frozen"
    if early:
        return Told(f"{said} after {early} of {number}: {_EXPLORATORY}")
    if not games:
        return Told("frozen, and no game is played", seeds_fixed=True)
    first = f"{said} before the first of {number}"
    by_name, of_old = {_name(each): each for each in conditions}, _first(frozen.content["conditions"])
    planned = {name: _seeds_of(of_old[name][1]) for name in by_name}
    there = {_name(each): {*part["seed"]} for each, part in games}
    missing = {name: {*seeds} - there.get(name, set()) for name, seeds in planned.items()}
    if gone := set[int]().union(*({*seeds} - {*by_name[name].seeds} for name, seeds in planned.items())):
        return Told(f"{first}; seeds left out since: {_numbers(gone)}: {_EXPLORATORY}")
    if lacking := set[int]().union(*missing.values()):
        games_then = sum(map(len, planned.values()))
        games_now = games_then - sum(map(len, missing.values()))
        stopped = f"stopped at {games_now} of {games_then} games: seeds {_numbers(lacking)} are missing"
        # The last of those that were frozen: else somebody may have chosen them.
        if any({*planned[name][len(planned[name]) - len(seeds) :]} != seeds for name, seeds in missing.items()):
            return Told(f"{first}; {stopped}, and they are not the last: {_EXPLORATORY}")
        return Told(f"{first}; {stopped}, so the p that holds at any time answers", stopped=True)
    if new := set[int]().union(*({*by_name[name].seeds} - {*seeds} for name, seeds in planned.items())):
        return Told(f"{first}; seeds added since: {_numbers(new)}: {_EXPLORATORY} but for the anytime p", stopped=True)
    return Told(first, confirmatory=True, seeds_fixed=True)


def _begun(played: Mapping[str, int], conditions: Sequence[Condition]) -> Mapping[str, int]:
    """Return how many games of each condition were there at the freeze; of forks in any of their repeats."""
    forks, begun = {_name(each) for each in conditions if each.fork}, Counter[str]()
    for name, number in played.items():
        repeat, first = _REPEAT.search(name), _REPEAT.sub("", name)
        if repeat is None or repeat[1] == "0" or first in forks:
            begun[first] += number
    return begun


def _seeds_of(frozen: int | Sequence[int]) -> Sequence[int]:
    return range(frozen) if isinstance(frozen, int) else frozen


def _numbers(seeds: set[int]) -> str:
    more = f" and {len(seeds) - _MAX_SEEDS} more" if len(seeds) > _MAX_SEEDS else ""
    return f"{', '.join(map(str, sorted(seeds)[:_MAX_SEEDS]))}{more}"


def _name(condition: Condition) -> str:
    return replace(condition, repeat=None).name


def _first(by_name: Mapping[str, Any]) -> dict[str, Any]:
    """Return what conditions have, by name without the repeat: who plays seeds again changes no first game."""
    repeats = ((name, _REPEAT.search(name), value) for name, value in by_name.items())
    return {_REPEAT.sub("", name): value for name, repeat, value in repeats if repeat is None or repeat[1] == "0"}
