"""The table `effects`: one model over all axes, as effects in the rate of an outcome.

A binomial model of the simulations of all conditions, fitted by generalized estimating equations (GEE; Liang and
Zeger, Biometrika 73, 1986, pp. 13-22): simulations that share a seed are correlated. An effect is what the model says
of the rate, not of log odds: the mean difference over the conditions that the table `margins` compares, too.
"""

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from parley.analysis.contrasts import NONE_IMPOSSIBLE, Impossible
from parley.analysis.margins import MIN_SEEDS, Answers, ValuePair, answers_of, comparisons
from parley.analysis.pairs import with_group_size
from parley.analysis.stats import CONFIDENCE, Floats
from parley.analysis.tables import names_of
from parley.games.base import Game
from parley.study.study_file import Effects
from parley.text import one_line

CHANGES = " -> "  # in `at`: how an effect changes from one value of another axis to the next
_LONGEST_NOTE = 200
_STEPS = 200  # of Newton's method, at most


@dataclass(frozen=True)
class Fit:
    """What the model says of each condition: its rate, and how that follows from the coefficients.

    `slopes` has a row per condition: the derivative of its rate by each coefficient, whose covariance is `covariance`,
    and no less than `least`. The rate of a `separated` condition is 0 or 1, which no coefficient reaches: its row is
    0. Rates are NaN where nothing could be fitted.
    """

    rates: Floats
    slopes: Floats
    covariance: Floats
    separated: NDArray[np.bool_]
    seeds: int
    correlation: float
    note: str
    least: Floats | None = None


def effect_table(
    rows: pd.DataFrame,
    by: Sequence[str],
    game: type[Game],
    effects: Effects,
    impossible: Impossible = NONE_IMPOSSIBLE,
) -> pd.DataFrame:
    """Return a row per axis and value but the first: what it changes in the rate of one outcome or indicator.

    `rows` is the table of simulations, `by` its axes; `effects` names what is modeled and which axes interact. For
    those there are also the effects at each value of the other axis, and how they change along it. Effects are
    differences of rates; there is no interval with fewer seeds than 5. Where a condition that is compared has the
    outcome always, or never (`separated`), a model has no finite coefficient for it: the effect is by Firth's.
    """
    wanted = effects.outcome or game.outcomes[0].name
    table = []
    for kind, what, answers in answers_of(rows, by, game, impossible):
        if what != wanted:
            continue
        compared = {
            axis: [each for linked in comparisons(answers.keys, axis, answers.answered, game) for each in linked]
            for axis in by
        }
        if any(compared.values()):
            matrix = design(answers.keys, effects.interactions, game)
            model = _Model(answers, compared, effects.interactions, matrix)
            table += [{"kind": kind, "what": what, **row} for row in model.rows()]
    found = pd.DataFrame(table, columns=names_of("effects", by, game))
    return found.astype(dict.fromkeys(("conditions", "separated"), "Int64"))


@dataclass(frozen=True)
class _Model:
    answers: Answers
    compared: dict[str, list[ValuePair]]
    interactions: Sequence[tuple[str, str]]
    matrix: Floats  # see `design`

    @cached_property
    def fit(self) -> Fit:
        """The model, fitted once."""
        return fitted(self.answers, self.matrix)

    @cached_property
    def firth(self) -> Fit:
        """The model by Firth's likelihood, which has finite coefficients whatever is separated."""
        return firth(self.answers, self.matrix)

    def rows(self) -> Iterator[dict[str, Any]]:
        for axis, found in self.compared.items():
            for each in found:
                yield self._row(axis, each, "", [(list(each.cells.values()), 1.0)])
        for one, two in self.interactions:
            for axis, other in ((one, two), (two, one)):
                for each in self.compared[axis]:
                    yield from self._by_other(axis, each, other, changes=axis == one)

    def _by_other(self, axis: str, compared: ValuePair, other: str, changes: bool) -> Iterator[dict[str, Any]]:
        """Yield the effects of an axis at each value of another, and with `changes` how they change along it."""
        places: dict[Any, dict[tuple[Any, ...], tuple[int, int]]] = {}
        keys = self.answers.keys
        at = list(keys).index(other)
        rest = [str(name) for name in keys if name not in (axis, other)]
        for both in compared.cells.values():
            places.setdefault(keys.iat[both[0], at], {})[tuple(keys.iloc[both[0]][rest])] = both
        base = next(iter(places))
        for there, found in places.items():
            yield self._row(axis, compared, f"{other}={there}", [(list(found.values()), 1.0)])
        for there, found in places.items() if changes else ():
            shared = [key for key in found if key in places[base]]
            if there != base and shared:
                parts = [([places[x][key] for key in shared], sign) for x, sign in ((there, 1.0), (base, -1.0))]
                yield self._row(axis, compared, f"{other}={base}{CHANGES}{there}", parts)

    def _row(
        self, axis: str, compared: ValuePair, at: str, parts: Sequence[tuple[list[tuple[int, int]], float]]
    ) -> dict[str, Any]:
        """Return the row of a sum of effects, each of some pairs of conditions and with its sign."""
        fit, weights = self.fit, np.zeros(len(self.answers.keys))
        for cells, sign in parts:
            for first, second in cells:
                weights[second] += sign / len(cells)
                weights[first] -= sign / len(cells)
        used = weights != 0
        separated = int((used & fit.separated).sum())
        fit = self.firth if separated else fit
        effect = float(weights[used] @ fit.rates[used])
        row: dict[str, Any] = {"axis": axis, "from": str(compared.first), "to": str(compared.value), "at": at}
        row |= {
            "conditions": len(parts[0][0]),
            "effect": effect,
            "separated": separated,
            "correlation": fit.correlation,
            "note": fit.note,
        }
        slope = weights @ fit.slopes
        variance = max(float(slope @ each @ slope) for each in (fit.covariance, fit.least) if each is not None)
        if math.isnan(effect) or fit.seeds < MIN_SEEDS or not variance > 0:
            return row | dict.fromkeys(("low", "high", "p"), math.nan)
        error, most = math.sqrt(variance), float(len(parts))
        t = scipy.stats.t(fit.seeds - 1)
        half = float(t.ppf(0.5 + CONFIDENCE / 2)) * error
        return row | {
            "low": max(-most, effect - half),
            "high": min(most, effect + half),
            "p": 2 * float(t.sf(abs(effect) / error)),
        }


