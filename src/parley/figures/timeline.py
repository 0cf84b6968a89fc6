"""Timelines: a few single simulations as tables, with what each agent said and did in each round.

What an agent did is a color with a hatch, what it said stands in the cell: words may come from a model, so they are
made one printable line and cut to what fits.
"""

import unicodedata
from collections.abc import Sequence
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from parley.figures.page import Panel, pages
from parley.figures.style import look
from parley.figures.trajectories import few, game_link, read_played, titles_of
from parley.games.evidence import FigureSpec, Timeline
from parley.study import Study
from parley.text import one_line

_MAX_PANELS = 4
_MAX_ROUNDS = 15
_MAX_AGENTS = 20
_NARROWEST, _BROADEST, _HEIGHT = 0.3, 0.8, 0.2  # inches, of a cell
_BESIDE = 0.06  # inches of a cell that its word leaves free
_CHARACTER = 0.058  # width of a character in a cell, in inches
_NAMES = 0.8  # inches beside the cells, for the names of the agents
_LONGEST_NAME = 24
_CUT = "…"
_MARKS = "*PXD^"
_MARK: dict[str, Any] = {"color": "black", "markersize": 7.0, "markeredgecolor": "white", "markeredgewidth": 0.5}
_FRAME: dict[str, Any] = {"facecolor": "none", "edgecolor": "black", "linewidth": 2.0}
_EDGE = "#333333"


def timelines(study: Study, spec: FigureSpec) -> list[Figure]:
    """Draw a table for each of a few simulations: a row per agent, a column per round. May raise RecordError."""
    chosen, notes = few(study, spec, _MAX_PANELS, attacked=True)
    drawn = [study.game.evidence.timeline(*read_played(study, simulation)) for simulation in chosen]
    spans = [rounds_shown(timeline) for timeline in drawn]
    columns = max(1, *(len(span) for span in spans))
    longest = max((len(one_line(text)) for text in _texts(drawn)), default=0)
    needed = _CHARACTER * (1 + longest) + _BESIDE  # as far as the page has room
    cell = max(_NARROWEST, min(needed, _BROADEST, (look().inches - 1.1) / columns))
    width = cell * columns
    beside = 2 if 2 * (width + _NAMES) <= look().inches else 1
    # Alone, a heading may reach as far to the left as the names of the agents do, and so to the right.
    heading = max(width, min(width + 1.6 * _NAMES, look().inches - 0.2)) if beside == 1 else width
    titles = titles_of(study, chosen, heading)
    notes += _about(drawn, cell)
    legend, looks = legend_of(drawn)

    panels = []
    for timeline, simulation, title in zip(drawn, chosen, titles, strict=True):
        rows = len(names_shown(timeline))

        def panel(
            ax: Axes, timeline: Timeline = timeline, url: str | None = game_link(simulation), title: str = title
        ) -> None:
            rows = len(names_shown(timeline))
            draw(ax, timeline, (rows, columns), cell, looks, study.game.evidence.round_name)
            ax.set_title(title, size=7, url=url)

        height = _HEIGHT * (rows + 1)  # a line for the results
        panels.append(Panel([panel], float(len(timeline.marks)), title.count("\n") + 1, height))
    highest = max(panel.height for panel in panels)
    return pages(study, spec, panels, (width, highest), notes, legend, columns=beside)


def rounds_shown(timeline: Timeline) -> range:
    """Return the rounds of a timeline that a panel shows: the first ones, or those around its first mark."""
    last = max((number for _, number in timeline.cells), default=0)
    marked = min((mark.round for mark in timeline.marks), default=1)
    most = min(_MAX_ROUNDS, int((look().inches - 1.1) / _NARROWEST))
    start = 1 if marked <= most else max(1, min(marked - 2, last - most + 1))
    return range(start, min(last, start + most - 1) + 1)


def names_shown(timeline: Timeline) -> list[str]:
    """Return the agents that a panel shows: those that stand out, and of the others the first ones, in order."""
    others = [name for name in timeline.agents if name not in timeline.framed]
    framed = [name for name in timeline.agents if name in timeline.framed][:_MAX_AGENTS]
    kept = {*framed, *others[: _MAX_AGENTS - len(framed)]}
    return [name for name in timeline.agents if name in kept]


