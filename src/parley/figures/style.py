"""The look of all figures: sizes on paper, fonts, and the color, marker and dash of a line.

Lines differ in marker and dash as well as in color, outcomes in hatch, so that they can be told apart in gray and by
color-blind readers.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import matplotlib
import matplotlib.style
from matplotlib.lines import Line2D

# Inches; of `screen`, letters can be read 400 pixels wide, `wide` is for the head of a report.
WIDTHS = {"column": 3.4, "page": 7.0, "screen": 4.5, "wide": 10.5}
MAX_HEIGHT = 9.0  # inches: no figure outgrows a page
HEIGHT = 1.15  # inches, of a panel among others
GRAY, FAINT = "#555555", "#DDDDDD"

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")  # Okabe and Ito
_MARKERS = "osD^vPX*"
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1.2)), (0, (6, 1.2, 1, 1.2)), (0, (2, 1)))
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "parley",  # else the ids in an SVG are random
    "svg.fonttype": "none",  # text stays text: it can be searched, copied and tested
    "pdf.fonttype": 42,  # fonts are embedded, which publishers ask for
    "text.parse_math": False,  # a dollar sign in a title is a dollar sign
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans", "Verdana"],  # an SVG names them; who lacks both reads it in another sans-serif
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.titley": 1.0,  # else each drawing looks for ticks above
    "axes.titlepad": 6,  # marks at 100% reach above their panel
    "axes.labelpad": 2,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "legend.frameon": False,
    "hatch.linewidth": 0.5,
}


@dataclass(frozen=True)
class Look:
    """How figures are printed: at most how wide; `for_paper` leaves out titles, notes and links."""

    width: str | None = None
    for_paper: bool = False

    @property
    def titled(self) -> bool:
        """Whether a title and notes stand in the picture, and not in what it is put into."""
        return not self.for_paper and self.width != "wide"

    @property
    def inches(self) -> float:
        """The width."""
        return WIDTHS[self.width or ("page" if self.for_paper else "screen")]


_LOOK: ContextVar[Look] = ContextVar("look", default=Look())  # noqa: B039


def look() -> Look:
    """Return how the figures are printed that are drawn now."""
    return _LOOK.get()


@contextmanager
def own_style(chosen: Look | None = None) -> Iterator[None]:
    """Draw in Parley's style, whatever the user's matplotlibrc says, and print as `chosen`."""
    before = _LOOK.set(chosen or Look())
    try:
        with matplotlib.style.context("default"), matplotlib.rc_context(_STYLE):
            yield
    finally:
        _LOOK.reset(before)


def line_handle(index: int, label: str) -> Line2D:
    """Return the legend's entry for line number `index`."""
    return Line2D([], [], label=label, **line_style(index))


def line_style(index: int) -> dict[str, Any]:
    """Return color, marker and dash of line number `index`: no two of the first 280 are alike."""
    return {
        "color": COLORS[index % len(COLORS)],
        "marker": _MARKERS[index % len(_MARKERS)],
        "linestyle": _DASHES[index % len(_DASHES)],
        "linewidth": 1.1,
        "markersize": 4,
    }
