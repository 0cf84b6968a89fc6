"""Coverage of each interval and size of each test, as coverage.csv, size.csv and differences.csv beside this.

    python -m benchmarks.coverage [repetitions]

Of rates and their differences all tables are enumerated. All else is simulated, with a seed: 2,000 repetitions unless
given, so that the standard error of a coverage near 95% is 0.5 points.
"""

import csv
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, multinomial, norm

from parley.analysis.contrasts import band, spread_of
from parley.analysis.endings import (
    RESAMPLED,
    incidences,
    log_rank,
    median_interval,
    middle,
    paired_log_rank,
    resampled_medians,
)
from parley.analysis.precision import anytime_interval
from parley.analysis.rates import line_of
from parley.analysis.stats import (
    Floats,
    mcnemar,
    mean_interval,
    paired_difference,
    paired_mean,
    paired_share,
    unpaired_difference,
    unpaired_p,
    wilson_of_mean,
)

FOLDER = Path(__file__).parent
REPETITIONS = 2000
SIZES = (10, 25, 50, 100)
RATES = np.linspace(0.02, 0.98, 49)  # of pairs of rates
SHOWN_RATES = np.linspace(0.05, 0.95, 19)
PAIRS = (5, 10, 15, 25, 50, 145)
DRAWS = 10_000
GROUPS = ((5, 5), (10, 10), (25, 25), (50, 50), (10, 40))
DEADLINE = 20  # rounds
HAZARDS = (0.05, 0.1, 0.2, 0.4)  # chance of a game to end in a round
COMMON = 0.5  # correlation of games that share a seed

Random = np.random.Generator
Shares = Sequence[float]  # how often, in each case


# Enumerated


def pairs_of(n: int) -> tuple[Shares, Shares]:
    """Return sizes and coverages for n pairs; pairs in which both or none is a success weigh nothing in either."""
    b, c = np.array([(b, c) for b in range(n + 1) for c in range(n + 1 - b)]).T
    cells = np.stack([b, c, n - b - c], axis=1)
    rejected = mcnemar(b, c) < 0.05
    sizes = [float(multinomial.pmf(cells, n, [d / 2, d / 2, 1 - d])[rejected].sum()) for d in RATES]
    low, high = paired_difference(np.zeros_like(b), b, c, n - b - c)
    covered = [
        covering(multinomial.pmf(cells, n, [p, q, 1 - p - q]), low, high, q - p)
        for p in RATES[::2]
        for q in RATES[::2]
        if p + q < 1
    ]
    return sizes, covered


def groups_of(n: int, m: int) -> tuple[Shares, Shares]:
    """Return sizes and coverages for groups of n and m simulations."""
    x, y = np.array([(x, y) for x in range(n + 1) for y in range(m + 1)]).T
    rejected = unpaired_p(x, n, y, m) < 0.05
    sizes = [float((binom.pmf(x, n, p) * binom.pmf(y, m, p))[rejected].sum()) for p in RATES]
    low, high = unpaired_difference(x, n, y, m)
    covered = [
        covering(binom.pmf(x, n, p) * binom.pmf(y, m, q), low, high, q - p) for p in RATES[::2] for q in RATES[::2]
    ]
    return sizes, covered


def rates_of(n: int) -> Shares:
    """Return the coverage of Wilson's interval of a rate."""
    x = np.arange(n + 1)
    low, high = wilson_of_mean(x / n, np.full(n + 1, n))
    return [covering(binom.pmf(x, n, p), low, high, p) for p in SHOWN_RATES]


def numbers_of(n: int, name: str) -> tuple[Shares, Shares]:
    """Return size and coverage for n paired numbers whose differences have the mean 0 and the law `name`."""
    random = np.random.default_rng(n)
    draws = random.exponential(size=(DRAWS, n)) - 1 if name == "skewed" else random.normal(size=(DRAWS, n))
    low, high, p = np.array([paired_mean(np.zeros(n), row) for row in draws]).T
    return [float((p < 0.05).mean())], [float(((low <= 0) & (high >= 0)).mean())]


