"""Pages: a grid of panels with its title, legend and notes, split where it would outgrow a page, and written to files.

Panels have the height that is asked for and share the width that their labels leave, which are measured once. Where
panels are more than pages hold, those that tell most are shown. The same figure gives the same bytes.
"""

import math
import re
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import groupby, pairwise, zip_longest
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends import _backend_pdf_ps
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import get_font
from matplotlib.lines import Line2D
from matplotlib.transforms import ScaledTranslation

from parley import paths
from parley.figures.style import GRAY, MAX_HEIGHT, WIDTHS, look
from parley.files import write_atomically
from parley.games.evidence import FigureSpec
from parley.study import Study
from parley.study.expand import telling_axes
from parley.text import one_line

FEW_PANELS = 8  # single simulations that one figure shows

_FORMATS: dict[str, dict[str, Any]] = {
    # As small as with the default level, 6, and done in less time.
    ".png": {"format": "png", "dpi": 200, "metadata": {"Software": None}, "pil_kwargs": {"compress_level": 3}},
    ".svg": {"format": "svg", "metadata": {"Date": None, "Creator": None}},
    ".pdf": {"format": "pdf", "metadata": {"CreationDate": None, "Creator": None, "Producer": None}},
}
FORMATS = tuple(_FORMATS)
_OVER = 2  # characters by which a name may be longer than its place before it is broken inside a word
_JOINTS = re.compile(r"[^-_+=, ]*[-_+=, ]*(?<=.)")
_BESIDE = 0.6  # inches: what labels take beside the panels of a row
_AROUND = 0.45  # inches: what labels take above and below a row of panels, without those of more than one line
_MOST_TEXT = 20  # lines of notes
_NAME = 1.1  # inches: names of lines beside their ends are wrapped to it
_PAD = 0.04  # inches around each panel and its labels
_NARROWER = 0.16  # by which part panels may get narrower for them


@dataclass(frozen=True)
class Panel:
    """Panels that stand one below the other, each drawn by its function; `tells` is how much they differ inside.

    Neighbors of one `family` are compared: they stand beside each other, on one page.
    """

    draws: Sequence[Callable[[Axes], None]]
    tells: float = 0.0
    lines: int = 1  # of what stands above and below
    height: float = 0.0  # inches, where it is not that of all
    family: tuple[Any, ...] | None = None


def write(
    pages: Sequence[Figure], path_of: Callable[[str, int], Path], suffixes: Sequence[str] = FORMATS
) -> list[Path]:
    """Write the pages of a figure to the paths for their suffixes and numbers, from 1; remove those that are no more.

    Returns the paths; raises RecordError if the disk refuses.
    """
    written = []
    with warnings.catch_warnings(), _fonts_cut_once():
        # A title in a script that the font lacks shows boxes in the PNG; the SVG is right, and nothing is wrong.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        for number, figure in enumerate(pages, 1):
            for suffix in suffixes:
                write_atomically(path_of(suffix, number), partial(figure.savefig, **_FORMATS[suffix]))
                written.append(path_of(suffix, number))
    for suffix in suffixes:
        number = len(pages) + 1
        while (old := path_of(suffix, number)).exists():
            old.unlink()
            number += 1
    return written


@contextmanager
def _fonts_cut_once() -> Iterator[None]:
    """Embed the same letters of a font in each PDF, so that they are cut out of it once: that took longest."""

    def subset(font: Any, glyphs: Iterable[int]) -> AbstractContextManager[Any]:
        ascii_glyphs = map(get_font(font).get_char_index, range(32, 127))
        return nullcontext(_cut_font(font, frozenset([*ascii_glyphs, *glyphs])))

    with patch.object(_backend_pdf_ps, "get_glyphs_subset", subset):
        yield


@cache
def _cut_font(font: Any, glyphs: frozenset[int], cut: Callable[..., Any] = _backend_pdf_ps.get_glyphs_subset) -> Any:
    found = cut(font, set(glyphs)).__enter__()  # not closed: it is embedded again
    for layout in {"GDEF", "GPOS", "GSUB"} & {*found.font.keys()}:  # for who sets text; in a PDF it is set
        del found.font[layout]
    return found


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
    """Return how wide a panel will be if a figure has so many that are at least so wide, in inches."""
    columns = evenly(panels, per_row(least))
    # Panels that need less than a page's width have that of a column.
    inner = room() if columns * least + _BESIDE > WIDTHS["column"] else WIDTHS["column"] - _BESIDE
    return inner / columns - 0.12