def design(keys: pd.DataFrame, interactions: Sequence[tuple[str, str]], game: type[Game]) -> Floats:
    """Return the design matrix of the conditions, a row each: a column per value of each axis, but what follows.

    Each value of an axis is a level of its own: no axis is taken to be straight. Where a study adds Byzantine agents
    to a fixed number of honest ones, that number is the axis, not n, which grows with b. Columns that follow from
    those before them are left out: they say nothing.
    """
    axes = list(keys.columns)
    names = {axis: axis for axis in axes}
    if {"n", "b"} <= set(axes):
        keys, others, _ = with_group_size(keys, [axis for axis in axes if axis != "b"], game.roles[0])
        names["n"] = next((name for name in others if name not in axes), "n")
    levels = {axis: pd.get_dummies(keys[name].astype(object), dtype=float).to_numpy() for axis, name in names.items()}
    columns = [np.ones((len(keys), 1)), *levels.values()]
    columns += [(levels[a][:, :, None] * levels[b][:, None, :]).reshape(len(keys), -1) for a, b in interactions]
    return _independent(np.hstack(columns))


def _independent(matrix: Floats) -> Floats:
    """Return the columns that do not follow from those before them."""
    basis, kept = np.zeros((len(matrix), 0)), []
    for place, column in enumerate(matrix.T):
        left = column - basis @ (basis.T @ column)
        left -= basis @ (basis.T @ left)  # once more, for rounding
        size = float(np.linalg.norm(left))
        if size > 1e-8:
            basis = np.hstack([basis, left[:, None] / size])
            kept.append(place)
    return matrix[:, kept]


def separated_rates(matrix: Floats, rates: Floats) -> Floats:
    """Return 0 or 1 for the conditions whose fitted rate is that, with a coefficient beyond all bounds; else NaN.

    `matrix` has a row per condition, `rates` their observed rates. Found by linear programs (Konis, DPhil thesis,
    Oxford 2007): is there a direction in which no simulation becomes less likely, and some condition more? What is
    found is taken away, and the rest asked again (Geyer, Electronic J. of Statistics 3, 2009, pp. 259-289).
    """
    found = np.full(len(rates), np.nan)
    while (left := np.flatnonzero(np.isnan(found))).size:
        x, rate = _independent(matrix[left]), rates[left]
        sign = np.where(rate == 1, 1.0, np.where(rate == 0, -1.0, 0.0))
        towards, mixed = sign[:, None] * x, sign == 0
        bounds = {"A_ub": -towards, "b_ub": 0 * rate, "A_eq": x[mixed], "b_eq": 0 * rate[mixed]}
        direction: Floats = np.asarray(scipy.optimize.linprog(-towards.sum(axis=0), **bounds, bounds=(-1, 1)).x)
        moved = towards @ direction > 1e-7
        if not moved.any():
            break
        found[left[moved]] = rate[moved]
    return found