def few_of(n: int, apart: float) -> tuple[Shares, Shares]:
    """Return sizes and coverages for n pairs of shares: equal in all but a few games, whose two are so far apart.

    For coverage the second one is larger wherever they differ; for size either is, as often.
    """
    more, less = np.array([(b, c) for b in range(n + 1) for c in range(n + 1 - b)]).T
    found = [
        paired_share(np.zeros(n), np.repeat([apart, -apart, 0.0], [b, c, n - b - c]))
        for b, c in zip(more, less, strict=True)
    ]
    low, high, p = np.array(found).T
    cells, one_way = np.stack([more, less, n - more - less], axis=1), less == 0
    sizes = [float(multinomial.pmf(cells, n, [q / 2, q / 2, 1 - q])[p < 0.05].sum()) for q in RATES]
    covered = [covering(binom.pmf(more[one_way], n, q), low[one_way], high[one_way], q * apart) for q in RATES]
    return sizes, covered


def covering(weights: Floats, low: Floats, high: Floats, value: float) -> float:
    """Return how often the interval holds the value."""
    return float(weights[(low <= value + 1e-12) & (high >= value - 1e-12)].sum())


# Simulated: each returns how often an interval held, or a test rejected, in each of some cases


def shares_of_agents(n: int, times: int, random: Random) -> Shares:
    """Shares of four agents who act alike, by rates from 5% to 95%."""
    found = []
    for rate in SHOWN_RATES:
        means = (random.binomial(4, random.beta(2 * rate, 2 * (1 - rate), (times, n))) / 4).mean(axis=1)
        low, high = wilson_of_mean(means, np.full(times, n))
        found.append(float(((low <= rate) & (rate <= high)).mean()))
    return found


def anytime(n: int, times: int, random: Random) -> Shares:
    """Intervals of a rate that hold after each of n simulations at once, by rates from 5% to 95%."""
    limits = [np.array([anytime_interval(x, m) for x in range(m + 1)]).T for m in range(1, n + 1)]
    found = []
    for rate in SHOWN_RATES:
        counts = (random.random((times, n)) < rate).cumsum(axis=1)
        inside = [(low[x] <= rate) & (rate <= high[x]) for (low, high), x in zip(limits, counts.T, strict=True)]
        found.append(float(np.all(inside, axis=0).mean()))
    return found


def noise(n: int, times: int, random: Random) -> Shares:
    """Bands of a yes or no that is played twice, by rates from 5% to 95%; seeds have rates of their own."""
    found = []
    for rate in SHOWN_RATES:
        inside = []
        for _ in range(times):
            of_seeds = random.beta(2 * rate, 2 * (1 - rate), (n, 1))
            played = (random.random((n, 2)) < of_seeds).astype(float)
            inside.append(abs((played[:, 1] - played[:, 0]).mean()) <= band(spread_of(played), n))
        found.append(float(np.mean(inside)))
    return found


_LOGNORMAL = math.exp(0.5)
NUMBERS: dict[str, tuple[Callable[..., Any], float]] = {
    "normal": (lambda random, size: random.normal(0.0, 1.0, size), 0.0),
    "counts (Poisson, mean 3)": (lambda random, size: random.poisson(3, size), 3.0),
    "seconds (lognormal, sigma 1)": (lambda random, size: random.lognormal(0.0, 1.0, size), _LOGNORMAL),
}


def means(n: int, times: int, random: Random, of: str) -> Shares:
    """The t interval of a mean."""
    draw, mean = NUMBERS[of]
    found = [mean_interval(draw(random, n)) for _ in range(times)]
    return [float(np.mean([each.low <= mean <= each.high for each in found]))]


def mean_tests(n: int, times: int, random: Random, of: str) -> Shares:
    """The paired t test and so the coverage of its interval, of numbers that differ by chance alone."""
    draw, _ = NUMBERS[of]
    ps = np.array([paired_mean(*draw(random, (2, n)))[2] for _ in range(times)])
    return [float((ps < 0.05).mean())]


def geometric(random: Random, hazard: float, n: int, normal: Any = None) -> tuple[Floats, NDArray[np.bool_]]:
    """Return rounds, cut at the deadline, and whether games ended by then; `normal` numbers decide, if given."""
    if normal is None:
        normal = random.normal(size=n)
    time = np.maximum(np.ceil(norm.logsf(normal) / math.log1p(-hazard)), 1.0)
    return np.minimum(time, DEADLINE), time <= DEADLINE


def median_of(hazard: float) -> int:
    """Return the first round by which half have ended."""
    return math.ceil(math.log(0.5) / math.log1p(-hazard))


