"""Figures of a few single simulations, unlike each other: trajectories and timelines.

Trajectories are each agent's value over the rounds. Timelines are tables: what an agent did in a round is a color with
a hatch, what it said, made one printable line and cut to what fits, stands in the cell.
"""

import textwrap
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator
from rich.cells import cell_len, chop_cells

from parley.figures.page import FEW_PANELS, Panel, heading, pages, panel_width, per_row, words
from parley.figures.style import HEIGHT, line_handle, line_style, look
from parley.games.evidence import FigureSpec, Timeline
from parley.paths import single_link
from parley.play.record import read_summary, read_trace
from parley.study import Study
from parley.study.condition import Simulation
from parley.text import by_number, one_line

_WIDTH = 1.3  # inches, of a panel


@dataclass(frozen=True)
class _Lines:
    """The values of a simulation: each agent's (round, value) points, who stands out, and the round of its stop.

    `band` is from the lowest to the highest value that the others began with.
    """

    series: Mapping[str, Sequence[tuple[int, float]]]
    framed: frozenset[str]
    framed_label: str
    band: tuple[float, float] | None
    stopped: int | None


def _lines(study: Study, outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]) -> _Lines:
    timeline = study.game.evidence.timeline(outcome, trace)
    series: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for name, number in sorted(timeline.cells, key=lambda place: (by_number(place[0]), place[1])):
        if (value := timeline.cells[name, number].value) is not None:
            series[name].append((number, value))
    first = [points[0][1] for name, points in series.items() if name not in timeline.framed and points[0][0] == 0]
    band = (min(first), max(first)) if first else None
    stopped = outcome["rounds"] if outcome["finished_early"] else None
    return _Lines(series, timeline.framed, timeline.framed_label, band, stopped)


def trajectories(study: Study, spec: FigureSpec) -> list[Figure]:
    """Draw one panel per chosen simulation, a row for each value of `spec.x`: every agent's value, round by round."""
    chosen, notes = few(study, spec, FEW_PANELS)
    values = [simulation.condition.axes.get(spec.x) for simulation in chosen]
    order = sorted(range(len(chosen)), key=lambda place: values.index(values[place]))
    chosen = [chosen[place] for place in order]  # one value of x after the other
    columns = _columns([*Counter(map(values.index, values)).values()])
    played = [_lines(study, *read_played(study, simulation)) for simulation in chosen]
    notes.append("Lines are shifted slightly up or down so that equal values stay visible.")
    low, high = _range(played)

    draws = [partial(_draw_lines, lines=lines, low=low, high=high) for lines in played]
    panels = panels_of(study, chosen, draws, panel_width(columns or len(chosen), _WIDTH))
    return pages(study, spec, panels, (_WIDTH, HEIGHT), notes, _legend(study.game.roles[0], played), columns)


def _columns(sizes: Sequence[int]) -> int:
    """Return how many panels a row has, so that none has two values of x; 0 where they are not that many alike."""
    fitting = [n for n in range(2, per_row(_WIDTH) + 1) if all(size % n == 0 for size in sizes)]
    return max(fitting, default=0) if len(sizes) > 1 else 0


def few(study: Study, spec: FigureSpec, most: int, attacked: bool = False) -> tuple[list[Simulation], list[str]]:
    """Return the simulations of a figure, those that the study names, else up to `most`; and notes on the choice."""
    axes, everything = study.axes, list(study.simulations())
    shown_in = {condition.name for condition in study.shown_in(spec)}
    # Those it shows may all have been left out as damaged.
    simulations = [s for s in everything if s.condition.name in shown_in] or everything
    named = study.named_for(spec.name)
    disturbed = [s for s in simulations if s.condition.count(study.game.roles[-1])] if attacked else []
    chosen = named or choose(disturbed or simulations, axes, most)
    shown = len({simulation.condition.name for simulation in chosen})
    each = len(chosen) // shown
    of = len({simulation.condition.name for simulation in simulations})
    how = f"the lowest {f'{each} seeds' if each > 1 else 'seed'} of {shown} of {of} conditions"
    how = "those that the study names" if named else f"{how}, however they ended"
    fixed = [axis for axis in axes if axis not in _varying(study, chosen)]
    common = f" In all: {words(fixed, [chosen[0].condition.axes[axis] for axis in fixed])}." if fixed else ""
    return chosen, [f"{len(chosen)} of {len(simulations)} simulations shown: {how}.{common}"]


