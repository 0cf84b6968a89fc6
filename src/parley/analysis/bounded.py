"""What a mean of bounded values can be, whatever their law: limits that few or skewed values do not make too narrow.

For a claim that a mean is below c, the values are given random weights, exponential ones, and so is one value more,
the greatest that there can be; p is how often their mean is c or more (Gaffke, Mathematical Methods of Statistics 14,
2005, pp. 451-467). Of 0 and 1 that is Clopper and Pearson's limit. That it holds for every law is proven for a bound
close to it (Phan, Thomas and Learned-Miller, ICML 2021), and no counterexample is known to this one.
"""

import numpy as np

from parley.analysis.stats import CONFIDENCE, Floats

_NODES = 120  # of the integral: p is exact to 6 digits
_HALVINGS = 40
_S, _STEP = (part / 2 for part in np.polynomial.legendre.leggauss(_NODES))
_U, _DU = (_S + 0.5) / (0.5 - _S), _STEP / (0.5 - _S) ** 2  # from 0 to infinity


def chance_above(factors: Floats) -> Floats:
    """Return how often the sum of exponential numbers, each times its factor (last axis), is above 0.

    By inversion of the characteristic function (Imhof, Biometrika 48, 1961, pp. 419-426).
    """
    size = np.sqrt((factors**2).sum(axis=-1, keepdims=True))
    u = (factors / np.where(size > 0, size, 1.0))[..., None] * _U
    damped = np.exp(-0.5 * np.log1p(u**2).sum(axis=-2))
    integral = (np.sin(np.arctan(u).sum(axis=-2)) * damped / _U * _DU).sum(axis=-1)
    return np.asarray(np.clip(0.5 + integral / np.pi, 0.0, 1.0))


def p_below(values: Floats, limit: Floats | float, most: float, weights: Floats | None = None) -> Floats:
    """Return p of the claim that the mean of what `values` are drawn from is below `limit`; none is above `most`.

    `values` has samples along its last axis. With `weights`, a mean is weighted: a value is that of so many.
    """
    weights = np.ones(values.shape[-1]) if weights is None else weights
    more = np.asarray(most - np.asarray(limit))[..., None] * weights.max()
    inside = (values - np.asarray(limit)[..., None]) * weights
    return chance_above(np.concatenate([inside, np.broadcast_to(more, (*inside.shape[:-1], 1))], axis=-1))


def bounded_interval(
    values: Floats, most: float = 1.0, confidence: float = CONFIDENCE, weights: Floats | None = None
) -> tuple[Floats, Floats]:
    """Return limits of the mean of values in [-most, most], whose tests are those of `p_below`; NaN for no values."""
    if not values.shape[-1]:
        return (np.full(values.shape[:-1], np.nan),) * 2
    sides = []
    for sign in (-1.0, 1.0):
        low, high = np.full(values.shape[:-1], -most), np.full(values.shape[:-1], most)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            inside = p_below(sign * values, middle, most, weights) > (1 - confidence) / 2
            low, high = np.where(inside, middle, low), np.where(inside, high, middle)
        sides.append(sign * high)
    return sides[0], sides[1]
