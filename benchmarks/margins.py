"""Coverage of the intervals of `margins` and `effects`, and size of the tests, by simulation with known rates.

python -m benchmarks.margins writes margins.csv and margins_unequal.csv beside it (9 minutes). Shares are percent of
the studies; docs/explanation/statistics.md has the least and the largest of them.
"""

import csv
import itertools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import scipy

from parley.analysis.clustered import Sample, Standardized, difference, paired, rate_limits, standardized
from parley.analysis.effects import effect_table
from parley.analysis.stats import Floats, wilson_of_mean
from parley.games.consensus.game import ConsensusGame
from parley.study.margins import Effects

FOLDER = Path(__file__).parent
STUDIES, MODELS = 1000, 200  # studies that are simulated, and those of them that a model is fitted to
DRAWS = 500  # of the bootstrap
# Rates of conditions with the first value of an axis and with the second, by combination of the other axes.
RATES = {
    "equal, 50%": [(0.5, 0.5)] * 4,
    "equal, 10% to 80%": [(0.6, 0.6), (0.5, 0.5), (0.2, 0.2), (0.1, 0.1), (0.7, 0.7), (0.8, 0.8)],
    "differ, 10% to 75%": [(0.6, 0.75), (0.5, 0.65), (0.1, 0.2)],
    "1% and 10%": [(0.01, 0.1)] * 4,
}
# How much alike simulations of a seed are (correlation of the normal numbers behind them), and how much of that has
# the other sign with the other value: a seed then favors one of the two.
ALIKE = {"none": (0.0, 0.0), "0.5": (0.5, 0.0), "0.6, half of it for one value": (0.6, 0.3)}
SEEDS = (5, 10, 25, 50)
# How many seeds the two values have, by combination of the other axes; none: both grow by 10 until the interval of
# their rate is at most 30 points wide, as `grow` does.
MOST = 60
UNEQUAL: dict[str, list[tuple[int, int]]] = {
    "25 and 50": [(25, 50)],
    "10 and 60": [(10, 60)],
    "10 and 60, in four combinations": [(10, 60)] * 4,
    "10 in two combinations, 60 in two": [(10, 10)] * 2 + [(60, 60)] * 2,
    "growing": [],
}


def drawn(random: np.random.Generator, rates: Floats, seeds: int, alike: tuple[float, float]) -> Floats:
    """Return answers: combination of the other axes, value, seed."""
    whole, apart = alike
    common, favor = np.sqrt(whole - apart) * random.normal(size=seeds), np.sqrt(apart) * random.normal(size=seeds)
    level = np.stack([common + favor, common - favor]) + np.sqrt(1 - whole) * random.normal(size=(*rates.shape, seeds))
    below: Floats = (level < scipy.stats.norm.ppf(rates)[..., None]).astype(float)
    return below


def both_rates(answers: Floats) -> list[Standardized]:
    """Return the rates with each of the two values."""
    strata, _, seeds = answers.shape
    cells, numbers = np.repeat(np.arange(strata), seeds), np.tile(np.arange(seeds), strata)
    return [standardized(answers[:, v].ravel(), cells, numbers, np.full(strata, 1 / strata)) for v in (0, 1)]