def pages(
    study: Study,
    spec: FigureSpec,
    panels: Sequence[Panel],
    size: tuple[float, float],
    notes: Sequence[str],
    legend: Sequence[Artist],
    columns: int = 0,
    beside: float = 0.0,
) -> list[Figure]:
    """Return a figure in as many pages as its panels need, at most those that `look()` allows.

    `size` is the least width of a panel and its height in inches; `columns` is how many stand side by side, if not as
    many as have room, and have just their least width. `beside` are the inches for what stands beside them, by default
    one for each panel that is compared with its neighbors. `notes` are sentences for below the picture.
    """
    width, height = size
    notes = [*([study.unfinished.sentence] if study.unfinished else []), *notes]
    columns = columns or min(len(panels), per_row(width))
    high = len(panels[0].draws)
    fit = max(1, int((MAX_HEIGHT - _AROUND) / (height + 0.1)))
    if len(panels) == 1 and high > 1:  # one below the other would leave the page white
        panels = [Panel([draw], lines=panels[0].lines) for draw in panels[0].draws]
        columns, high = evenly(high, per_row(width)), 1
    elif high > fit:
        panels = [replace(panel, draws=panel.draws[at : at + fit]) for at in range(0, high, fit) for panel in panels]
        high = fit
    sizes = set(map(len, _families(panels)))
    alike = max(sizes) if len(sizes) == 1 and max(sizes) <= columns else 1
    columns = alike * evenly(len(panels) // alike, columns // alike)
    *_, above, below = _outside(study, spec, notes, legend, (10, 10))
    room = MAX_HEIGHT - above - below - (0.0 if look().for_paper else 0.3)  # a note on what is left out
    chosen, left_out = _split(panels, columns, height, room)
    more = list(notes)
    if len(chosen) > 1 or left_out:
        more.append("Panels with the largest differences come first.")
    if left_out:
        more.append(f"{left_out} of {len(panels)} panels are left out. The tables hold all.")
    drawn = [
        _page(study, spec, part, (width, height, beside or alike), more, legend, columns, (number, len(chosen)))
        for number, part in enumerate(chosen, 1)
    ]
    if left_out and not look().for_paper:  # a command is for whoever makes the picture, not for who is shown it
        more.append(
            f"“parley figures {paths.study_argument(study.file)} --max-pages {2 * look().max_pages}” draws more."
        )
    for figure in drawn:
        figure.set_label(" ".join(more))
    return drawn


def _split(panels: Sequence[Panel], columns: int, height: float, room: float) -> tuple[list[list[Panel]], int]:
    """Return the panels of each page, families that tell most first, and how many panels are left out."""
    heights = [sum(panel.height or height for _ in panel.draws) + 0.12 * panel.lines for panel in panels]
    # A row is as high as its highest panel.
    rows = max(1, int((room - _AROUND) / (max(heights) + 0.18) + 0.15))
    if len(panels) <= columns * rows:
        return [list(panels)], 0
    shown = min(len(panels), look().max_pages * columns * rows)
    each = columns * math.ceil(shown / math.ceil(shown / (columns * rows)) / columns)
    parts: list[list[int]] = [[]]
    for family in sorted(_families(panels), key=lambda family: -max(panels[at].tells for at in family)):
        for some in (family[at : at + each] for at in range(0, len(family), each)):
            if len(parts[-1]) + len(some) > each:
                parts.append([])
            parts[-1] += some
    parts = [sorted(part) for part in parts[: look().max_pages]]
    return [[panels[at] for at in part] for part in parts], len(panels) - sum(map(len, parts))


def _families(panels: Sequence[Panel]) -> list[list[int]]:
    """Return the places of the panels of each family; of none each is one."""
    families = groupby(enumerate(panels), lambda each: each[0] if each[1].family is None else each[1].family)
    return [[at for at, _ in family] for _, family in families]


def evenly(items: int, most: int) -> int:
    """Return how many of the items a row holds, at most `most`, if rows are as few and as even as can be."""
    return math.ceil(items / math.ceil(items / most))


def _title(study: Study, spec: FigureSpec, number: tuple[int, int]) -> list[str]:
    if look().for_paper:
        return []
    unfinished = f" (UNFINISHED: {study.unfinished.label})" if study.unfinished else ""
    colon = "" if study.title.endswith(("?", "!", ".", ":")) else ":"
    title = one_line(f"{study.title}{colon} {spec.title}{unfinished}")
    if number[1] > 1:
        title += f" ({number[0]}\xa0of\xa0{number[1]})"  # in one line
    return [line.replace("\xa0", " ") for line in textwrap.wrap(title, int(look().inches / 0.083))]


def _notes(notes: Sequence[str]) -> list[str]:
    if look().for_paper:
        return []
    lines = textwrap.wrap(one_line(" ".join(notes), 4000), int(look().inches / 0.056), break_on_hyphens=False)
    return lines if len(lines) <= _MOST_TEXT else [*lines[:_MOST_TEXT], "..."]


def _legend_columns(legend: Sequence[Artist], width: float) -> tuple[int, int]:
    """Return how many columns of a legend fit side by side, and its lines; labels wider than all of it are wrapped."""
    for handle in legend:
        if 0.6 + 0.058 * len(label := str(handle.get_label())) > width:
            handle.set_label(wrapped(label, width - 0.6))
    labels = [str(handle.get_label()).split("\n") for handle in legend]
    widths = [0.6 + 0.058 * max(map(len, label)) for label in labels]
    fit = (n for n in range(len(widths), 1, -1) if sum(map(max, np.array_split(widths, n))) <= width)
    rows = zip_longest(*np.array_split([len(label) for label in labels], columns := next(fit, 1)), fillvalue=0)
    return columns, sum(map(max, rows))


def _outside(
    study: Study, spec: FigureSpec, notes: Sequence[str], legend: Sequence[Artist], number: tuple[int, int]
) -> tuple[list[str], list[str], int, float, float]:
    """Return the lines of title and notes, the columns of the legend, and what stands above and below in inches."""
    title, text, (beside, rows) = (
        _title(study, spec, number),
        _notes(notes),
        _legend_columns(legend, look().inches - 0.2),
    )
    above = (0.06 + 0.17 * len(title) if title else 0.0) + 0.17 * rows + 0.03
    return title, text, beside, above, 0.06 + 0.13 * len(text) if text else 0.0


def _page(
    study: Study,
    spec: FigureSpec,
    panels: Sequence[Panel],
    size: tuple[float, float, float],
    notes: Sequence[str],
    legend: Sequence[Artist],
    columns: int,
    number: tuple[int, int],
) -> Figure:
    columns = min(columns, len(panels))
    blocks = [panels[at : at + columns] for at in range(0, len(panels), columns)]
    heights = [
        max((panel.height for panel in block), default=0.0) or size[1] for block in blocks for _ in block[0].draws
    ]
    figure = Figure((look().inches, MAX_HEIGHT))
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(heights), columns, squeeze=False)
    row = 0
    for block in blocks:
        for place in range(columns):
            for deep in range(len(block[0].draws)):
                if place < len(block) and deep < len(block[place].draws):
                    block[place].draws[deep](axes[row + deep, place])
                else:
                    axes[row + deep, place].set_visible(False)
        row += len(block[0].draws)
    _share(axes)
    inner = min(look().inches, columns * size[0] + size[2])
    inner, legend = _direct(axes, heights, legend, inner, columns * size[0] + _BESIDE)
    title, text, entries, above, below = _outside(study, spec, notes, legend, number)
    if look().for_paper:
        figure.set_figwidth(inner)
    height = _lay_out(figure, axes, heights, inner, above, below)
    wide, at = figure.get_figwidth(), height - 0.04
    for line in title:
        figure.text(0.05 / wide, at / height, line, va="top", size=9, weight="bold")
        at -= 0.17
    if legend:
        anchor = (0.5, (at + 0.02) / height)
        figure.legend(
            handles=list(legend),
            loc="upper center",
            bbox_to_anchor=anchor,
            ncols=entries,
            borderpad=0.1,
            handlelength=2.4,
            columnspacing=1.2,
            labelspacing=0.3,
        )
    at = below - 0.03
    for line in text:
        figure.text(0.05 / wide, at / height, line, va="top", size=7, color=GRAY)
        at -= 0.13
    return figure


