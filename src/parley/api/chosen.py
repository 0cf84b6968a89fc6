"""Which conditions and simulations of a study somebody means by values of axes and seeds."""

from collections.abc import Callable, Iterable, Mapping
from numbers import Integral
from typing import Any

from parley.errors import UsageError
from parley.study import Study
from parley.study.condition import Condition
from parley.text import one_line

SEED = "seed"  # beside the axes
_MAX_VALUES = 60  # characters of the values of an axis in an error


def one_condition(study: Study, axes: Mapping[str, Any]) -> Condition:
    """Return the one condition with these values; raises UsageError if there is none, or several."""
    found = study.fitting(axes)
    if len(found) == 1:
        return found[0]
    left = {axis: list(dict.fromkeys(condition.axes[axis] for condition in found)) for axis in found[0].axes}
    told = "; ".join(
        f"{axis} ({one_line(', '.join(map(str, values)), _MAX_VALUES)})"
        for axis, values in left.items()
        if len(values) > 1
    )
    if not axes:
        raise UsageError(f"{study.name} has {len(found)} conditions; choose one by: {told}")
    raise UsageError(f"{study.name}: {len(found)} conditions have {values_text(axes)}; add a value of: {told}")


def values_text(chosen: Mapping[str, Any]) -> str:
    """Return what is chosen as an error names it: "b=1, seed=3"."""
    return ", ".join(f"{axis}={one_line(str(value), _MAX_VALUES)}" for axis, value in chosen.items())


def values_of_axes(study: Study, chosen: Mapping[str, Any]) -> dict[str, set[Any]]:
    """Return, for each axis in `chosen`, the values that are meant, as in paths and tables; a list means any of it.

    Raises UsageError for an axis or a value that the study does not have, and if no condition has all of them.
    """
    allowed = {
        axis: {condition.axes[axis] for value in listed(values) for condition in study.fitting({axis: value})}
        for axis, values in chosen.items()
    }
    if not any(_has(condition, allowed) for condition in study.conditions):
        raise UsageError(f"{study.name}: no condition has {values_text(chosen)}; `study.conditions` lists them")
    return allowed


def selection(study: Study, chosen: Mapping[str, Any]) -> Callable[[Condition, int], bool]:
    """Return what tells of a condition and a seed whether they are among `chosen` axes, and seeds if it has any.

    Raises UsageError as `values_of_axes`, and for a seed that is no number.
    """
    allowed = values_of_axes(study, {key: value for key, value in chosen.items() if key != SEED})
    seeds = chosen_seeds(chosen)
    fitting = {condition.path for condition in study.conditions if _has(condition, allowed)}
    return lambda condition, seed: condition.path in fitting and (seeds is None or seed in seeds)


def chosen_seeds(chosen: Mapping[str, Any]) -> set[int] | None:
    """Return the seeds in `chosen`; None for any."""
    if SEED not in chosen:
        return None
    seeds = set(listed(chosen[SEED]))
    if wrong := [seed for seed in seeds if not is_seed(seed)]:
        raise UsageError(f"seed={one_line(str(wrong[0]), 40)}: give a whole number from 0, or a list of them")
    return seeds


def is_seed(value: Any) -> bool:
    """Whether a value can be the seed of a simulation; also a number of NumPy's, as data frames have."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0


def listed(values: Any) -> list[Any]:
    """Return the values of a list, a tuple, a set or a range; anything else is one value."""
    return list(values) if isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping) else [values]


def _has(condition: Condition, allowed: Mapping[str, set[Any]]) -> bool:
    return all(condition.axes[axis] in values for axis, values in allowed.items())
