"""The tables `endings` and `times`: when games ended and how, and how that differs between conditions.

The ways to end are competing risks: a game that ended in one way can end in no other. A game that met its deadline is
censored: it would have ended later, if at all. docs/explanation/statistics.md says what is computed, and why.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy
from numpy.typing import ArrayLike, NDArray

from parley.analysis.contrasts import NONE_IMPOSSIBLE, Impossible
from parley.analysis.pairs import compared_conditions, pair_numbers
from parley.analysis.rates import by_condition
from parley.analysis.tables import names_of
from parley.games.base import Game
from parley.statistics.differences import holm_within
from parley.statistics.stats import CONFIDENCE, Floats, censored_median, wilson_of_mean

ANY = "any"  # way to end: whichever
RESAMPLED = 2000
_FEWEST = 6  # of fewer values no 95% interval of a median has two limits
_PAIR = "_pair"


@dataclass(frozen=True)
class Incidence:
    """By time: how many still play before it, and the share of games that ended by then, with its limits."""

    times: Floats
    at_risk: NDArray[np.int64]
    share: Floats
    low: Floats
    high: Floats


def incidences(times: ArrayLike, ways: ArrayLike, number: int) -> list[Incidence]:
    """Return the cumulative incidence of each of `number` ways to end (Aalen and Johansen, Scand. J. Stat. 5, 1978).

    `ways[i]` is 1 to `number`, or 0 where `times[i]` is only a lower bound. The limits are Wilson's, with the size
    that a sample without censoring would need for the same standard error (Rothman, J. Chronic Diseases 31, 1978,
    p. 557): all games as long as none is censored, at most. Where there is no standard error, that are those at risk.
    """
    from statsmodels.duration.survfunc import CumIncidenceRight

    time, way = np.asarray(times, dtype=float), np.asarray(ways, dtype=int)
    with np.errstate(divide="ignore", invalid="ignore"):  # no standard error where all end, or none
        incidence = CumIncidenceRight(time, way)
    at_risk = np.array([(time >= t).sum() for t in incidence.times])
    whole = np.array([not np.any((way == 0) & (time < t)) for t in incidence.times])
    curves = []
    for place in range(number):
        seen = place < len(incidence.cinc)
        share = np.clip(incidence.cinc[place], 0.0, 1.0) if seen else np.zeros(len(at_risk))
        error = incidence.cinc_se[place] if seen else np.zeros(len(at_risk))
        known = (error > 0) & (share > 0) & (share < 1)
        size = np.where(known, share * (1 - share) / np.where(known, error, 1.0) ** 2, at_risk)
        low, high = wilson_of_mean(share, np.where(whole, time.size, np.minimum(size, time.size)))
        curves.append(Incidence(incidence.times, at_risk, share, low, high))
    return curves


def median_interval(times: ArrayLike, ended: ArrayLike) -> tuple[float, float]:
    """Return the limits of the median time to the end (after Brookmeyer and Crowley, Biometrics 38, 1982, p. 29).

    They are the first times at which the upper, and the lower, limit of the share of ended games is one half; NaN
    where it never is: that limit is not known. `ended[i]` is False where `times[i]` is only a lower bound.
    """
    if not np.size(times):
        return (math.nan, math.nan)
    [curve] = incidences(times, np.asarray(ended, dtype=bool).astype(int), 1)
    reached = [curve.times[limit >= 0.5] for limit in (curve.high, curve.low)]
    low, high = (float(of[0]) if of.size else math.nan for of in reached)
    return (low, high)


def log_rank(times: ArrayLike, ended: ArrayLike, second: ArrayLike) -> float:
    """Return the two-sided p of the log-rank test (Mantel, Cancer Chemotherapy Reports 50, 1966, p. 163).

    `second[i]` says whether a game is of the second group. NaN where a group is empty, or none can end before another.
    """
    time, status, group = np.asarray(times, dtype=float), np.asarray(ended, dtype=bool), np.asarray(second, dtype=bool)
    one, other = (scipy.stats.CensoredData(time[of & status], right=time[of & ~status]) for of in (~group, group))
    with np.errstate(divide="ignore", invalid="ignore"):  # nothing varies
        found = scipy.stats.logrank(one, other)
    return float(found.pvalue) if math.isfinite(found.statistic) else math.nan


def paired_log_rank(times: ArrayLike, ended: ArrayLike, clusters: NDArray[np.int64] | None = None) -> float:
    """Return the two-sided p of the log-rank test for pairs: a row for each, a column for its first and second game.

    It asks whether the signs of the pairs' differences of log-rank scores are by chance alone (O'Brien and Fleming,
    Biometrics 43, 1987, p. 169, who have another score); normal. A cluster has one sign. NaN if all scores are alike.
    """
    time, status = np.asarray(times, dtype=float).reshape(-1, 2), np.asarray(ended, dtype=bool).reshape(-1, 2)
    moments, counts = np.unique(time[status], return_counts=True)
    hazards = counts / (time.reshape(-1, 1) >= moments).sum(axis=0)
    # Whether it ended, less how often games that played as long would have by chance.
    scores = status - (time[..., None] >= moments) @ hazards
    differences = scores[:, 1] - scores[:, 0]
    if clusters is not None:
        differences = np.bincount(np.unique(clusters, return_inverse=True)[1], differences)
    squares = float((differences**2).sum())
    return float(2 * scipy.special.ndtr(-abs(differences.sum()) / math.sqrt(squares))) if squares > 1e-20 else math.nan


def rounds_until(rows: pd.DataFrame, way: str, never: int) -> Floats:
    """Return the round in which each game ended before its deadline in a way; `never` for all that did not by then."""
    reached = rows["finished_early"].to_numpy(dtype=bool) & (rows["outcome"] == way).to_numpy()
    return np.where(reached, np.minimum(rows["rounds"], never), never).astype(float)


def ending_table(
    rows: pd.DataFrame, by: Sequence[str], game: type[Game], impossible: Impossible = NONE_IMPOSSIBLE
) -> pd.DataFrame:
    """Return a row per condition, way to end, and round in which a game ended or met its deadline.

    `rows` is the table of simulations. Ways to end are the outcomes with which any of them ended early, but what is
    `impossible` in a condition has no rows there, and then `any`. No rows for games that always last their time.
    """
    ways = ways_to_end(rows, game)
    table: list[list[Any]] = []
    for key, group in by_condition(rows, by) if ways else ():
        time, status = group["rounds"].to_numpy(dtype=float), _ways(group, ways)
        curves = dict(zip(ways, incidences(time, status, len(ways)), strict=True))
        [curves[ANY]] = incidences(time, (status > 0).astype(int), 1)
        for place, (way, curve) in enumerate(curves.items(), 1):
            if way in impossible.get(key, frozenset()):
                continue
            mine = time[status > 0 if way == ANY else status == place]
            for at, moment in enumerate(curve.times):
                count = int((mine == moment).sum())
                values = [curve.share[at], curve.low[at], curve.high[at]]
                table.append([*key, way, int(moment), len(group), int(curve.at_risk[at]), count, *values])
    return pd.DataFrame(table, columns=names_of("endings", by, game))


def ways_to_end(rows: pd.DataFrame, game: type[Game]) -> list[str]:
    """Return the outcomes with which any of these simulations ended before its deadline, in the game's order."""
    if rows.empty:
        return []
    early = set(rows.loc[rows["finished_early"].astype(bool), "outcome"])
    return [outcome.name for outcome in game.outcomes if outcome.name in early]