def _varying(study: Study, chosen: Sequence[Simulation]) -> list[str]:
    return [axis for axis in study.axes if len({simulation.condition.axes[axis] for simulation in chosen}) > 1]


def panels_of(
    study: Study,
    chosen: Sequence[Simulation],
    draws: Sequence[Callable[[Axes], None]],
    width: float,
    heights: Sequence[float] | None = None,
) -> list[Panel]:
    """Return a panel for each simulation, below a title that leads to it, but for a paper; sizes are in inches."""
    named_axes = _varying(study, chosen)
    labels = {outcome.name: outcome.label for outcome in study.game.outcomes}
    panels = []
    for simulation, draw, height in zip(chosen, draws, heights or [0.0] * len(chosen), strict=True):
        outcome = read_summary(simulation.record(study.name)).outcome
        ending = study.game.class_of(outcome["name"], outcome["detail"])
        detail = f" ({outcome['detail']})" if outcome["detail"] not in (None, ending) else ""
        ended = f"seed {simulation.seed}: {labels[ending]}{detail}, rounds={outcome['rounds']}"
        where = heading(named_axes, [simulation.condition.axes[axis] for axis in named_axes], width)
        title = "\n".join(filter(None, [where, textwrap.fill(one_line(ended), int(width / 0.056))]))
        url = None if look().for_paper else single_link(simulation.id)
        panels.append(Panel([partial(_titled, draw=draw, title=title, url=url)], height))
    return panels


def _titled(ax: Axes, draw: Callable[[Axes], None], title: str, url: str | None) -> None:
    draw(ax)
    ax.set_title(title, size=7, url=url)


def read_played(study: Study, simulation: Simulation) -> tuple[Mapping[str, Any], list[dict[str, Any]]]:
    """Return the outcome and the trace of a simulation; raises RecordError if its record cannot be read."""
    record = simulation.record(study.name)
    return read_summary(record).outcome, read_trace(record)


