"""Print, as Markdown, the size of each test and the coverage of its interval, by enumerating all tables.

    python benchmarks/coverage.py

The size is the largest over rates from 0.02 to 0.98, coverage the least and the mean over pairs of such rates: what
docs/explanation/statistics.md says.
"""

import numpy as np
from scipy.stats import binom, multinomial

from parley.analysis.stats import Floats, mcnemar, paired_difference, unpaired_difference, unpaired_p

RATES = np.linspace(0.02, 0.98, 49)
PAIRS = (5, 10, 15, 25, 50, 145)
GROUPS = ((5, 5), (10, 10), (25, 25), (50, 50), (10, 40))


def paired_row(n: int) -> list[str]:
    """Return the cells for n pairs; pairs in which both or none is a success weigh nothing in either."""
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
    return [f"{n} pairs", *shown(sizes, covered)]


def unpaired_row(n: int, m: int) -> list[str]:
    """Return the cells for groups of n and m simulations."""
    x, y = np.array([(x, y) for x in range(n + 1) for y in range(m + 1)]).T
    rejected = unpaired_p(x, n, y, m) < 0.05
    sizes = [float((binom.pmf(x, n, p) * binom.pmf(y, m, p))[rejected].sum()) for p in RATES]
    low, high = unpaired_difference(x, n, y, m)
    covered = [
        covering(binom.pmf(x, n, p) * binom.pmf(y, m, q), low, high, q - p) for p in RATES[::2] for q in RATES[::2]
    ]
    return [f"{n} and {m}, not paired", *shown(sizes, covered)]


def covering(weights: Floats, low: Floats, high: Floats, difference: float) -> float:
    """Return how often the interval holds the difference."""
    return float(weights[(low <= difference + 1e-12) & (high >= difference - 1e-12)].sum())


def shown(sizes: list[float], covered: list[float]) -> list[str]:
    """Return the largest size, the least and the mean coverage as text."""
    return [f"{max(sizes):.1%}", f"{min(covered):.1%}", f"{np.mean(covered):.1%}"]


if __name__ == "__main__":
    print("| simulations | largest size of the test (5%) | least coverage (95%) | mean coverage |\n|---|---|---|---|")
    for row in [*map(paired_row, PAIRS), *(unpaired_row(*sizes) for sizes in GROUPS)]:
        print("| " + " | ".join(row) + " |")