def _share(axes: Any) -> None:
    """Leave labels out where the panel to the left says the same, or all panels of a row what the next row does."""

    def ticks(axis: Axis) -> list[str]:
        # Asked of the formatter: labels of an axis are laid out anew each time they are read.
        return axis.get_major_formatter().format_ticks(list(axis.get_majorticklocs()))

    def along_x(ax: Axes) -> tuple[Any, ...]:
        below = [text.get_text() for text in ax.texts if text.get_gid() == BELOW]
        more = [(ticks(child.xaxis), child.get_xlabel()) for child in ax.child_axes]
        return ax.get_xlim(), ax.get_xscale(), ticks(ax.xaxis), ax.get_xlabel(), below, more

    def along_y(ax: Axes) -> tuple[Any, ...]:
        return ax.get_ylim(), ticks(ax.yaxis), ax.get_ylabel()

    for row, next_row in pairwise(axes):
        pairs = [(ax, below) for ax, below in zip(row, next_row, strict=True) if ax.get_visible()]
        if not all(below.get_visible() and along_x(ax) == along_x(below) for ax, below in pairs):
            continue
        for ax, _ in pairs:
            ax.tick_params(labelbottom=False, labeltop=False)
            ax.set_xlabel("")
            for child in ax.child_axes:
                child.set_visible(False)
            for text in [text for text in ax.texts if text.get_gid() == BELOW]:
                text.remove()
    for row in axes:
        shown = [ax for ax in row if ax.get_visible()]
        said = [along_y(ax) for ax in shown]
        for ax, mine, left in zip(shown[1:], said[1:], said, strict=False):
            if mine == left:
                ax.tick_params(labelleft=False)
            if mine[2] == left[2]:
                ax.set_ylabel("")