def choose(simulations: Sequence[Simulation], axes: Sequence[str], most: int = FEW_PANELS) -> list[Simulation]:
    """Return up to `most` simulations, equally many of each condition shown, with the lowest seeds.

    Of many conditions those are shown in which each value of each axis comes up about equally often.
    """
    seeds: dict[str, list[Simulation]] = {}
    for simulation in simulations:
        seeds.setdefault(simulation.condition.name, []).append(simulation)
    rest = {path: found[0].condition.axes for path, found in seeds.items()}
    values = {axis: len({of[axis] for of in rest.values()}) for axis in axes}
    shown: list[str] = []
    times: Counter[tuple[str, str | int | float]] = Counter()
    while rest and len(shown) < most:
        path = min(rest, key=lambda path: sum(times[axis, rest[path][axis]] * values[axis] for axis in axes))
        times.update((axis, rest[path][axis]) for axis in axes)
        shown.append(path)
        del rest[path]
    each = min(most // len(shown), *(len(seeds[path]) for path in shown)) if shown else 0
    lowest = {path: sorted(seeds[path], key=lambda simulation: simulation.seed)[:each] for path in shown}
    return [simulation for path in seeds if path in lowest for simulation in lowest[path]]


def _range(drawn: Sequence[_Lines]) -> tuple[float, float]:
    values = [value for t in drawn for points in t.series.values() for _, value in points]
    values += [edge for t in drawn if t.band for edge in t.band]
    return (min(values), max(values)) if values else (0.0, 1.0)


def _draw_lines(ax: Axes, lines: _Lines, low: float, high: float) -> None:
    """Draw one simulation into a panel whose values go from `low` to `high`."""
    span = (high - low) or 1.0
    ax.set_ylim(low - 0.08 * span, high + 0.08 * span)
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    ax.set_xlabel("round")
    ax.set_ylabel("value")
    if lines.band:
        ax.axhspan(*lines.band, facecolor="#EFEFEF", edgecolor="none", zorder=0)
        for edge in lines.band:
            ax.axhline(edge, color="#8C8C8C", linewidth=0.8, zorder=0.5)
    if lines.stopped is not None:
        ax.axvline(lines.stopped, color="black", linewidth=1.6, zorder=1)
    if not any(lines.series.values()):
        ax.text(0.5, 0.5, "no values", transform=ax.transAxes, ha="center", va="center")
    last = max((x for points in lines.series.values() for x, _ in points), default=1)
    every = max(1, round(last / 10))
    shown = [name for name in lines.series if name not in lines.framed]
    shift = min(0.005, 0.03 / max(1, len(shown))) * span
    for name, points in lines.series.items():
        xs, ys = [x for x, _ in points], [y for _, y in points]
        if name in lines.framed:
            ax.plot(xs, ys, **_OTHER, zorder=2)
            continue
        index = shown.index(name)
        moved = [y + (index - (len(shown) - 1) / 2) * shift for y in ys]
        style = line_style(index) | {"markersize": 3.5, "markevery": (index % every, every)}
        ax.plot(xs, moved, **style, zorder=3, clip_on=False)


_OTHER: dict[str, Any] = {
    "color": "#999999",
    "linestyle": (0, (4, 2)),
    "linewidth": 0.6,
}


def _legend(role: str, drawn: Sequence[_Lines]) -> list[Artist]:
    legend: list[Artist] = [line_handle(0, f"{role} agents, one line each")]
    if others := [lines.framed_label for lines in drawn if lines.framed.intersection(lines.series)]:
        legend.append(Line2D([], [], label=f"{others[0]}s", **_OTHER))
    if any(t.band for t in drawn):
        legend.append(Patch(facecolor="#EFEFEF", edgecolor="#8C8C8C", label="initial range"))
    if any(t.stopped is not None for t in drawn):
        legend.append(
            Line2D([], [], color="black", linewidth=1.6, marker="|", linestyle="none", markersize=9, label="stop")
        )
    return legend


# Timelines


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
    notes += _about(drawn, cell)
    legend, looks = legend_of(drawn)
    rows = [len(names_shown(timeline)) for timeline in drawn]
    draw = partial(draw_timeline, width=cell, looks=looks, rounds_are=study.game.evidence.round_name)
    draws = [partial(draw, timeline=each, shape=(high, columns)) for each, high in zip(drawn, rows, strict=True)]
    heights = [_HEIGHT * (high + 1) for high in rows]  # a line for the results
    panels = panels_of(study, chosen, draws, heading, heights)
    return pages(study, spec, panels, (width, max(heights)), notes, legend, columns=beside)


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
    line, most = one_line(text), max(2, int(width / _CHARACTER))
    return line if cell_len(line) <= most else chop_cells(line, most - 1)[0] + _CUT


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


def draw_timeline(
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
    occurring = {cell.state for t in drawn for cell in t.cells.values()}
    states = {state.name: state for t in drawn for state in t.states if state.name in occurring}
    legend: list[Artist] = [
        Patch(facecolor=s.color, hatch=s.hatch, edgecolor=_EDGE, linewidth=0.6, label=s.label) for s in states.values()
    ]
    for label in dict.fromkeys(t.framed_label for t in drawn if t.framed):
        legend.append(Patch(**_FRAME, label=label))
    labels = dict.fromkeys(mark.label for t in drawn for mark in t.marks)
    looks = {label: _MARKS[index % len(_MARKS)] for index, label in enumerate(labels)}
    legend += [Line2D([], [], linestyle="none", marker=looks[label], label=label, **_MARK) for label in labels]
    return legend, looks
