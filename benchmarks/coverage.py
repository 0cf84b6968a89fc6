"""Coverage of each interval and size of each test, on a grid that goes to the edges, as coverage.csv beside this.

    python -m benchmarks.run coverage

docs/explanation/statistics.md has the worst cells. What are rates and their differences is enumerated, all else is
simulated, with a seed.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import binom, multinomial, norm

from parley.analysis.contrasts import band, spread_of
from parley.analysis.questions import Pairs, line_ends
from parley.statistics import stats
from parley.statistics.anytime import log_capital
from parley.statistics.clustered import Standardized, clustered_difference, paired_rates, rate_limits, standardized
from parley.statistics.stats import Floats, p_below, paired_mean, paired_share, wilson_of_mean
from parley.statistics.survival import paired_log_rank

KEPT = Path(__file__).with_suffix(".csv")
PAGE = KEPT.parents[1] / "docs" / "explanation" / "statistics.md"
TIMES = 1000  # studies, for each cell
SIZES = (5, 8, 10, 25, 50, 100)
FINE = np.linspace(0.001, 0.999, 999)
RATES = np.r_[0.01, 0.02, np.linspace(0.05, 0.95, 19), 0.98, 0.99]
EDGES = np.array([0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98, 0.99])  # of pairs of rates
SMALLEST = (0.1, 0.15, 0.2, 0.3)  # differences that matter
QUESTIONS = 6  # of a study
MAX_ENUMERATED = 50  # pairs of which all tables get bounded limits, which take milliseconds each
DEADLINE = 20  # rounds
HAZARDS = (0.05, 0.1, 0.2, 0.4)  # chance of a game to end in a round
COMMON = 0.5  # correlation of games that share a seed
# How much alike simulations of a seed are (correlation of the normal numbers behind them), and how much of that has
# the other sign with the other value: a seed then favors one of the two.
ALIKE = {"none": (0.0, 0.0), "0.5": (0.5, 0.0), "0.6, half of it for one value": (0.6, 0.3)}

Random = np.random.Generator
# A case, and whether an interval held there, or a test rejected: how often, or by study.
Found = Iterator[tuple[str, Any]]


# Enumerated


def tables_of(n: int) -> NDArray[np.int64]:
    """Return all tables of n pairs: only the first, only the second, both or neither, which weigh the same."""
    b, c = np.indices((n + 1, n + 1)).reshape(2, -1)
    return np.stack([b, c, n - b - c], axis=1)[b + c <= n]


def differences_of(cells: NDArray[np.int64]) -> Floats:
    """Return the differences of the pairs of each table."""
    return np.array([np.repeat([-1.0, 1.0, 0.0], row) for row in cells])


def mcnemars(n: int, times: int, random: Random) -> Found:
    cells = tables_of(n)
    rejected = stats.mcnemar(cells[:, 0], cells[:, 1]) < 0.05
    for d in RATES:
        yield f"{d:.0%} differ", multinomial.pmf(cells, n, [d / 2, d / 2, 1 - d])[rejected].sum()


def tangos(n: int, times: int, random: Random, questions: int = 1) -> Found:
    """So many at once: those of independent questions."""
    if questions > 1 and n > MAX_ENUMERATED:
        return
    cells = tables_of(n)
    low, high = at_once(cells) if questions > 1 else stats.paired_difference(0 * cells[:, 0], *cells.T)
    for p in EDGES:
        for q in EDGES[p + EDGES < 1]:
            held = covering(multinomial.pmf(cells, n, [p, q, 1 - p - q]), low, high, q - p)
            yield f"{p:.0%} only first, {q:.0%} only second", held**questions


def at_once(cells: NDArray[np.int64]) -> Any:
    """Return the intervals that are to hold together."""
    split = np.array_split(differences_of(cells), len(cells) // 500 + 1)
    parts = [stats.bounded_interval(part, 1.0, 1 - 0.05 / QUESTIONS) for part in split]
    return np.concatenate([low for low, _ in parts]), np.concatenate([high for _, high in parts])


def unpaired(n: int, times: int, random: Random, test: bool) -> Found:
    """Two groups, of n and of n, or of n and of 4 n simulations."""
    for m in (n, 4 * n):
        x, y = np.indices((n + 1, m + 1)).reshape(2, -1)
        rejected = stats.unpaired_p(x, n, y, m) < 0.05
        for p in RATES if test else ():
            yield f"{n} and {m}, rates {p:.0%}", (binom.pmf(x, n, p) * binom.pmf(y, m, p))[rejected].sum()
        low, high = stats.unpaired_difference(x, n, y, m)
        for p, q in () if test else itertools.product(EDGES, EDGES):
            weights = binom.pmf(x, n, p) * binom.pmf(y, m, q)
            yield f"{n} and {m}, {p:.0%} and {q:.0%}", covering(weights, low, high, q - p)


def wilsons(n: int, times: int, random: Random) -> Found:
    x = np.arange(n + 1)
    low, high = wilson_of_mean(x / n, np.full(n + 1, n))
    for p in FINE:
        yield f"rate {p:.1%}", covering(binom.pmf(x, n, p), low, high, p)


def covering(weights: Floats, low: Floats, high: Floats, value: float) -> float:
    """Return how often the interval holds the value."""
    return min(1.0, float(weights[(low <= value + 1e-12) & (high >= value - 1e-12)].sum()))


# Simulated


def shares_of_agents(n: int, times: int, random: Random, alike: float) -> Found:
    """Shares of four agents; the smaller `alike`, the more they act alike."""
    for rate in RATES:
        rates = random.beta(alike * rate, alike * (1 - rate), (times, n))
        means = (random.binomial(4, rates) / 4).mean(axis=1)
        low, high = wilson_of_mean(means, np.full(times, n))
        yield f"rate {rate:.0%}", (low <= rate) & (rate <= high)


def rare(n: int, times: int, random: Random) -> Iterator[tuple[str, float, Floats]]:
    """Yield differences of shares in n pairs with their mean: near 0, and much larger in a few pairs."""
    for at, jitter in itertools.product(SMALLEST, (0.0, 0.05)):
        for most in (0.25, 0.5, 1 - jitter):
            if most >= at:
                large = random.random((times, n)) < at / most
                values = most * large + random.uniform(-jitter, jitter, large.shape)
                yield f"{most:g} in {at / most:.0%}, else ±{jitter:g}", at, values


def shares(n: int, times: int, random: Random, bounded: bool = False) -> Found:
    for case, at, values in rare(n, times, random):
        if bounded:
            yield case, within_bounds(values, at)
        else:
            low, high, _ = np.array([paired_share(np.zeros(n), row) for row in values]).T
            yield case, (low <= at) & (at <= high)


def repeated(n: int, times: int, random: Random) -> Iterator[tuple[str, float, Floats]]:
    """Yield by how much less often n games end as recorded with a change, of five forks with it and without; the mean.

    The change turns a few games, and else does nothing: both kinds of forks end as recorded as often.
    """
    for turned, alike in itertools.product((0.05, 0.1, 0.3), (0.5, 0.9, 0.98)):
        rate = np.where(random.random((times, n)) < turned, 0.0, alike)
        yield f"{turned:.0%} of games turn, {alike:.0%} alike", turned * alike, unchanged_less(random, rate, alike)


def unchanged_less(random: Random, rate: Floats, alike: float) -> Floats:
    return np.asarray((random.binomial(5, alike, rate.shape) - random.binomial(5, rate)) / 5)


def games(n: int, times: int, random: Random) -> Found:
    for case, at, values in repeated(n, times, random):
        yield case, within_bounds(values, at)


def scans(n: int, times: int, random: Random, messages: int) -> Found:
    """How often any of so many messages is said to have influence, each with n forks and n without, if none has."""
    x, y = np.indices((n + 1, n + 1)).reshape(2, -1)
    rejected = stats.unpaired_p(x, n, y, n) < 0.05 / messages  # Holm's first step
    for p in RATES:
        yield f"{p:.0%} alike", 1 - (1 - (binom.pmf(x, n, p) * binom.pmf(y, n, p))[rejected].sum()) ** messages


def within_bounds(values: Floats, at: float) -> NDArray[np.bool_]:
    """Whether bounded limits hold this mean."""
    return np.asarray(np.minimum(p_below(values, at, 1.0), p_below(-values, -at, 1.0)) > 0.025)


def claims(n: int, times: int, random: Random) -> Found:
    """How often it is said that shares differ by less than what matters, if they differ by just that."""
    for case, at, values in rare(n, times, random):
        yield case, claimed(values, np.ones(n), at)


def claimed(means: Floats, number: Floats, smallest: float) -> Any:
    above, below = (p_below(sign * means, smallest, 1.0, number) for sign in (1, -1))
    return np.maximum(above, below) < 0.025


def claimed_rates(n: int, times: int, random: Random) -> Found:
    if n > MAX_ENUMERATED:
        return
    cells = tables_of(n)
    for at in SMALLEST:
        said = claimed(differences_of(cells), np.ones(n), at)
        for p in (0.0, 0.01, 0.05, 0.1, 0.2, 0.35):
            weights = np.asarray(multinomial.pmf(cells, n, [p, p + at, 1 - 2 * p - at]))
            yield f"{p:.0%} only first, {p + at:.0%} only second", weights[said].sum()


def pooled(n: int, times: int, random: Random, strata: int, of: int = 1) -> Found:
    """Strata that share n seeds, each of which favors one side in all of them, or none.

    How often any of so many independent questions is said to differ, where Holm's first step decides.
    """
    for case, _, pairs in shared_seeds(n, 5 * times, random, strata, 0.0):
        ps = [clustered_difference(*paired_rates(each.first, each.second, each.seeds))[2] for each in pairs]
        yield case, 1 - (1 - np.mean(np.array(ps) < 0.05 / of)) ** of


def pooled_claims(n: int, times: int, random: Random, strata: int) -> Found:
    """How often it is said that rates differ by less than what matters, if they differ by just that."""
    for case, moved, pairs in shared_seeds(n, times, random, strata, 0.15):
        yield case, [claimed(*each.by_seed, moved) for each in pairs]


def shared_seeds(
    n: int, times: int, random: Random, strata: int, moved: float
) -> Iterator[tuple[str, float, Iterator[Pairs]]]:
    """Yield pairs of strata that share n seeds, and by how much the second rate is greater."""
    seeds = np.tile(np.arange(n), strata)
    for rate, favor in itertools.product((0.05, 0.2, 0.5), (0.0, 0.9)):
        level = np.where(random.random((times, 1, n)) < 0.5, 1, -1) * favor * min(rate, 1 - rate)
        x = random.random((times, strata, n)) < rate - level
        y = (random.random((times, strata, n)) < rate + level) | (random.random((times, strata, n)) < moved)
        sides = zip(x.astype(float), y.astype(float), strict=True)
        played = (Pairs(first.ravel(), second.ravel(), seeds) for first, second in sides)
        yield f"rate {rate:.0%}, seeds favor {'one side' if favor else 'none'}", moved * (1 - rate), played


def trends(n: int, times: int, random: Random, values: int) -> Found:
    """The t test of the lines of n seeds, of rates that are the same at all values."""
    for rate in (0.05, 0.2, 0.5, 0.8, 0.95):
        ends = [line_ends(range(values), (random.random((values, n)) < rate).astype(float)) for _ in range(5 * times)]
        yield f"rate {rate:.0%}", [paired_share(*each)[2] < 0.05 for each in ends]


def betting(n: int, times: int, random: Random) -> Found:
    """Intervals of a difference of paired rates that hold after each of n pairs at once."""
    values = np.array([0.0, 0.5, 1.0])  # only the first, alike, only the second
    for first, second in ((0.02, 0.02), (0.1, 0.1), (0.5, 0.5), (0.3, 0.6), (0.02, 0.2), (0.1, 0.9)):
        found = (random.random((times, n)) < second).astype(float) - (random.random((times, n)) < first)
        counts = np.stack([((found + 1) / 2 == value).cumsum(axis=1) for value in values], axis=-1)
        mean = (second - first + 1) / 2
        sides = (log_capital(values, counts, mean), log_capital(1 - values, counts, 1 - mean))
        yield f"{first:.0%} and {second:.0%}", (np.maximum(*sides) < np.log(40)).all(axis=1)


def noise(n: int, times: int, random: Random, share: bool, jumps: float = 0.0) -> Found:
    """Bands of what n seeds played twice say, and differences of 2 n other pairs that differ by sampling alone."""

    def held(rate: float) -> bool:
        if share:
            level = random.beta(2 * rate, 2 * (1 - rate), (3 * n, 1))
            played = (random.random((3 * n, 2)) < level).astype(float)
        else:
            played = random.normal(size=(3 * n, 2)) + 20 * (random.random((3 * n, 2)) < jumps)
        change = abs((played[n:, 1] - played[n:, 0]).mean())
        return bool(change <= band([spread_of(played[:n])], 2 * n, share))

    for rate in RATES if share else [0.5]:
        case = f"rate {rate:.0%}" if share else f"normal, {jumps:.0%} 20 higher" if jumps else "normal"
        yield case, [held(rate) for _ in range(times)]


def drawn(random: Random, rates: Floats, seeds: int, alike: tuple[float, float]) -> Floats:
    """Return answers: combination of the other axes, value, seed."""
    whole, apart = alike
    common, favor = np.sqrt(whole - apart) * random.normal(size=seeds), np.sqrt(apart) * random.normal(size=seeds)
    level = np.stack([common + favor, common - favor]) + np.sqrt(1 - whole) * random.normal(size=(*rates.shape, seeds))
    below: Floats = (level < norm.ppf(rates)[..., None]).astype(float)
    return below


def both_rates(answers: Floats) -> list[Standardized]:
    """Return the rates with each of the two values."""
    strata, _, seeds = answers.shape
    cells, numbers = np.repeat(np.arange(strata), seeds), np.tile(np.arange(seeds), strata)
    return [standardized(answers[:, v].ravel(), cells, numbers, np.full(strata, 1 / strata)) for v in (0, 1)]


def holds(low: float, high: float, value: float) -> bool:
    """Whether an interval holds a value; a limit that is not known excludes none."""
    return not value < low and not value > high


def over_conditions(n: int, times: int, random: Random, difference: bool) -> Found:
    """Rates over four conditions that share seeds, or their differences between two values."""
    for rate, (alike, how) in itertools.product((0.01, 0.05, 0.5, 0.95, 0.99), ALIKE.items()):
        studies = (both_rates(drawn(random, np.full((4, 2), rate), n, how)) for _ in range(times))
        if difference:
            held = [holds(*clustered_difference(*rates)[:2], 0.0) for rates in studies]
        else:
            held = [holds(*rate_limits(first), rate) for first, _ in studies]
        yield f"rate {rate:.0%}, alike {alike}", held


_LOGNORMAL = math.exp(0.5)
NUMBERS: dict[str, tuple[Callable[..., Any], float]] = {
    "normal": (lambda random, size: random.normal(0.0, 1.0, size), 0.0),
    "counts (Poisson, mean 3)": (lambda random, size: random.poisson(3, size), 3.0),
    "seconds (lognormal, sigma 1)": (lambda random, size: random.lognormal(0.0, 1.0, size), _LOGNORMAL),
}


def means(n: int, times: int, random: Random, of: str) -> Found:
    """The t interval of a mean."""
    draw, mean = NUMBERS[of]
    found = [stats.mean_interval(draw(random, n)) for _ in range(10 * times)]
    yield of, [each.low <= mean <= each.high for each in found]


def mean_tests(n: int, times: int, random: Random, of: str) -> Found:
    """The paired t test and so the coverage of its interval, of numbers that differ by chance alone."""
    draw, _ = NUMBERS[of]
    yield of, [paired_mean(*draw(random, (2, n)))[2] < 0.05 for _ in range(10 * times)]


def geometric(normal: Floats, hazard: float) -> tuple[Floats, NDArray[np.bool_]]:
    """Return rounds, cut at the deadline, and whether games ended by then: as `normal` numbers decide."""
    time = np.maximum(np.ceil(norm.logsf(normal) / math.log1p(-hazard)), 1.0)
    return np.minimum(time, DEADLINE), time <= DEADLINE


def log_ranks(n: int, times: int, random: Random) -> Found:
    """The paired log-rank test of two conditions that share seeds, of which neither is slower."""

    def p_of(hazard: float) -> float:
        normal = random.multivariate_normal([0, 0], [[1, COMMON], [COMMON, 1]], n).T
        sides = [geometric(numbers, hazard) for numbers in normal]
        time, ended = (np.stack(side, axis=1) for side in zip(*sides, strict=True))
        return paired_log_rank(time, ended)

    for hazard in HAZARDS:
        yield f"a chance of {hazard:g}", [p_of(hazard) < 0.05 for _ in range(times)]


# The tables

CASES: dict[str, tuple[tuple[str, Callable[[int, int, Random], Found]], ...]] = {
    "interval (95%)": (
        ("a rate (Wilson)", wilsons),
        ("a mean of shares (Wilson), agents alike", partial(shares_of_agents, alike=2.0)),
        ("the same, agents nearly the same", partial(shares_of_agents, alike=0.1)),
        *((f"a mean of numbers (t): {of}", partial(means, of=of)) for of in NUMBERS),
        ("a difference of rates, paired (Tango)", tangos),
        ("a difference of rates, not paired (Miettinen and Nurminen)", partial(unpaired, test=False)),
        ("a difference of shares, paired (t)", shares),
        (f"{QUESTIONS} questions of rates, all at once", partial(tangos, questions=QUESTIONS)),
        ("a rate over several conditions", partial(over_conditions, difference=False)),
        ("a difference of rates over several conditions", partial(over_conditions, difference=True)),
        ("the band of noise: rates", partial(noise, share=True)),
        ("the band of noise: normal numbers", partial(noise, share=False)),
        ("a difference of rates whenever one stops (betting): after each of n pairs at once", betting),
        ("a difference of shares, bounded", partial(shares, bounded=True)),
        ("what a change does to recorded games, five forks of each, bounded", games),
        ("the band of noise: numbers with rare jumps", partial(noise, share=False, jumps=0.03)),
    ),
    "test (5%)": (
        ("rates, paired (McNemar)", mcnemars),
        ("rates, not paired (chi-squared)", partial(unpaired, test=True)),
        *((f"means, paired (t): {of}", partial(mean_tests, of=of)) for of in NUMBERS),
        ("a question over 4 strata", partial(pooled, strata=4)),
        ("a question over 8 strata", partial(pooled, strata=8)),
        ("times, paired (paired log-rank)", log_ranks),
        (f"any of {QUESTIONS} questions over 8 strata (Holm)", partial(pooled, strata=8, of=QUESTIONS)),
        ("a trend over 3 values", partial(trends, values=3)),
        ("any of 24 messages of a scan, n forks with each and without (Holm)", partial(scans, messages=24)),
    ),
    "claim of no difference that matters (2.5%)": (
        ("of shares", claims),
        ("of rates", claimed_rates),
        ("of rates over 8 strata", partial(pooled_claims, strata=8)),
    ),
}


def cells() -> Iterator[list[str]]:
    """Yield a row for each interval or test and number of simulations: the worst case, which it is, and the mean."""
    for kind, cases in CASES.items():
        for place, (name, found) in enumerate(cases):
            for n in SIZES:
                random = np.random.default_rng([place, n, len(kind)])
                shares = {case: np.mean(share) for case, share in found(n, TIMES, random)}
                if shares:
                    worst = (min if kind.startswith("interval") else max)(shares, key=shares.__getitem__)
                    mean = np.mean([*shares.values()])
                    row = [kind, name, str(n), f"{shares[worst]:.1%}", worst, f"{mean:.1%}"]
                    print(*row, sep=" | ", flush=True)
                    yield row


def table() -> Iterator[str]:
    """Yield a table of the worst cells, as Markdown; measures all, and writes coverage.csv."""
    rows = pd.DataFrame(cells(), columns=["kind", "what", "n", "worst", "where", "mean"])
    rows.to_csv(KEPT, index=False)
    yield from shown()


def kept() -> pd.DataFrame:
    """Return the table that was measured last, as text."""
    return pd.read_csv(KEPT, dtype=str, keep_default_na=False)


def shown() -> Iterator[str]:
    """Yield the table of what was measured last: what misses its promise, and claims."""
    rows = kept()
    rows["share"] = rows["worst"].str.rstrip("%").astype(float)
    yield "| | share | worst cell |"
    yield "|---|---|---|"
    for kind, cases in CASES.items():
        yield f"| **{kind}** | | |"
        for name, _ in cases:
            of = rows[(rows["kind"] == kind) & (rows["what"] == name)]
            is_interval = kind.startswith("interval")
            worst = of.sort_values("share", ascending=is_interval, kind="stable").iloc[0]
            if kind.startswith("claim") or (worst["share"] < 94 if is_interval else worst["share"] > 6):
                yield f"| {name} | {worst['worst']} | n = {worst['n']}; {worst['where']} |"
