"""Pages: a grid of panels with its title, legend and notes, split where it would outgrow a page, and written to files.

Panels have the height that is asked for and share the width that their labels leave, which are measured once. The same
figure gives the same bytes.
"""

import math
import re
import textwrap
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from parley.figures.style import GRAY, MAX_HEIGHT, look
from parley.files import write_atomically
from parley.games.evidence import FigureSpec
from parley.study import Study
from parley.study.expand import telling_axes
from parley.text import one_line

_FORMATS: dict[str, dict[str, Any]] = {
    # As small as with the default level, 6, and done in less time.
    ".png": {"format": "png", "dpi": 200, "metadata": {"Software": None}, "pil_kwargs": {"compress_level": 3}},
    ".svg": {"format": "svg", "metadata": {"Date": None, "Creator": None}},
    ".pdf": {"format": "pdf", "metadata": {"CreationDate": None, "Creator": None, "Producer": None}},
}
FORMATS = tuple(_FORMATS)
_BESIDE = 0.6  # inches: what labels take beside the panels of a row
_AROUND = 0.7  # inches: what a title, ticks and a label take above and below a panel
_PAD = 0.1  # inches between panels with their labels, and around all of them
_WIDEST = 1.5  # times the least width of a panel
_MOST_TEXT = 20  # lines of notes
MAX_PAGES = 4  # of one figure
_TITLE_LINE, _NOTE_LINE = 0.17, 0.13  # inches


@dataclass(frozen=True)
class Panel:
    """Panels that stand one below the other, each drawn by its function."""

    draws: Sequence[Callable[[Axes], None]]
    height: float = 0.0  # inches, where it is not that of all


def write(pages: Sequence[Figure], path_of: Callable[[str, int], Path], suffixes: Sequence[str]) -> list[Path]:
    """Write the pages of a figure to the paths for their suffixes and numbers, from 1.

    Returns the paths; raises RecordError if the disk refuses.
    """
    written = []
    with warnings.catch_warnings():
        # A title in a script that the font lacks shows boxes in the PNG; the SVG is right, and nothing is wrong.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        for number, figure in enumerate(pages, 1):
            for suffix in suffixes:
                write_atomically(path_of(suffix, number), partial(figure.savefig, **_FORMATS[suffix]))
                written.append(path_of(suffix, number))
    return written


def text_about(figure: Figure) -> str:
    """Return the notes that belong below a figure, whether or not they stand in the picture."""
    return str(figure.get_label())


# From panels to pages


def room() -> float:
    """Return how many inches a row of panels has, without what stands beside it."""
    return look().inches - _BESIDE


def per_row(width: float) -> int:
    """Return how many panels of at least a width in inches stand side by side."""
    return max(1, int(room() / width + 0.1))  # rather a little narrower than an odd last row


def panel_width(panels: int, least: float) -> float:
    """Return about how wide a panel will be if a figure has so many that are at least so wide, in inches."""
    return min(_WIDEST * least, room() / evenly(panels, per_row(least)) - 0.12)


def pages(
    study: Study,
    spec: FigureSpec,
    panels: Sequence[Panel],
    size: tuple[float, float],
    notes: Sequence[str],
    legend: Sequence[Artist],
    columns: int = 0,
) -> list[Figure]:
    """Return a figure in as many pages as its panels need, at most MAX_PAGES.

    `size` is the least width of a panel and its height in inches; `columns` is how many stand side by side, if not as
    many as have room. `notes` are sentences for below the picture.
    """
    width, height = size
    notes = [*filter(None, [study.shortfall]), *notes]
    high, fit = len(panels[0].draws), max(1, int((MAX_HEIGHT - 1) / (height + _PAD)))
    if len(panels) == 1 and high > 1:  # one below the other would leave the page white
        panels = [Panel([draw]) for draw in panels[0].draws]
    elif high > fit:
        panels = [replace(panel, draws=panel.draws[at : at + fit]) for at in range(0, high, fit) for panel in panels]
    columns = evenly(len(panels), columns or per_row(width))
    heights = [sum((panel.height or height) + _PAD for _ in panel.draws) for panel in panels]
    outside = _TITLE_LINE * (2 + len(legend)) + _NOTE_LINE * len(_note_lines(notes))
    most = max(1, int((MAX_HEIGHT - outside) / (max(heights) + _AROUND)))  # rows of a page
    shown = panels[: MAX_PAGES * most * columns]
    each = columns * evenly(math.ceil(len(shown) / columns), most)
    parts = [shown[at : at + each] for at in range(0, len(shown), each)]
    if len(shown) < len(panels):
        notes.append(f"The first {len(shown)} of {len(panels)} panels are shown. The tables hold all.")
    drawn = [
        _page(study, spec, part, size, notes, legend, columns, f" ({number} of {len(parts)})" * (len(parts) > 1))
        for number, part in enumerate(parts, 1)
    ]
    for figure in drawn:
        figure.set_label(" ".join(notes))
    return drawn


