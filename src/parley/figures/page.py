"""What all figures share: the page with its heading, panels and legend, the marks, and how it is written.

Panels have the size in inches that is asked for; constrained layout finds what their labels take. Lines differ in
marker and dash as well as in color, so that they can be told apart in gray. The same figure gives the same bytes.
"""

import math
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.style
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from parley import paths
from parley.files import write_atomically
from parley.games.evidence import FigureSpec
from parley.study import Study
from parley.text import one_line

FEW_PANELS = 8  # single simulations that one figure shows
MAX_PANELS = 48  # more would be a wall, not a figure
WIDEST = 12.0

_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")  # Okabe and Ito
_MARKERS = "osD^vPX*"
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1.2)), (0, (6, 1.2, 1, 1.2)), (0, (2, 1)))
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "parley",  # else the ids in an SVG are random
    "svg.fonttype": "none",  # text stays text: it can be searched, copied and tested
    "text.parse_math": False,  # a dollar sign in a title is a dollar sign
    "font.family": ["DejaVu Sans"],
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "hatch.linewidth": 0.6,
}
_FORMATS: dict[str, dict[str, Any]] = {
    ".png": {"format": "png", "dpi": 200, "metadata": {"Software": None}},
    ".svg": {"format": "svg", "metadata": {"Date": None, "Creator": None}},
}
_JOINTS = re.compile(r"[^-_+=, ]*[-_+=, ]*(?<=.)")
_CHARACTER = 0.068  # width of one of 8 points
_LINE = 0.155  # height of a line of 8 points


@contextmanager
def own_style() -> Iterator[None]:
    """Draw in Parley's style, whatever the user's matplotlibrc says."""
    with matplotlib.style.context("default"), matplotlib.rc_context(_STYLE):
        yield


def save(figure: Figure, study: Study, spec: FigureSpec) -> list[Path]:
    """Write a figure as PNG and as SVG and return both paths; raises RecordError if the disk refuses."""
    return write(figure, partial(paths.figure, study.name, spec.name))


def write(figure: Figure, path_of: Callable[[str], Path]) -> list[Path]:
    """Write a figure to the paths that `path_of` gives for its suffixes, as `save` does, and return them."""
    written = []
    with warnings.catch_warnings():
        # A title in a script that the font lacks shows boxes in the PNG; the SVG is right, and nothing is wrong.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        for suffix, options in _FORMATS.items():
            path = path_of(suffix)
            write_atomically(path, partial(figure.savefig, **options))
            written.append(path)
    return written


# The page: a heading in words, a grid of panels, a legend below


def page(
    study: Study,
    spec: FigureSpec,
    rows: Sequence[Sequence[Callable[[Axes], None]]],
    size: tuple[float, float],
    notes: Sequence[str],
    legend: Sequence[Artist],
    heights: Sequence[float] = (),
) -> Figure:
    """Return a figure of rows of panels, each drawn by its function; a row may hold fewer than the longest.

    `size` is the width and height of a panel in inches, whatever stands around it; `heights` are those of the rows,
    where they differ. `notes` are sentences for the heading.
    """
    columns, tall = max(len(row) for row in rows), list(heights) or [size[1]] * len(rows)
    # A page with room to spare.
    figure = Figure((2 * columns * size[0] + 4, 2 * sum(tall) + 4))
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(rows), columns, squeeze=False, height_ratios=tall)
    for line, row in zip(axes, rows, strict=True):
        for place, ax in enumerate(line):
            ax.tick_params(labelleft=place == 0)
            ax.set_visible(place < len(row))
            if place < len(row):
                row[place](ax)
            if place:
                ax.set_ylabel("")
    (inner, lefts), (high, tops) = _places(figure, axes, size[0], tall)
    width = max(7.0, inner + 0.2)
    title = textwrap.wrap(one_line(f"{study.title}: {spec.title}"), int(width / 0.105))
    text = textwrap.wrap(one_line(" ".join(notes)), int(width / _CHARACTER))
    per_line = _legend_columns(legend, width - 0.4)
    head, foot = 0.25 + 0.2 * len(title) + _LINE * len(text), 0.1 + 0.19 * math.ceil(len(legend) / per_line)
    height = head + high + foot
    figure.set_size_inches(width, height)
    for line, top, h in zip(axes, tops, tall, strict=True):
        for ax, left in zip(line, lefts, strict=True):
            x, y = left + (width - inner) / 2, height - head - top - h
            ax.set_position((x / width, y / height, size[0] / width, h / height))
    at = height - 0.15
    for lines, step, font in ((title, 0.2, {"size": 11, "weight": "bold"}), (text, _LINE, {"size": 8})):
        for line in lines:
            figure.text(0.15 / width, at / height, line, va="top", **font)
            at -= step
    if legend:
        anchor = (0.5, 0.04 / height)
        figure.legend(handles=list(legend), loc="lower center", bbox_to_anchor=anchor, ncols=per_line, frameon=False)
    return figure