def holds(low: float, high: float, value: float) -> bool:
    """Whether an interval holds a value; a limit that is not known excludes none."""
    return not value < low and not value > high


def medians(n: int, times: int, random: Random) -> Shares:
    """The interval of the median rounds, by the chance to end in a round."""
    found = []
    for hazard in HAZARDS:
        limits = [median_interval(*geometric(random, hazard, n)) for _ in range(times)]
        found.append(float(np.mean([holds(low, high, median_of(hazard)) for low, high in limits])))
    return found


def library_medians(n: int, times: int, random: Random) -> Shares:
    """The same of statsmodels (`SurvfuncRight.quantile_ci`), which no table has; no interval at all holds nothing."""
    from statsmodels.duration.survfunc import SurvfuncRight

    found = []
    with np.errstate(all="ignore"):
        for hazard in HAZARDS:
            inside = []
            for _ in range(times):
                low, high = SurvfuncRight(*geometric(random, hazard, n)).quantile_ci(0.5)
                inside.append(holds(low, high, median_of(hazard)) and not math.isnan(low))
            found.append(float(np.mean(inside)))
    return found


def cumulative(n: int, times: int, random: Random) -> Shares:
    """The cumulative incidence at round 6 of one of two ways to end; deadlines are from 1 to 10 in one condition."""
    found = []
    for rate in (0.05, 0.25, 0.5, 0.75, 0.95):
        inside = []
        for _ in range(times):
            time = np.where(random.random(n) < rate, random.integers(1, 7, n), 100)
            other = random.geometric(0.02, n)  # the second way, which is seldom first
            first, way = np.minimum(time, other), np.where(time <= other, 1, 2)
            deadline = random.integers(1, 11, n)
            curve = incidences(np.minimum(first, deadline), np.where(first <= deadline, way, 0), 2)[0]
            at = np.searchsorted(curve.times, 6, side="right") - 1
            exact = rate / 6 * sum(0.98 ** (round_ - 1) for round_ in range(1, 7))
            inside.append(at < 0 or curve.low[at] <= exact <= curve.high[at])
        found.append(float(np.mean(inside)))
    return found


def two(random: Random, first: float, second: float, n: int, paired: bool) -> tuple[Any, Any]:
    """Return the games of two conditions, which share their seeds or not."""
    normal = random.multivariate_normal([0, 0], [[1, COMMON], [COMMON, 1]], n).T if paired else (None, None)
    return geometric(random, first, n, normal[0]), geometric(random, second, n, normal[1])