def _direct(
    axes: Any, heights: Sequence[float], legend: Sequence[Artist], inner: float, least: float
) -> tuple[float, Sequence[Artist]]:
    """Name lines at their ends instead of in the legend, if there is room; return the width, and the legend's rest."""
    lines = [each for each in legend if isinstance(each, Line2D) and "None" not in (each.get_marker(), _dash(each))]
    if len(lines) < 2 or len(lines) < len(legend):
        return inner, legend
    names = {handle.get_color(): wrapped(str(handle.get_label()), _NAME) for handle in lines}
    wide = 0.1 + 0.064 * max(len(line) for name in names.values() for line in name.split("\n"))
    if max(inner * (1 - _NARROWER), least) + wide > look().inches:
        return inner, legend
    ax = [ax for ax in axes[0] if ax.get_visible()][-1]
    high = {color: 0.13 * (name.count("\n") + 1) / heights[0] for color, name in names.items()}
    if (places := _ends(ax, high)) is None:
        return inner, legend
    for color, y in places.items():
        beside = {"xytext": (4, 0), "textcoords": "offset points", "va": "center", "color": color}
        ax.annotate(names[color], (1, y), xycoords="axes fraction", **beside)
    return min(look().inches, inner + wide), []


def _dash(line: Line2D) -> str:
    return str(line.get_linestyle())


def _ends(ax: Axes, high: Mapping[Any, float]) -> dict[Any, float] | None:
    """Return where names of lines stand beside a panel, by color, in parts of its height; None if they collide."""
    ends = {}
    for color in high:
        drawn = (line for line in ax.lines if line.get_color() == color and _dash(line) != "None")
        line = next((line for line in drawn if len(np.atleast_1d(line.get_xdata())) > 1), None)
        if line is None:
            return None
        last = np.asarray(line.get_xydata(), dtype=float)[-1]
        x, y = ax.transAxes.inverted().transform(ax.transData.transform(last))
        if not (x > 0.65 and -0.05 < y < 1.05):
            return None
        ends[color] = float(y)
    places: dict[Any, float] = {}
    above = -1.0
    for color in sorted(ends, key=lambda color: ends[color]):
        places[color] = max(ends[color], above + high[color] / 2)
        above = places[color] + high[color] / 2
    return places if all(places[color] - ends[color] < 0.07 for color in places) else None


BELOW = "below"  # the gid of texts under a panel


