"""Coverage of the intervals of `margins` and `effects`, and size of the tests, by simulation with known rates.

python -m benchmarks.margins writes the table between its marks in docs/explanation/statistics.md (8 minutes of a CPU).
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import scipy

from parley.analysis.clustered import Standardized, difference, pooled_discordant, rate_limits, standardized
from parley.analysis.effects import effect_table
from parley.analysis.stats import Floats
from parley.games.consensus.game import ConsensusGame
from parley.study.margins import Effects

PAGE = Path(__file__).parent.parent / "docs" / "explanation" / "statistics.md"
BEGIN, END = "<!-- margins -->", "<!-- end of margins -->"
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
    pairs = np.arange(answers[:, 0].size)
    _, first, second = pooled_discordant((answers[:, 0].ravel(), pairs), (answers[:, 1].ravel(), pairs))
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


def lines() -> Iterator[str]:
    """Yield the table in Markdown."""
    yield (
        "| rates | alike within a seed | seeds | interval of a rate | (bootstrap) | interval of a difference | "
        "test refuses | (pooled McNemar) | contradict | effect of the model |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for name, rates in RATES.items():
        for alike in ALIKE:
            for seeds in SEEDS:
                yield _line(name, np.array(rates), alike, seeds)


def _line(name: str, rates: Floats, alike: str, seeds: int) -> str:
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
    line = f"| {name} | {alike} | {seeds} | {' | '.join(shown)} | {effect}{missing} |"
    print(line, file=sys.stderr, flush=True)
    return line


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    section = "\n".join(lines())
    PAGE.write_text(f"{before}{BEGIN}\n\n{section}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