def _places(
    figure: Figure, axes: Any, width: float, heights: Sequence[float]
) -> tuple[tuple[float, list[float]], tuple[float, list[float]]]:
    """Return how wide the panels are with their labels and where each column begins, and the same of rows from above.

    Constrained layout finds on a larger page what the labels take, which stays when panels shrink to their size. All
    is in inches and rounded, since the last digits that it finds are not the same twice.
    """
    for ax in figure.axes:
        for mark in (*ax.lines, *ax.collections, *ax.patches):
            mark.set_in_layout(False)
    ConstrainedLayoutEngine(w_pad=0.07, h_pad=0.1, wspace=0, hspace=0).execute(figure)
    wide, high = figure.get_size_inches()
    columns, rows = ([ax.get_position() for ax in line] for line in (axes[0], axes[:, 0]))
    more = (
        [wide * box.width - width for box in columns],
        [high * box.height - h for box, h in zip(rows, heights, strict=True)],
    )
    lefts = [round(wide * box.x0 - sum(more[0][:place]), 3) for place, box in enumerate(columns)]
    tops = [round(high * (1 - box.y1) - sum(more[1][:place]), 3) for place, box in enumerate(rows)]
    return (round(wide - sum(more[0]), 2), lefts), (round(high - sum(more[1]), 2), tops)


def _legend_columns(legend: Sequence[Artist], width: float) -> int:
    """Return how many entries of a legend fit side by side; all of them if they fit on one line."""
    widths = [0.7 + _CHARACTER * len(str(handle.get_label())) for handle in legend]
    if sum(widths) <= width:
        return max(1, len(widths))
    return max(1, int(width / max(widths)))


def in_blocks(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    """Return the items in rows of at most `size`."""
    return [items[start : start + size] for start in range(0, len(items), size)]


def empty(study: Study, spec: FigureSpec, why: str) -> Figure:
    """Return a figure that says in words why there is nothing to draw."""

    def draw(ax: Axes) -> None:
        ax.set_axis_off()
        ax.text(0.5, 0.5, textwrap.fill(one_line(why), 70), ha="center", va="center", size=9)

    return page(study, spec, [[draw]], (5.0, 1.0), [], [])


def heading(by: Sequence[str], key: Sequence[Any], width: float) -> str:
    """Return the values of the axes `by` as a panel's title, wrapped to its width in inches."""
    return wrapped(words(by, key), width, 12)


def wrapped(text: str, width: float, least: int = 6) -> str:
    """Return a text in lines of a width in inches, at least `least` characters; long names break at their joints."""
    most = max(least, int(width / 0.072))
    lines = textwrap.wrap(one_line(text), most, break_on_hyphens=False, break_long_words=False)
    return "\n".join(part for line in lines for part in _parts(line, most))


def _parts(line: str, most: int) -> list[str]:
    """Return a line, broken where its names have joints if it is longer than `most` characters."""
    parts = [""]
    for piece in _JOINTS.findall(line):
        if parts[-1] and len(parts[-1] + piece) > most:
            parts.append("")
        parts[-1] += piece
    return [shorter for part in parts for shorter in textwrap.wrap(part, most)] if len(line) > most else [line]


def interval_text(low: float, high: float) -> str:
    """Return an interval of rates in percent; with a decimal near 0% and 100%, which few intervals reach."""
    return f"[{_percent(low)}, {_percent(high)}]"


def _percent(rate: float) -> str:
    near = 0.0005 <= rate < 0.0095 or 0.9905 < rate < 0.9995
    return f"{100 * rate:.1f}" if near else f"{100 * rate:.0f}"


def words(by: Sequence[str], key: Sequence[Any]) -> str:
    """Return the values of the axes `by` in words: the model by its name alone, the others as in paths."""
    return ", ".join(str(value) if axis == "model" else f"{axis}={value}" for axis, value in zip(by, key, strict=True))


def line_handle(index: int, label: str) -> Line2D:
    """Return the legend's entry for line number `index`."""
    return Line2D([], [], label=label, **line_style(index))


def line_style(index: int) -> dict[str, Any]:
    """Return color, marker and dash of line number `index`: no two of the first 280 are alike."""
    return {
        "color": _COLORS[index % len(_COLORS)],
        "marker": _MARKERS[index % len(_MARKERS)],
        "linestyle": _DASHES[index % len(_DASHES)],
        "linewidth": 1.1,
        "markersize": 4.5,
    }
