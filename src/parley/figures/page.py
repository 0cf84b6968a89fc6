"""What all figures share: the page with its heading, panels and legend, the marks, and how it is written.

All sizes are in inches, so that nothing depends on a layout engine. Lines differ in marker and dash as well as in
color, so that they can be told apart in gray. The same figure gives the same bytes.
"""

import math
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
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
from matplotlib.lines import Line2D

from parley import paths
from parley.files import write_atomically
from parley.games.evidence import FigureSpec
from parley.study import Study
from parley.text import one_line

FEW_PANELS = 8  # single simulations that one figure shows
MOST_PANELS = 48  # more would be a wall, not a figure
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
LINE = 0.155  # height of a line of 8 points


@contextmanager
def own_style() -> Iterator[None]:
    """Draw in Parley's style, whatever the user's matplotlibrc says."""
    with matplotlib.style.context("default"), matplotlib.rc_context(_STYLE):
        yield


def save(figure: Figure, study: Study, spec: FigureSpec) -> list[Path]:
    """Write a figure as PNG and as SVG and return both paths; raises RecordError if the disk refuses."""
    written = []
    with warnings.catch_warnings():
        # A title in a script that the font lacks shows boxes in the PNG; the SVG is right, and nothing is wrong.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        for suffix, options in _FORMATS.items():
            path = paths.figure(study.name, spec.name, suffix)
            write_atomically(path, partial(figure.savefig, **options))
            written.append(path)
    return written


# The page: a heading in words, a grid of panels, a legend below


def page(
    study: Study,
    spec: FigureSpec,
    grid: tuple[int, int],
    panel: tuple[float, float],
    notes: Sequence[str],
    legend: Sequence[Artist],
    above: float = 0.3,
    gap: float = 0.3,
    below: float = 0.62,
    left: float = 0.75,
    heights: Sequence[float] = (),
) -> tuple[Figure, list[list[Axes]]]:
    """Return a figure and its rows of panels, `grid` = rows x columns of `panel` = width x height.

    `above` and `below` are the room over each panel, for its title, and under it, for what stands along x; `left` is
    that beside the first, for what stands along y. `heights` are those of the rows, where they are not all that of
    `panel`. `notes` are sentences for the heading.
    """
    (rows, columns), (w, h) = grid, panel
    tall = list(heights) or [h] * rows
    right = 0.2
    inner = columns * w + (columns - 1) * gap
    width = max(7.0, left + inner + right)
    title = textwrap.wrap(one_line(f"{study.title}: {spec.title}"), int(width / 0.105))
    text = textwrap.wrap(one_line(" ".join(notes)), int(width / _CHARACTER))
    head = 0.15 + 0.2 * len(title) + LINE * len(text) + 0.1
    per_line = _legend_columns(legend, width - 0.4)
    foot = 0.1 + 0.19 * math.ceil(len(legend) / per_line)
    height = head + rows * (above + below) + sum(tall) + foot
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    start = max(left, (width - inner) / 2)
    axes = figure.subplots(
        rows,
        columns,
        squeeze=False,
        gridspec_kw={
            "left": start / width,
            "right": (start + inner) / width,
            "top": 1 - (head + above) / height,
            "bottom": (foot + below) / height,
            "wspace": gap / w,
            "hspace": (above + below) / (sum(tall) / rows),  # in panels of mean height
            "height_ratios": tall,
        },
    )
    at = height - 0.15
    for lines, step, font in ((title, 0.2, {"size": 11, "weight": "bold"}), (text, LINE, {"size": 8})):
        for line in lines:
            figure.text(0.15 / width, at / height, line, va="top", **font)
            at -= step
    if legend:
        anchor = (0.5, 0.04 / height)
        figure.legend(handles=list(legend), loc="lower center", bbox_to_anchor=anchor, ncols=per_line, frameon=False)
    return figure, axes.tolist()


def _legend_columns(legend: Sequence[Artist], width: float) -> int:
    """Return how many entries of a legend fit side by side; all of them if they fit on one line."""
    widths = [0.7 + _CHARACTER * len(str(handle.get_label())) for handle in legend]
    if sum(widths) <= width:
        return max(1, len(widths))
    return max(1, int(width / max(widths)))


def empty(study: Study, spec: FigureSpec, why: str) -> Figure:
    """Return a figure that says in words why there is nothing to draw."""
    figure, axes = page(study, spec, (1, 1), (5.0, 1.0), [], [])
    axes[0][0].set_axis_off()
    axes[0][0].text(0.5, 0.5, textwrap.fill(one_line(why), 70), ha="center", va="center", size=9)
    return figure


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


def room(headings: Sequence[str]) -> float:
    """Return the height that the tallest panel title takes, in inches."""
    return 0.14 * max((text.count("\n") + 1 for text in headings), default=0) + 0.12


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