def evenly(items: int, most: int) -> int:
    """Return how many of the items a row holds, at most `most`, if rows are as few and as even as can be."""
    return math.ceil(items / math.ceil(items / most))


def _note_lines(notes: Sequence[str]) -> list[str]:
    if not look().titled:
        return []
    text = one_line(" ".join(notes), 4000)
    return textwrap.wrap(text, int(look().inches / 0.056), break_on_hyphens=False, max_lines=_MOST_TEXT)


def _page(
    study: Study,
    spec: FigureSpec,
    panels: Sequence[Panel],
    size: tuple[float, float],
    notes: Sequence[str],
    legend: Sequence[Artist],
    columns: int,
    number: str,
) -> Figure:
    columns = min(columns, len(panels))
    blocks = [panels[at : at + columns] for at in range(0, len(panels), columns)]
    deep = len(panels[0].draws)
    heights = [max(panel.height for panel in block) or size[1] for block in blocks for _ in range(deep)]
    figure = Figure((look().inches, sum(heights) + _AROUND * len(blocks)))
    FigureCanvasAgg(figure)
    axes: Any = figure.subplots(len(heights), columns, squeeze=False, gridspec_kw={"height_ratios": heights})
    for row, column in np.ndindex(axes.shape):
        block = blocks[row // deep]
        draws = block[column].draws if column < len(block) else ()
        if row % deep < len(draws):
            draws[row % deep](axes[row, column])
        else:
            axes[row, column].set_visible(False)
    _share(axes)
    entries = _legend(figure, legend)
    colon = "" if study.title.endswith(("?", "!", ".", ":")) else ":"
    titled = one_line(f"{study.title}{colon} {spec.title}{number}") if look().titled else ""
    title, text = textwrap.wrap(titled, int(look().inches / 0.083)), _note_lines(notes)
    head = _TITLE_LINE * len(title) + _PAD / 2
    least, high = entries.get_window_extent().size / figure.dpi if entries else (0.0, -_PAD)
    widths = (least, _WIDEST * size[0] * columns)
    _lay_out(figure, axes, sum(heights), widths, head + high + _PAD, _NOTE_LINE * len(text))
    wide, high = figure.get_size_inches()
    if entries:
        entries.set_bbox_to_anchor((0.5, 1 - head / high))
    for place, line in enumerate(title):
        figure.text(0.05 / wide, 1 - (0.04 + _TITLE_LINE * place) / high, line, va="top", size=9, weight="bold")
    for place, line in enumerate(text, 1 - len(text)):
        figure.text(0.05 / wide, (0.05 - _NOTE_LINE * place) / high, line, va="bottom", size=7, color=GRAY)
    return figure


def _legend(figure: Figure, handles: Sequence[Artist]) -> Any:
    """Add the legend of a page and return it, if there is one; labels that are too long are wrapped."""
    if not handles:
        return None
    for handle in handles:
        handle.set_label(wrapped(str(handle.get_label()), look().inches - 0.8))
    longest = max(len(line) for handle in handles for line in str(handle.get_label()).split("\n"))
    return figure.legend(
        handles=list(handles),
        loc="upper center",
        ncols=evenly(len(handles), max(1, int(look().inches / (0.5 + 0.056 * longest)))),
        borderpad=0.1,
        handlelength=2.4,
        columnspacing=1.2,
        labelspacing=0.3,
    )


def _share(axes: Any) -> None:
    """Leave labels out where the panel to the left says the same, or all panels of a row what the next row does."""

    def said(axis: Axis) -> tuple[Any, ...]:
        # Asked of the formatter: labels of an axis are laid out anew each time they are read.
        ticks = axis.get_major_formatter().format_ticks(list(axis.get_majorticklocs()))
        return *axis.get_view_interval(), axis.get_scale(), *ticks

    for row, next_row in pairwise(axes):
        pairs = [(ax.xaxis, below.xaxis) for ax, below in zip(row, next_row, strict=True) if ax.get_visible()]
        if all(below.axes.get_visible() and said(axis) == said(below) for axis, below in pairs):
            for axis, _ in pairs:
                axis.set_tick_params(labelbottom=False)
                axis.set_label_text("")
    for row in axes:
        shown = [(ax.yaxis, said(ax.yaxis), ax.get_ylabel()) for ax in row if ax.get_visible()]
        for (_, left, before), (axis, mine, label) in pairwise(shown):
            if mine == left:
                axis.set_tick_params(labelleft=False)
            if label == before:
                axis.set_label_text("")


def _lay_out(
    figure: Figure, axes: Any, heights: float, widths: tuple[float, float], above: float, below: float
) -> None:
    """Give the rows of panels their `heights`, or less if they would outgrow the page; all in inches.

    `widths` are the least that the figure needs and the most that all panels of a row may take, `above` and `below`
    are for titles and notes. What stands around each panel is measured once, which constrained layout does four times.
    """
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    around = np.zeros((4, *axes.shape))  # inches to the left, right, above and below each panel
    for place in np.ndindex(axes.shape):
        if not (ax := axes[place]).get_visible():
            continue
        inside = (text for text in ax.texts if text.get_transform() == ax.transData)
        for mark in (*ax.lines, *ax.collections, *ax.patches, *ax.spines.values(), *inside):
            mark.set_in_layout(False)
        box, tight = ax.get_window_extent(), ax.get_tightbbox(renderer, for_layout_only=True)
        ends = (box.x0 - tight.x0, tight.x1 - box.x1, tight.y1 - box.y1, box.y0 - tight.y0)
        around[:, *place] = np.maximum(ends, 0) / figure.dpi
    left, right = around[:2].max(axis=1)
    up, down = around[2:].max(axis=2)
    rows, columns = axes.shape
    gap = _PAD + max(left[1:] + right[:-1], default=0.0)
    space = _PAD + max(up[1:] + down[:-1], default=0.0)
    above, below = above + up[0] + _PAD / 2, below + down[-1] + _PAD
    height = min(MAX_HEIGHT, above + below + heights + space * (rows - 1))
    sides = left[0] + right[-1] + _PAD
    inner = min(look().inches - sides, widths[1] + gap * (columns - 1))
    wide = look().inches if look().titled else max(inner + sides, widths[0])
    figure.set_size_inches(round(wide, 2), round(height, 2))
    wide, height = figure.get_size_inches()
    start, tall = left[0] + (wide - inner - sides + _PAD) / 2, height - above - below
    figure.subplots_adjust(
        left=start / wide,
        right=(start + inner) / wide,
        top=1 - above / height,
        bottom=below / height,
        wspace=gap * columns / (inner - gap * (columns - 1)),
        hspace=space * rows / (tall - space * (rows - 1)),
    )


def empty(study: Study, spec: FigureSpec, why: str) -> list[Figure]:
    """Return a figure that says in words why there is nothing to draw."""

    def draw(ax: Axes) -> None:
        ax.set_axis_off()
        ax.text(0.5, 0.5, wrapped(why, look().inches - 1), ha="center", va="center", size=9)

    return pages(study, spec, [Panel([draw])], (look().inches - 1, 0.8), [why], [])


# Words


def heading(by: Sequence[str], key: Sequence[Any], width: float) -> str:
    """Return the values of the axes `by` as a panel's title, wrapped to its width in inches."""
    return wrapped(words(by, key), width, 12)


class _Joints(textwrap.TextWrapper):
    """Breaks names where they have joints."""

    wordsep_re = re.compile(r"(\s+|(?<=[-_+=,]))")


def wrapped(text: str, width: float, least: int = 6) -> str:
    """Return a text in lines of a width in inches, at least `least` characters; long names break at their joints."""
    most = max(least, int(width / 0.064))
    lines = textwrap.wrap(one_line(text), most, break_on_hyphens=False, break_long_words=False)
    fitting = ([line] if len(line) <= most + 2 else _Joints(most + 2).wrap(line) for line in lines)
    return "\n".join(part for parts in fitting for part in parts)


def words(by: Sequence[str], key: Sequence[Any], plain: Sequence[str] = ("model",)) -> str:
    """Return the values of axes in words, those of `plain` alone; who would play where nobody does is left out."""
    pairs = telling_axes(dict(zip(by, key, strict=True))).items()
    return ", ".join(str(value) if axis in plain else f"{axis}={value}" for axis, value in pairs)


def axis_label(study: Study, axis: str | None) -> str:
    """Return what stands along an axis of a study, in words."""
    roles = study.game.roles
    named = {"n": "agents (n)", "b": f"{roles[-1].capitalize()} agents (b)", None: ""}
    return named.get(axis, str(axis))