def fitted(text: str, width: float) -> str:
    """Return a text as one printable line that fits a width in inches; a cut one ends in an ellipsis."""
    line, most = one_line(text), max(1, int(width / _CHARACTER))
    sizes = [2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in line]
    if sum(sizes) <= most:
        return line
    kept = ""
    for letter, size in zip(line, sizes, strict=True):
        most -= size
        if most < 1:
            break
        kept += letter
    return kept + _CUT


def _texts(drawn: Sequence[Timeline]) -> list[str]:
    return [
        t.cells[name, number].text
        for t in drawn
        for name in names_shown(t)
        for number in rounds_shown(t)
        if (name, number) in t.cells
    ]


def _about(drawn: Sequence[Timeline], cell: float) -> list[str]:
    texts = _texts(drawn)
    notes = ["In the cells: what was said."] if any(texts) else []
    if any(len(rounds_shown(t)) < max((number for _, number in t.cells), default=0) for t in drawn):
        most = max(len(rounds_shown(t)) for t in drawn)
        notes.append(f"At most {most} rounds are shown, those of the first mark among them.")
    if any(len(names_shown(t)) < len(t.agents) for t in drawn):
        notes.append(f"At most {_MAX_AGENTS} agents are shown.")
    if any(fitted(text, cell - _BESIDE) != one_line(text) for text in texts):
        notes.append(f"Words that end in {_CUT} are cut; the records hold all.")
    return notes


def draw(
    ax: Axes, timeline: Timeline, shape: tuple[int, int], width: float, looks: dict[str, str], rounds_are: str
) -> None:
    """Draw a simulation into a panel of `shape` agents x rounds, of cells `width` inches wide; `looks` are markers."""
    rows, columns = shape
    names, span = names_shown(timeline), rounds_shown(timeline)
    ax.set_xlim(span.start - 0.5, span.start + columns - 0.5)
    ax.set_ylim(rows + 0.5, -0.5)
    states = {state.name: state for state in timeline.states}
    for (name, number), cell in timeline.cells.items():
        if name in names and number in span:
            state, corner = states[cell.state], (number - 0.5, names.index(name) - 0.5)
            ax.add_patch(
                Rectangle(corner, 1, 1, facecolor=state.color, hatch=state.hatch, edgecolor=_EDGE, linewidth=0.6)
            )
            _write(ax, number, names.index(name), fitted(cell.text, width - _BESIDE), on=state.color)
    for name in timeline.framed.intersection(names):
        corner = (span.start - 0.5, names.index(name) - 0.5)
        ax.add_patch(Rectangle(corner, len(span), 1, **_FRAME, zorder=3, clip_on=False))
    for mark in timeline.marks:
        if mark.agent in names and mark.round in span:
            at = (mark.round + 0.4, names.index(mark.agent) - 0.24)
            ax.plot(*at, marker=looks[mark.label], linestyle="none", zorder=4, clip_on=False, **_MARK)
    for number in span:
        _write(ax, number, len(names), fitted(timeline.results.get(number, ""), width), on="none")
    ax.set_xticks(list(span))
    labels = [*(timeline.agents[name] for name in names), timeline.results_label]
    ax.set_yticks(range(len(names) + 1), [one_line(label, _LONGEST_NAME) for label in labels])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_xlabel(rounds_are)


def _write(ax: Axes, x: float, y: float, text: str, on: str) -> None:
    """Write into a cell, on a ground of its color that keeps hatches off the letters."""
    if text:
        ground = {"facecolor": on, "edgecolor": "none", "pad": 0.6}
        ax.text(x, y, text, ha="center", va="center", size=6.5, zorder=2, bbox=ground)


def legend_of(drawn: Sequence[Timeline]) -> tuple[list[Artist], dict[str, str]]:
    """Return what colors, frames and marks mean, of those that occur, and the marker of each label of marks."""
    found = {cell.state for t in drawn for cell in t.cells.values()}
    states = {state.name: state for t in drawn for state in t.states if state.name in found}
    legend: list[Artist] = [
        Patch(facecolor=s.color, hatch=s.hatch, edgecolor=_EDGE, linewidth=0.6, label=s.label) for s in states.values()
    ]
    for label in dict.fromkeys(t.framed_label for t in drawn if t.framed):
        legend.append(Patch(**_FRAME, label=label))
    labels = dict.fromkeys(mark.label for t in drawn for mark in t.marks)
    looks = {label: _MARKS[index % len(_MARKS)] for index, label in enumerate(labels)}
    legend += [Line2D([], [], linestyle="none", marker=looks[label], label=label, **_MARK) for label in labels]
    return legend, looks