def _ways(group: pd.DataFrame, ways: Sequence[str]) -> NDArray[np.int64]:
    """Return the number of each simulation's way to end, from 1; 0 for one that met its deadline."""
    number = {way: place for place, way in enumerate(ways, 1)}
    early = group["finished_early"].to_numpy(dtype=bool)
    return np.where(early, [number.get(outcome, 0) for outcome in group["outcome"]], 0)


# Conditions that differ in one axis


@dataclass(frozen=True)
class _Times:
    """The times of one condition's games, all or those that ended in one way, and medians of resampled ones."""

    time: Floats
    ended: NDArray[np.bool_]
    pairs: NDArray[np.int64]
    median: float
    limits: tuple[float, float]
    resampled: Floats


def times_table(rows: pd.DataFrame, by: Sequence[str], game: type[Game]) -> pd.DataFrame:
    """Return a row per pair of conditions that `contrasts` compares, and way to end: medians and how they differ.

    `any` is the time to the end of all games, with deadlines as censoring and the log-rank test, that for pairs where
    the two share seeds. The other ways are of
    the games alone that ended so; other games may end so in the other condition, so nothing is tested. The intervals
    of difference and ratio are of medians of resampled games: games that share a seed have the same weight in both
    conditions, so that pairs stay pairs.
    """
    ways = ways_to_end(rows, game)
    names = names_of("times", by, game)
    if not ways:
        return pd.DataFrame([], columns=names)
    rows = rows.assign(**{_PAIR: pair_numbers(rows, game)})
    # Bayesian bootstrap (Rubin, Annals of Statistics 9, 1981, p. 130): a weight for each seed, whatever else varies.
    weights = np.random.default_rng(0).exponential(size=(RESAMPLED, int(rows[_PAIR].max()) + 1)).astype(np.float32)
    groups = list(by_condition(rows, by))
    places = compared_conditions([key for key, _ in groups], by, game)
    table: list[list[Any]] = []
    for way in [ANY, *ways]:
        cells = [_cell(group, way, weights) for _, group in groups]
        for i, j, (axis, first, second, *others) in places:
            if cells[i].time.size and cells[j].time.size:
                table.append([axis, first, second, way, *others, *_compared(cells[i], cells[j], way)])
    times = pd.DataFrame(table, columns=names[:-1])
    return times.assign(p_holm=holm_within(times["p"], list(zip(times["axis"], times["ending"], strict=True))))