def ratios(n: int, times: int, random: Random, paired: bool) -> Shares:
    """The ratio of two medians, by the chances to end in a round."""
    found = []
    for hazards in ((0.1, 0.1), (0.05, 0.1), (0.1, 0.2), (0.2, 0.4)):
        inside = []
        for _ in range(max(1, times // 4)):  # each takes milliseconds
            games = two(random, *hazards, n, paired)
            weights = random.exponential(size=(2, RESAMPLED // 4, n)).astype(np.float32)
            if paired:
                weights[1] = weights[0]
            drawn = [resampled_medians(time, ended, w) for (time, ended), w in zip(games, weights, strict=True)]
            with np.errstate(invalid="ignore"):
                low, high = middle(drawn[1] / drawn[0], 0.0)
            inside.append(holds(low, high, median_of(hazards[1]) / median_of(hazards[0])))
        found.append(float(np.mean(inside)))
    return found


def log_ranks(n: int, times: int, random: Random, paired: bool, pairs_known: bool = False) -> Shares:
    """The log-rank test of two conditions of which neither is slower, which knows the pairs or not."""
    found = []
    for hazard in HAZARDS:
        ps = []
        for _ in range(times):
            (time, ended), (other, others) = two(random, hazard, hazard, n, paired)
            if pairs_known:
                ps.append(paired_log_rank(np.stack([time, other], axis=1), np.stack([ended, others], axis=1)))
                continue
            ps.append(log_rank(np.r_[time, other], np.r_[ended, others], np.repeat([0, 1], n)))
        found.append(float((np.array(ps) < 0.05).mean()))
    return found


def lines(n: int, times: int, random: Random, what: str) -> Shares:
    """Slope of what five agents with uniform values agree on, by rule."""
    rules: tuple[tuple[Callable[..., Any], float], ...] = (
        (lambda x: np.median(x, axis=1), 9 / 7),
        (lambda x: x[:, 0], 1.0),
        (lambda x: x.max(axis=1), 5 / 7),
    )
    bias = (0.0, 0.0, 1 / 3)
    found = []
    for (rule, slope), shift in zip(rules, bias, strict=True):
        inside = []
        for _ in range(times):
            x = random.random((n, 5))
            if what == "slope":
                _, low, high, *_ = line_of(x.mean(axis=1), rule(x))
            else:
                low, high, _ = paired_mean(x.mean(axis=1), rule(x))
            inside.append(holds(low, high, slope if what == "slope" else shift))
        found.append(float(np.mean(inside)))
    return found


# The tables

Case = tuple[str, Callable[[int, int, Random], Shares]]
INTERVALS: tuple[Case, ...] = (
    ("a rate (Wilson)", lambda n, times, random: rates_of(n)),
    ("a rate whenever one stops (confidence sequence): after each of n simulations at once", anytime),
    ("a mean of shares (Wilson)", shares_of_agents),
    *((f"a mean of numbers (t): {of}", partial(means, of=of)) for of in NUMBERS),
    ("a difference of rates, paired (Tango)", lambda n, times, random: pairs_of(n)[1]),
    ("the same, not paired (Miettinen and Nurminen)", lambda n, times, random: groups_of(n, n)[1]),
    ("median rounds", medians),
    ("a cumulative incidence, deadlines within the condition", cumulative),
    ("a ratio of median rounds, paired", partial(ratios, paired=True)),
    ("the same, not paired", partial(ratios, paired=False)),
    ("a slope of final on initial values", partial(lines, what="slope")),
    ("a bias of final on initial values", partial(lines, what="bias")),
    ("the band of noise, of what is played twice", noise),
    ("*not used: median rounds by statsmodels*", library_medians),
)
TESTS: tuple[Case, ...] = (
    ("rates, paired (McNemar)", lambda n, times, random: pairs_of(n)[0]),
    ("rates, not paired (chi-squared)", lambda n, times, random: groups_of(n, n)[0]),
    *((f"means, paired (t): {of}", partial(mean_tests, of=of)) for of in NUMBERS),
    ("times (log-rank), not paired", partial(log_ranks, paired=False)),
    ("times, paired (paired log-rank)", partial(log_ranks, paired=True, pairs_known=True)),
    ("*not used: times, paired (log-rank)*", partial(log_ranks, paired=True)),
)


def table(
    title: str, cases: Sequence[Case], times: int, worst: Callable[[Shares], float]
) -> Iterator[tuple[str, ...]]:
    """Yield the rows of a table: in each cell the worst of the cases, and their mean."""
    yield title, *(f"n = {n}" for n in SIZES)
    for place, (name, found) in enumerate(cases):
        random = np.random.default_rng([place, len(cases)])
        shares = [found(n, times, random) for n in SIZES]
        cells = [f"{worst(each):.1%}" + (f" ({np.mean(each):.1%})" if len(each) > 1 else "") for each in shares]
        print(name, *cells, flush=True)
        yield name, *cells


def differences() -> Iterator[tuple[str, ...]]:
    """Yield the table of tests and intervals of differences of rates, which agree."""
    yield "simulations", "largest size of the test (5%)", "least coverage (95%)", "mean coverage"
    rows = [(f"{n} pairs", pairs_of(n)) for n in PAIRS]
    rows += [(f"{n} and {m}, not paired", groups_of(n, m)) for n, m in GROUPS]
    rows += [
        (f"{n} pairs of numbers, {name} differences", numbers_of(n, name))
        for name in ("normal", "skewed")
        for n in (5, 10, 25, 50)
    ]
    rows += [
        (f"{n} pairs of shares, {apart:g} apart in some and else equal", few_of(n, apart))
        for apart in (0.25, 1.0)
        for n in (5, 10, 25, 50)
    ]
    for name, (sizes, covered) in rows:
        yield name, f"{max(sizes):.1%}", f"{min(covered):.1%}", f"{np.mean(covered):.1%}"


def main() -> None:
    times = int(sys.argv[1]) if len(sys.argv) > 1 else REPETITIONS
    tables = {
        "differences": differences(),
        "coverage": table("interval (95%): least coverage (mean)", INTERVALS, times, min),
        "size": table("test (5%): largest size (mean)", TESTS, times, max),
    }
    for name, rows in tables.items():
        with (FOLDER / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    main()
