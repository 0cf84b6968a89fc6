"""What a mark of a figure stands for: the address of its simulations in the explorer."""

from collections.abc import Callable, Mapping
from typing import Any

from parley.figures.style import look
from parley.study import Study
from parley.study.condition import BYZANTINE_AXIS, Simulation
from parley.study.expand import NOBODY
from parley.view_links import simulations_link, single_link

Linker = Callable[..., str | None]


def linker(study: Study) -> Linker:
    """Return a function from a row of a table, and the name of an outcome if it is one's, to an address.

    Axes that do not vary are left out. There is no address in figures for a paper.
    """

    def link(row: Mapping[Any, Any], outcome: str | None = None) -> str | None:
        if look().for_paper:
            return None
        axes = {axis: row[axis] for axis in study.varying if axis in row}
        if BYZANTINE_AXIS in axes and row.get("b") == 0:  # such a row may stand beside those of an adversary
            axes[BYZANTINE_AXIS] = NOBODY
        return simulations_link(axes | study.first_time, outcome)

    return link


def game_link(simulation: Simulation) -> str | None:
    """Return the address of one simulation; None in figures for a paper."""
    return None if look().for_paper else single_link(simulation.id)