def bootstrap_covers(random: np.random.Generator, answers: Floats, truth: float) -> bool:
    """Return whether the percentile interval of a bootstrap of seeds holds the first rate."""
    by_seed = answers[:, 0].mean(axis=0)
    means = by_seed[random.integers(0, by_seed.size, (DRAWS, by_seed.size))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return bool(low <= truth <= high)


def pooled(answers: Floats) -> bool:
    """Return whether McNemar's score test of all pairs, as if they were independent, refuses that nothing differs."""
    first, second = int((answers[:, 0] > answers[:, 1]).sum()), int((answers[:, 0] < answers[:, 1]).sum())
    return bool((first - second) ** 2 > scipy.stats.chi2.ppf(0.95, 1) * (first + second))


def modeled(answers: Floats, change: float) -> bool | None:
    """Return whether the interval of the effect holds the true change; None where the model has none."""
    rows = [
        {"prompt": str(v), "model": str(s), "seed": seed, "outcome": "valid_consensus" if x else "no_consensus"}
        for (s, v, seed), x in np.ndenumerate(answers)
    ]
    table = effect_table(pd.DataFrame(rows), ["model", "prompt"], ConsensusGame, Effects())
    row = table[table["axis"] == "prompt"].iloc[0]
    return None if np.isnan(row["low"]) else bool(row["low"] <= change <= row["high"])


def rows() -> Iterator[list[str]]:
    """Yield the head and the rows of the table."""
    yield [
        *("rates", "alike within a seed", "seeds", "interval of a rate", "(bootstrap)", "interval of a difference"),
        *("test refuses", "(pooled McNemar)", "contradict", "effect of the model"),
    ]
    for name, rates in RATES.items():
        for alike in ALIKE:
            for seeds in SEEDS:
                yield _row(name, np.array(rates), alike, seeds)


def _row(name: str, rates: Floats, alike: str, seeds: int) -> list[str]:
    random = np.random.default_rng([seeds, *name.encode(), *alike.encode()])
    truth, change = float(rates[:, 0].mean()), float((rates[:, 1] - rates[:, 0]).mean())
    found: list[Sequence[bool]] = []
    fits = []
    for study in range(STUDIES):
        answers = drawn(random, rates, seeds, ALIKE[alike])
        first, second = both_rates(answers)
        (low, high), (below, above, p) = rate_limits(first), difference(first, second)
        refused = p < 0.05
        found.append(
            (
                low <= truth <= high,
                bootstrap_covers(random, answers, truth),
                below <= change <= above,
                refused,
                pooled(answers),
                refused == (below <= 0 <= above),
            )
        )
        if study < MODELS:
            fits.append(modeled(answers, change))
    shown = [f"{100 * share:.1f}" for share in np.mean(found, axis=0)]
    known = [fit for fit in fits if fit is not None]
    effect = f"{100 * np.mean(known):.1f}" if len(known) >= MODELS / 2 else "–"
    missing = f" ({len(fits) - len(known)} of {len(fits)} without)" if known and len(known) < len(fits) else ""
    row = [name, alike, str(seeds), *shown, f"{effect}{missing}"]
    print(*row, sep=" | ", file=sys.stderr, flush=True)
    return row


def unequal_rows() -> Iterator[list[str]]:
    """Yield the same of values that have other numbers of seeds, where nothing differs."""
    yield ["seeds", "alike within a seed", "rates", "interval of a difference", "test refuses", "(all simulations)"]
    for name, alike, rate in itertools.product(UNEQUAL, (*ALIKE,)[::2], (0.5, 0.8, 0.9, 0.95)):
        random = np.random.default_rng([int(100 * rate), *name.encode(), *alike.encode()])
        found = [_unequal(random, UNEQUAL[name], rate, ALIKE[alike]) for _ in range(2 * STUDIES)]
        yield [name, alike, f"{rate:.0%}", *(f"{100 * share:.1f}" for share in np.mean(found, axis=0))]


def _unequal(
    random: np.random.Generator, numbers: list[tuple[int, int]], rate: float, alike: tuple[float, float]
) -> tuple[bool, bool, bool]:
    """Return whether the interval holds 0, and whether the test refuses: of pairs, and of all simulations."""
    answers = drawn(random, np.full((len(numbers) or 1, 2), rate), MOST, alike)
    for stratum, both in enumerate(numbers or [(_grown(answers[0, 0]), _grown(answers[0, 1]))]):
        for value, number in enumerate(both):
            answers[stratum, value, number:] = np.nan
    seeds = np.arange(MOST)
    found = paired([(Sample(one, seeds, seeds), Sample(two, seeds, seeds)) for one, two in answers])
    assert found
    low, high, p = difference(found.first, found.second)
    return low <= 0 <= high, p < 0.05, difference(*both_rates(answers))[2] < 0.05


def _grown(answers: Floats) -> int:
    for number in range(10, MOST, 10):
        low, high = wilson_of_mean(answers[:number].mean(), number)
        if high - low <= 0.3:
            return number
    return MOST


def main() -> None:
    for name, table in (("margins", rows()), ("margins_unequal", unequal_rows())):
        with (FOLDER / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(table)


if __name__ == "__main__":
    main()
