"""Maps: the rate of a game's first outcome as a table of colored cells, for studies whose axes make too many bars.

A row holds conditions that differ along x alone. A cell has the rate and its Wilson interval in figures, so that the
color is never all there is to read; where no condition was run it stays empty.
"""

from collections.abc import Sequence
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from parley import tables
from parley.condition import BYZANTINE_AXIS
from parley.figures_attacked import with_group_size, with_undisturbed
from parley.figures_page import empty, interval_text, page, words
from parley.figures_panels import WILSON, values_along
from parley.games.evidence import FigureSpec
from parley.study import Study

_CELL = (0.78, 0.34)  # inches
_MOST_ROWS = 60
_COLORS = "cividis"  # as good for color-blind readers, and in gray
_CHARACTER = 0.066  # width of a character of a name, in inches
_LONGEST_NAME = 120

_Row = tuple[Any, ...]  # the values of the axes that tell rows apart


def rate_map(study: Study, spec: FigureSpec, table: pd.DataFrame) -> Figure:
    """Draw a table of cells: a column per value of `spec.x`, a row per combination of all other axes.

    `table` is the table of conditions, a row for each. What was run with one value of x only is left out, and told.
    """
    others = [axis for axis in tables.axes(study) if axis != spec.x]
    sizes = []
    if spec.x == "b":
        table, others, note = with_group_size(table, others, study.game.roles[0])
        sizes, table = [note], with_undisturbed(table, others)
    varying = [axis for axis in others if table[axis].nunique() > 1]
    fixed = [axis for axis in others if axis not in varying]
    rows = _rows(table, varying, spec.x)
    compared = {key: cells for key, cells in rows.items() if len(cells) > 1}
    if not compared:
        return empty(study, spec, f"Nothing to compare: no two conditions differ in {spec.x} alone.")
    outcome = study.game.outcomes[0]
    counts = sorted({int(cell["simulations"]) for cells in compared.values() for cell in cells.values()})
    several = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
    notes = [
        f"Rate of {outcome.label} by {spec.x}, with its {WILSON}; {several} simulations per cell. Empty: not run.",
        *sizes,
    ]
    if fixed:
        notes.append(f"In all rows: {words(fixed, [table[axis].iloc[0] for axis in fixed])}.")
    if left_out := len(rows) - len(compared):
        notes.append(f"Not shown: {left_out} of {len(rows)} rows, run with one {spec.x} only.")
    if len(compared) > _MOST_ROWS:
        notes.append(f"The first {_MOST_ROWS} of {len(compared)} rows are shown; the tables hold all.")
    shown = list(compared.items())[:_MOST_ROWS]
    used = {value for _, cells in shown for value in cells}
    xs = [value for value in values_along(table[spec.x]) if value in used]
    names = [_cut(_name(varying, key)) for key, _ in shown]
    columns = [_cut(str(value)) for value in xs]
    widest = max(len(name) for name in columns)
    slanted = widest * _CHARACTER > _CELL[0]
    above = 0.3 + (0.6 * widest * _CHARACTER if slanted else 0)
    margin = _CHARACTER * max(len(name) for name in names)
    beyond = _CHARACTER * len(columns[-1]) if slanted else 0.0
    # The names of rows and columns stand in the panel's own room, of which the cells take the rest.
    width = margin + _CELL[0] * len(xs) + beyond
    figure, [[ax]] = page(study, spec, (1, 1), (width, _CELL[1] * len(shown)), notes, [], above)
    place = ax.get_position()
    left, cells_width = place.x0 + margin / width * place.width, _CELL[0] * len(xs) / width * place.width
    ax.set_position((left, place.y0, cells_width, place.height))
    for y, (_, cells) in enumerate(shown):
        for value, cell in cells.items():
            _cell(ax, xs.index(value), y, cell, outcome.name)
    _frame(ax, columns, names, slanted)
    return figure


def _rows(table: pd.DataFrame, by: Sequence[str], x: str) -> dict[_Row, dict[Any, Any]]:
    """Return the conditions by row and by value of x, in the order of the table."""
    rows: dict[_Row, dict[Any, Any]] = {}
    for _, condition in table.iterrows():
        rows.setdefault(tuple(condition[axis] for axis in by), {})[condition[x]] = condition
    return rows


def _name(by: Sequence[str], key: _Row) -> str:
    plain = ("model", BYZANTINE_AXIS)
    return ", ".join(
        str(value) if axis in plain else words([axis], [value]) for axis, value in zip(by, key, strict=True)
    )


def _cell(ax: Axes, x: int, y: int, condition: Any, outcome: str) -> None:
    rate, low, high = (float(condition[f"{outcome}_{part}"]) for part in ("rate", "low", "high"))
    color = matplotlib.colormaps[_COLORS](rate)
    ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=color, edgecolor="white", linewidth=1.5))
    ink = "white" if rate < 0.55 else "black"
    ax.text(x, y - 0.17, f"{rate:.0%}", ha="center", va="center", size=8, color=ink)
    ax.text(x, y + 0.25, interval_text(low, high), ha="center", va="center", size=6, color=ink)


def _frame(ax: Axes, columns: Sequence[str], names: Sequence[str], slanted: bool) -> None:
    ax.set_xlim(-0.5, len(columns) - 0.5)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.xaxis.tick_top()
    turned: dict[str, Any] = {"rotation": 35, "ha": "left", "rotation_mode": "anchor"} if slanted else {}
    ax.set_xticks(range(len(columns)), columns, **turned)
    ax.set_yticks(range(len(names)), names)
    ax.tick_params(length=0)
    ax.set_facecolor("#F2F2F2")
    ax.spines[:].set_visible(False)


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 3]}..."