def _lay_out(figure: Figure, axes: Any, heights: Sequence[float], inner: float, above: float, below: float) -> float:
    """Give the panels the heights in inches, or less if they would outgrow the page; return the figure's height.

    What stands around each panel is measured once: constrained layout would do it four times.
    """
    room, dpi = np.zeros((4, *axes.shape)), figure.dpi  # left, right, above and below each panel, in inches
    place = partial(_place, figure, axes, heights, inner, (above, below))
    place(room + 0.25)  # about the final size, which the numbers of ticks follow
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    labels: dict[tuple[int, int], list[tuple[Axis, float, tuple[int, int, int]]]] = {}  # by side of `room` and line
    for row, column in np.ndindex(axes.shape):
        if not (ax := axes[row, column]).get_visible():
            continue
        inside = (text for text in ax.texts if text.get_transform() == ax.transData)
        for mark in (*ax.lines, *ax.collections, *ax.patches, *ax.spines.values(), *inside):
            mark.set_in_layout(False)
        box = ax.get_position(original=True).transformed(figure.transSubfigure)
        around = ax.get_tightbbox(renderer, for_layout_only=True)
        room[:, row, column] = box.x0 - around.x0, around.x1 - box.x1, around.y1 - box.y1, box.y0 - around.y0
        for side, axis, line, edge in ((0, ax.yaxis, column, box.x0), (3, ax.xaxis, row, box.y0)):
            if axis.get_label_text():
                away = axis.label.get_position()[side // 3] - edge
                labels.setdefault((side, line), []).append((axis, away, (side, row, column)))
    for (side, _), found in labels.items():
        # One place for the labels of a row or a column; else each drawing measures their ticks again.
        farthest = min(away for _, away, _ in found)
        for axis, away, around_it in found:
            room[around_it] += away - farthest
            (x, y), (across, up) = ((farthest, 0.0), (0, 0.5)) if side == 0 else ((0.0, farthest), (0.5, 0))
            moved = axis.axes.transAxes + ScaledTranslation(x / dpi, y / dpi, figure.dpi_scale_trans)
            axis.set_label_coords(across, up, transform=moved)
    return place(np.maximum(room / dpi, 0))


def _place(
    figure: Figure, axes: Any, heights: Sequence[float], inner: float, outside: tuple[float, float], room: Any
) -> float:
    """Place the panels with `room` around each, set the figure's height, and return it; all in inches."""
    left, right = room[0].max(axis=0) + _PAD, room[1].max(axis=0) + _PAD
    up, down = room[2].max(axis=1) + _PAD, room[3].max(axis=1) + _PAD
    taken = float(sum(up) + sum(down)) + sum(outside)
    height, wide = round(min(MAX_HEIGHT, taken + sum(heights)), 2), figure.get_figwidth()
    figure.set_figheight(height)
    width = (inner - sum(left) - sum(right)) / axes.shape[1]
    top = height - outside[0]
    for row, high in enumerate(heights):
        high *= (height - taken) / sum(heights)
        top -= up[row]
        at = (wide - inner) / 2
        for column, ax in enumerate(axes[row]):
            at += left[column]
            # The last digits that are measured are not the same twice.
            x, y, across, tall = at / wide, (top - high) / height, width / wide, high / height
            ax.set_position((round(x, 4), round(y, 4), round(across, 4), round(tall, 4)))
            at += width + right[column]
        top -= high + down[row]
    return height


def empty(study: Study, spec: FigureSpec, why: str) -> list[Figure]:
    """Return a figure that says in words why there is nothing to draw."""

    def draw(ax: Axes) -> None:
        ax.set_axis_off()
        ax.text(0.5, 0.5, wrapped(why, look().inches - 1), ha="center", va="center", size=9)

    return pages(study, spec, [Panel([draw])], (look().inches - 1, 0.8), [why], [])


# Words


def heading(by: Sequence[str], key: Sequence[Any], width: float, only: Sequence[str] | None = None) -> str:
    """Return the values of the axes `by`, or `only` of these, as a panel's title, wrapped to its width in inches."""
    named = [(axis, value) for axis, value in zip(by, key, strict=True) if only is None or axis in only]
    return wrapped(words([axis for axis, _ in named], [value for _, value in named]), width, 12)


def wrapped(text: str, width: float, least: int = 6) -> str:
    """Return a text in lines of a width in inches, at least `least` characters; long names break at their joints."""
    most = max(least, int(width / 0.064))
    lines = textwrap.wrap(one_line(text), most, break_on_hyphens=False, break_long_words=False)
    return "\n".join(part for line in lines for part in _parts(line, most))


def _parts(line: str, most: int) -> list[str]:
    """Return a line, broken where its names have joints if it is longer than `most` characters."""
    parts = [""]
    for piece in _JOINTS.findall(line):
        if parts[-1] and len(parts[-1] + piece) > most:
            parts.append("")
        parts[-1] += piece
    if len(line) <= most:
        return [line]
    kept = ([part] if len(part) <= most + _OVER else textwrap.wrap(part, most) for part in parts if part)
    return [shorter for pieces in kept for shorter in pieces]


def words(by: Sequence[str], key: Sequence[Any], plain: Sequence[str] = ("model",)) -> str:
    """Return the values of axes in words, those of `plain` alone; who would play where nobody does is left out."""
    pairs = telling_axes(dict(zip(by, key, strict=True))).items()
    return ", ".join(str(value) if axis in plain else f"{axis}={value}" for axis, value in pairs)


def axis_label(study: Study, axis: str | None) -> str:
    """Return what stands along an axis of a study, in words."""
    roles = study.game.roles
    named = {"n": "agents (n)", "b": f"{roles[-1].capitalize()} agents (b)", None: ""}
    return named.get(axis, str(axis))