def fitted(answers: Answers, matrix: Floats) -> Fit:
    """Return the model of these answers; `matrix` has a row per condition."""
    known = ~np.isnan(answers.values)
    y, cells, seeds = answers.values[known], answers.cells[known], answers.seeds[known]
    size = np.bincount(cells, minlength=len(matrix))
    observed = np.bincount(cells, y, len(matrix)) / np.maximum(size, 1)
    rates = np.full(len(matrix), np.nan)
    there = np.flatnonzero(size)
    rates[there] = separated_rates(matrix[there], observed[there])
    separated = ~np.isnan(rates)
    free = (size > 0) & ~separated
    slopes, covariance, correlation, note = np.zeros((len(matrix), 0)), np.zeros((0, 0)), math.nan, ""
    if free.any():
        x, used = _independent(matrix[free]), free[cells]
        place = np.cumsum(free) - 1
        beta, covariance, correlation, note = _gee(y[used], x[place[cells[used]]], seeds[used])
        rates[free] = scipy.special.expit(x @ beta)
        slopes = np.zeros((len(matrix), x.shape[1]))
        slopes[free] = (rates[free] * (1 - rates[free]))[:, None] * x
    return Fit(rates, slopes, covariance, separated, len(np.unique(seeds)), correlation, note)


def firth(answers: Answers, matrix: Floats) -> Fit:
    """Return the model of these answers by Firth's penalized likelihood (Biometrika 80, 1993, pp. 27-38).

    It counts half an answer more of either kind, by leverage. The covariance is that between seeds, but no less than
    the model's own: seeds that all end alike do not show that others would.
    """
    known = ~np.isnan(answers.values)
    y, cells, seeds = answers.values[known], answers.cells[known], answers.seeds[known]
    size = np.bincount(cells, minlength=len(matrix)).astype(float)
    won, number = np.bincount(cells, y, len(matrix)), len(np.unique(seeds))
    x = _independent(np.where(size[:, None] > 0, matrix, 0.0))
    beta = np.zeros(x.shape[1])
    for _ in range(_STEPS):
        rates = scipy.special.expit(x @ beta)
        weights = size * rates * (1 - rates)
        model = np.linalg.pinv(x.T @ (x * weights[:, None]))
        leverage = weights * np.einsum("ij,jk,ik->i", x, model, x)
        step = model @ x.T @ (won + leverage / 2 - (size + leverage) * rates)
        beta = beta + step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < 1e-10:
            break
    scores = np.zeros((int(seeds.max()) + 1, x.shape[1]))
    np.add.at(scores, seeds, x[cells] * (y - rates[cells])[:, None])
    between = model @ scores.T @ scores @ model * number / max(1, number - 1)
    rates = np.where(size > 0, rates, np.nan)
    slopes = np.nan_to_num(rates * (1 - rates))[:, None] * x
    none = np.zeros(len(matrix), dtype=bool)
    return Fit(rates, slopes, between, none, number, math.nan, "", np.asarray(model))


def _gee(y: Floats, x: Floats, seeds: NDArray[np.int64]) -> tuple[Floats, Floats, float, str]:
    """Return coefficients, their robust covariance, the working correlation, and in one line what the fit warned of.

    The covariance is that between seeds, times seeds / (seeds - 1).
    """
    from statsmodels.genmod.cov_struct import Exchangeable, Independence  # they take a second to import
    from statsmodels.genmod.families import Binomial
    from statsmodels.genmod.generalized_estimating_equations import GEE

    number = len(np.unique(seeds))
    alone = number == len(y)  # nothing shares a seed: there is no correlation to estimate
    order = np.argsort(seeds, kind="stable")
    said: list[str] = []
    for structure in [Independence] if alone else [Exchangeable, Independence]:
        with warnings.catch_warnings(record=True) as caught, np.errstate(all="ignore"):
            warnings.simplefilter("always")
            try:
                working = structure()
                model = GEE(y[order], x[order], groups=seeds[order], family=Binomial(), cov_struct=working)
                found = model.fit(maxiter=100)
                beta = np.asarray(found.params, dtype=float)
                covariance = np.asarray(found.cov_robust, dtype=float) * number / max(1, number - 1)
            except (np.linalg.LinAlgError, ValueError, FloatingPointError) as error:
                said.append(str(error))
                continue
        said += [str(warning.message) for warning in caught]
        if np.isfinite(beta).all() and np.isfinite(covariance).all():
            correlation = float(working.dep_params) if structure is Exchangeable else 0.0
            return beta, covariance, correlation, _line(said)
    size = x.shape[1]
    return np.full(size, np.nan), np.full((size, size), np.nan), math.nan, _line(said or ["no fit was found"])


def _line(said: Sequence[str]) -> str:
    return one_line("; ".join(dict.fromkeys(said)), _LONGEST_NOTE)
