"""Maps: a rate or a mean as a table of colored cells, for studies whose axes make too many bars.

A row holds conditions that differ along x alone. A cell has the number and its interval in figures, so that the
color is never all there is to read; where no condition was run it stays empty.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from parley.analysis.forks import UNCHANGED
from parley.analysis.pairs import beside_undisturbed
from parley.figures import common
from parley.figures.page import Panel, axis_label, empty, pages, room, words, wrapped
from parley.figures.style import look
from parley.games.evidence import INFLUENCE, FigureSpec
from parley.statistics.stats import CONFIDENCE, bounded_interval
from parley.study import Study
from parley.study.condition import BYZANTINE_AXIS

_CELL = (0.74, 0.32)  # inches
_WHOLE = 0.58  # inches of a cell that has room for an interval in one line
_LEAST = 0.3  # and of one that has room for any text
_ROWS = 22  # of a page
_COLORS = "cividis"  # as good for color-blind readers, and in gray

_Row = tuple[Any, ...]  # the values of the axes that tell rows apart


def near(rate: float) -> str:
    """Return a limit of a rate in percent; with a decimal near 0% and 100%, which few intervals reach."""
    is_near = 0.0005 <= rate < 0.0095 or 0.9905 < rate < 0.9995
    return f"{100 * rate:.1f}" if is_near else f"{100 * rate:.0f}"


@dataclass(frozen=True)
class _Content:
    """What cells show: its name, columns of the number and its limits, texts of both, the ends of the scale."""

    what: str
    columns: tuple[str, str, str]
    number: Callable[[float], str] = "{:.0%}".format
    limit: Callable[[float], str] = near
    ends: tuple[float, float] = (0.0, 1.0)


def maps(study: Study, spec: FigureSpec, table: pd.DataFrame, players: pd.DataFrame | None = None) -> list[Figure]:
    """Draw the rate of the first outcome in cells: a column per value of `spec.x`, a row per all other axes.

    With `players` it is the mean of the one share in `spec.of`, by who plays.
    """
    if players is not None:
        return share_map(study, spec, by_player(study, table, players))
    outcome = study.game.outcomes[0]
    table = table[table[f"{outcome.name}_rate"].notna()]  # a cell where it cannot be stays empty
    columns = (f"{outcome.name}_rate", f"{outcome.name}_low", f"{outcome.name}_high")
    what = f"Rate of “{outcome.label}” by {spec.x}, with its {common.WILSON}"
    return _map(study, spec, table, _Content(what, columns))


def share_map(study: Study, spec: FigureSpec, table: pd.DataFrame) -> list[Figure]:
    """Draw the mean of the one share in `spec.of`, of a table `quantities` with a column `player`."""
    [name] = spec.of
    run = table[table["quantity"] == name]
    table = run[run["simulations"] > 0].sort_values("player", kind="stable")
    notes: list[str] = []
    each = table.drop_duplicates([axis for axis in _axes(study, table) if axis != "model"])
    if len(each) < len(table):
        notes.append("Where several populations play alike, the first of the study is shown.")
    common.not_shown(len(run), len(each), notes)
    [quantity] = [quantity for quantity in study.game.evidence.quantities if quantity.name == name]
    if table.empty or not quantity.share:
        return empty(study, spec, f"Nothing to draw. No simulation has: {quantity.label}.")
    what = f"Mean {quantity.label} by {spec.x}, with its {common.WILSON}"
    return _map(study, spec, each, _Content(what, ("mean", "low", "high")), notes)


def influence_map(study: Study, spec: FigureSpec, table: pd.DataFrame) -> list[Figure]:
    """Draw the mean influence over recorded games in cells: a column per point, a row per change and other axes."""
    table = table[~table["change"].isin(UNCHANGED)].dropna(subset=["influence"])
    if table.empty:
        return empty(study, spec, "Nothing to draw: no change has forks without it beside (none).")
    cells = []
    for key, of in table.groupby(study.axes, sort=False)["influence"]:
        low, high = map(float, bounded_interval(of.to_numpy(dtype=float)))
        cells.append([*key, len(of), of.mean(), low, high])
    influences = pd.DataFrame(cells, columns=[*study.axes, "simulations", "mean", "low", "high"])
    what = f"By how much less often games end as recorded, in percentage points with the {CONFIDENCE:.0%} interval"
    # No influence has the same color in every figure.
    content = _Content(what, ("mean", "low", "high"), _points, _points, (-1.0, 1.0))
    return _map(study, spec, influences, content)


def _points(share: float) -> str:
    return f"{100 * share:+.0f}"


def by_player(study: Study, quantities: pd.DataFrame, players: pd.DataFrame) -> pd.DataFrame:
    """Return both tables as one with a column `player`, which is the model where one model plays alone."""
    mixed = players[[*study.axes, "quantity"]].drop_duplicates()
    alone = quantities.merge(mixed, how="left", indicator=True).query("_merge == 'left_only'")
    return pd.concat([alone.assign(player=alone["model"]), players], ignore_index=True)


def _axes(study: Study, table: pd.DataFrame) -> list[str]:
    """Return the axes of a study; with a column `player`, this instead of the model, which says who else plays."""
    return ["player" if axis == "model" and "player" in table else axis for axis in study.axes]


def _map(
    study: Study, spec: FigureSpec, table: pd.DataFrame, content: _Content, more: Sequence[str] = ()
) -> list[Figure]:
    others = [axis for axis in _axes(study, table) if axis != spec.x]
    sizes, alone = list[str](), list[str]()
    if spec.x == "b":
        table, others = beside_undisturbed(table, others, study.game.roles[0], sizes)
    table = common.compared(table, [axis for axis in others if axis != "player"], spec.x, alone)
    varying = [axis for axis in others if table[axis].nunique() > 1]
    rows = _rows(table, varying, spec.x)
    if all(len(cells) < 2 for cells in rows.values()) and spec != INFLUENCE:  # a single cell compares by itself
        return empty(study, spec, f"Nothing to compare: no two conditions differ in {spec.x} alone.")
    counts = sorted(table["simulations"].unique())
    several = f"{counts[0]:.0f} to {counts[-1]:.0f}" if len(counts) > 1 else f"{counts[0]:.0f}"
    nothing = ", or no simulation has it" if spec.of else ", or it cannot be"
    notes = [f"{content.what}; {several} simulations per cell. Empty: not run{nothing}.", *sizes, *more]
    if fixed := [axis for axis in others if axis not in varying]:
        notes.append(f"In all rows: {words(fixed, [table[axis].iloc[0] for axis in fixed])}.")
    notes += alone
    xs, label, link = common.values_along(table[spec.x]), axis_label(study, spec.x), common.linker(study)
    beside, plain = look().inches - _CELL[0] * len(xs) - 0.2, ("model", "player", BYZANTINE_AXIS)
    names = {key: wrapped(words(varying, key, plain), max(1.4, min(4.0, beside))) for key in rows}
    columns = [wrapped(str(value), max(_CELL[0], (room() - 2) / len(xs)) - 0.05) for value in xs]
    longest = max(len(line) for name in names.values() for line in name.split("\n"))
    width = (look().inches - (0.3 + 0.062 * longest) - 0.1) / len(xs)
    lines = max(name.count("\n") + 1 for name in names.values())
    height = max(_CELL[1] + 0.1 * (width < _WHOLE), 0.13 * lines + 0.05)
    if width < _LEAST:
        least, most = map(content.number, content.ends)
        notes.append(f"Colors from {least} (dark) to {most} (light); the tables have the numbers.")
    if varying:
        notes.append(f"Rows: {', '.join(varying)}.")

    def draw(ax: Axes, part: Sequence[_Row]) -> None:
        for y, key in enumerate(part):
            for value, condition in rows[key].items():
                _cell(ax, xs.index(value), y, condition, content, width, link(condition))
        _frame(ax, columns, [names[key] for key in part], label, every=ceil(_LEAST / width))

    of_page = max(1, int(_ROWS * _CELL[1] / height))
    parts = [list(rows)[at : at + of_page] for at in range(0, len(rows), of_page)]
    panels = [Panel([partial(draw, part=part)], height * len(part)) for part in parts]
    return pages(study, spec, panels, (_CELL[0] * len(xs), height * len(parts[0])), notes, [], columns=1)


def _rows(table: pd.DataFrame, by: Sequence[str], x: str) -> dict[_Row, dict[Any, Any]]:
    rows: dict[_Row, dict[Any, Any]] = {}
    for _, condition in table.iterrows():
        rows.setdefault(tuple(condition[axis] for axis in by), {})[condition[x]] = condition
    return rows


def _cell(ax: Axes, x: int, y: int, condition: Any, content: _Content, width: float, url: str | None) -> None:
    """Draw a cell; a narrow one has its interval in two lines, one without room no text."""
    number, low, high = (float(condition[column]) for column in content.columns)
    least, most = content.ends
    share = (number - least) / (most - least) if most > least else 0.5
    color = matplotlib.colormaps[_COLORS](share)
    ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=color, edgecolor="white", url=url))
    if width < _LEAST:
        return
    ink, narrow = "white" if share < 0.55 else "black", width < _WHOLE
    between = "\n" if narrow else " "
    interval = "" if pd.isna(low) else f"[{content.limit(low)},{between}{content.limit(high)}]"
    for up, size, text in (
        (0.28 if narrow else 0.17, 8, content.number(number)),
        (-0.2 if narrow else -0.25, 6.5, interval),
    ):
        ax.text(x, y - up, text, ha="center", va="center", size=size, color=ink, linespacing=1.0)


def _frame(ax: Axes, columns: Sequence[str], names: Sequence[str], label: str, every: int) -> None:
    ax.set_xlim(-0.5, len(columns) - 0.5)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlabel(label)
    ax.set_xticks(range(0, len(columns), every), columns[::every])
    ax.set_yticks(range(len(names)), names)
    ax.tick_params(length=0)
    ax.set_facecolor("#F2F2F2")
    ax.spines[:].set_visible(False)