def _cell(group: pd.DataFrame, way: str, weights: Any) -> _Times:
    if way != ANY:
        group = group[group["finished_early"].astype(bool) & (group["outcome"] == way)]
    time = group["rounds"].to_numpy(dtype=float)
    ended, pairs = group["finished_early"].to_numpy(dtype=bool), group[_PAIR].to_numpy(dtype=np.int64)
    median = censored_median(time.tolist(), ended.tolist())
    resampled = resampled_medians(time, ended, weights[:, pairs]) if time.size else np.empty(0)
    return _Times(time, ended, pairs, median, median_interval(time, ended), resampled)


def resampled_medians(time: Floats, ended: NDArray[np.bool_], weights: Any) -> Floats:
    """Return the Kaplan-Meier median for each row of `weights` (a column per game); inf where it is not reached."""
    moments = np.unique(time[ended])
    if not moments.size:
        return np.full(len(weights), np.inf)
    ending = weights @ ((time[:, None] == moments) & ended[:, None]).astype(weights.dtype)
    playing = weights @ (time[:, None] >= moments).astype(weights.dtype)
    left = np.cumprod(1 - ending / playing, axis=1) <= 0.5
    return np.where(left.any(axis=1), moments[left.argmax(axis=1)], np.inf)


def _compared(first: _Times, second: _Times, way: str) -> Iterator[Any]:
    """Yield the cells of the table `times` that follow the axes, but for the last."""
    yield np.intersect1d(first.pairs, second.pairs).size
    yield from (first.time.size, second.time.size, int(first.ended.sum()), int(second.ended.sum()))
    yield from (first.median, *first.limits, second.median, *second.limits)
    yield second.median - first.median
    many = min(first.time.size, second.time.size) >= _FEWEST
    with np.errstate(invalid="ignore", divide="ignore"):
        yield from percentile_interval(second.resampled - first.resampled, -np.inf) if many else (math.nan, math.nan)
        yield float(np.divide(second.median, first.median))
        yield from percentile_interval(second.resampled / first.resampled, 0.0) if many else (math.nan, math.nan)
    yield from _tested(first, second) if way == ANY else ("", math.nan)


def _tested(first: _Times, second: _Times) -> tuple[str, float]:
    """Return the name of the test and its p: of the pairs, or of all where there are none."""
    _, mine, yours = np.intersect1d(first.pairs, second.pairs, assume_unique=True, return_indices=True)
    if mine.size:
        time = np.stack([first.time[mine], second.time[yours]], axis=1)
        return "paired log-rank", paired_log_rank(time, np.stack([first.ended[mine], second.ended[yours]], axis=1))
    time, ended = np.concatenate([first.time, second.time]), np.concatenate([first.ended, second.ended])
    return "log-rank", log_rank(time, ended, np.arange(time.size) >= first.time.size)


def percentile_interval(values: Floats, least: float) -> tuple[float, float]:
    """Return between which limits the middle 95% lie; what is undefined may be anything from `least` on.

    NaN for a limit that is not finite: that side is open.
    """
    tail = (1 - CONFIDENCE) / 2
    low = float(np.quantile(np.where(np.isnan(values), least, values), tail, method="lower"))
    high = float(np.quantile(np.where(np.isnan(values), np.inf, values), 1 - tail, method="higher"))
    return (low if math.isfinite(low) else math.nan), (high if math.isfinite(high) else math.nan)
