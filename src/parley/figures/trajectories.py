"""A figure of a few single simulations, unlike each other: each agent's value over the rounds."""

import textwrap
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from parley.figures.page import Panel, heading, pages, panel_width, per_row, words
from parley.figures.style import HEIGHT, line_handle, line_style, look
from parley.games.evidence import FigureSpec
from parley.paths import single_link
from parley.play.record import read_summary, read_trace
from parley.study import Study
from parley.study.condition import Simulation
from parley.text import by_number, one_line

MAX_PANELS = 8  # single simulations that the figure shows
_WIDTH = 1.3  # inches, of a panel
_OTHER: dict[str, Any] = {"color": "#999999", "linestyle": (0, (4, 2)), "linewidth": 0.6}
_BAND: dict[str, Any] = {"color": "#8C8C8C", "linewidth": 0.8, "zorder": 0.5}
_STOP: dict[str, Any] = {"color": "black", "linewidth": 1.6}


@dataclass(frozen=True)
class _Played:
    """A simulation: how it ended, each agent's (round, value) points, who stands out, and the round of its stop.

    `band` is from the lowest to the highest value that the others began with.
    """

    ended: str
    series: Mapping[str, Sequence[tuple[int, float]]]
    framed: frozenset[str]
    framed_label: str
    band: tuple[float, float] | None
    stopped: int | None


def _played(study: Study, simulation: Simulation) -> _Played:
    """Return a simulation from its record; raises RecordError if that cannot be read."""
    record = simulation.record(study.name)
    outcome = read_summary(record).outcome
    timeline = study.game.evidence.timeline(outcome, read_trace(record))
    series: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for name, number in sorted(timeline.cells, key=lambda place: (by_number(place[0]), place[1])):
        if (value := timeline.cells[name, number].value) is not None:
            series[name].append((number, value))
    first = [points[0][1] for name, points in series.items() if name not in timeline.framed and points[0][0] == 0]
    ending = study.game.class_of(outcome["name"], outcome["detail"])
    label = next(each.label for each in study.game.outcomes if each.name == ending)
    detail = f" ({outcome['detail']})" if outcome["detail"] not in (None, ending) else ""
    return _Played(
        ended=one_line(f"seed {simulation.seed}: {label}{detail}, rounds={outcome['rounds']}"),
        series=series,
        framed=timeline.framed,
        framed_label=timeline.framed_label,
        band=(min(first), max(first)) if first else None,
        stopped=outcome["rounds"] if outcome["finished_early"] else None,
    )


def trajectories(study: Study, spec: FigureSpec) -> list[Figure]:
    """Draw one panel per chosen simulation, a row for each value of `spec.x`: every agent's value, round by round."""
    chosen, notes = _chosen(study, spec)
    values = [simulation.condition.axes.get(spec.x) for simulation in chosen]
    chosen = sorted(chosen, key=lambda simulation: values.index(simulation.condition.axes.get(spec.x)))
    columns = _columns([*Counter(map(values.index, values)).values()])
    played = [_played(study, simulation) for simulation in chosen]
    notes.append("Lines are shifted slightly up or down so that equal values stay visible.")
    shown = [value for each in played for points in each.series.values() for _, value in points]
    shown += [edge for each in played if each.band for edge in each.band]
    low, high = (min(shown), max(shown)) if shown else (0.0, 1.0)
    width = panel_width(columns or len(chosen), _WIDTH)
    varying = _varying(study, chosen)

    def draw(ax: Axes, simulation: Simulation, each: _Played) -> None:
        _draw_lines(ax, each, low, high)
        where = heading(varying, [simulation.condition.axes[axis] for axis in varying], width)
        title = "\n".join(filter(None, [where, textwrap.fill(each.ended, int(width / 0.056))]))
        ax.set_title(title, size=7, url=None if look().for_paper else single_link(simulation.id))

    panels = [Panel([partial(draw, simulation=one, each=each)]) for one, each in zip(chosen, played, strict=True)]
    return pages(study, spec, panels, (_WIDTH, HEIGHT), notes, _legend(study.game.roles[0], played), columns)


def _columns(sizes: Sequence[int]) -> int:
    """Return how many panels a row has, so that none has two values of x; 0 where they are not that many alike."""
    fitting = [n for n in range(2, per_row(_WIDTH) + 1) if all(size % n == 0 for size in sizes)]
    return max(fitting, default=0) if len(sizes) > 1 else 0


def _varying(study: Study, chosen: Sequence[Simulation]) -> list[str]:
    return [axis for axis in study.axes if len({simulation.condition.axes[axis] for simulation in chosen}) > 1]


def _chosen(study: Study, spec: FigureSpec) -> tuple[list[Simulation], list[str]]:
    """Return the simulations of a figure, those that the study names, else a few; and a note on the choice."""
    everything = list(study.simulations())
    shown_in = {condition.name for condition in study.shown_in(spec)}
    # Those it shows may all have been left out as damaged.
    simulations = [s for s in everything if s.condition.name in shown_in] or everything
    named = study.named_for(spec.name)
    chosen = named or choose(simulations, study.axes)
    shown, of = (len({simulation.condition.name for simulation in each}) for each in (chosen, simulations))
    each = len(chosen) // shown
    how = f"the lowest {f'{each} seeds' if each > 1 else 'seed'} of {shown} of {of} conditions, however they ended"
    how = "those that the study names" if named else how
    fixed = [axis for axis in study.axes if axis not in _varying(study, chosen)]
    common = f" In all: {words(fixed, [chosen[0].condition.axes[axis] for axis in fixed])}." if fixed else ""
    return chosen, [f"{len(chosen)} of {len(simulations)} simulations shown: {how}.{common}"]


def choose(simulations: Sequence[Simulation], axes: Sequence[str], most: int = MAX_PANELS) -> list[Simulation]:
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


def _draw_lines(ax: Axes, played: _Played, low: float, high: float) -> None:
    """Draw one simulation into a panel whose values go from `low` to `high`."""
    span = (high - low) or 1.0
    ax.set_ylim(low - 0.08 * span, high + 0.08 * span)
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    ax.set_xlabel("round")
    ax.set_ylabel("value")
    if played.band:
        ax.axhspan(*played.band, facecolor="#EFEFEF", edgecolor="none", zorder=0)
        for edge in played.band:
            ax.axhline(edge, **_BAND)
    if played.stopped is not None:
        ax.axvline(played.stopped, **_STOP, zorder=1)
    if not any(played.series.values()):
        ax.text(0.5, 0.5, "no values", transform=ax.transAxes, ha="center", va="center")
    last = max((x for points in played.series.values() for x, _ in points), default=1)
    every = max(1, round(last / 10))
    shown = [name for name in played.series if name not in played.framed]
    shift = min(0.005, 0.03 / max(1, len(shown))) * span
    for name, points in played.series.items():
        xs, ys = [x for x, _ in points], [y for _, y in points]
        if name in played.framed:
            ax.plot(xs, ys, **_OTHER, zorder=2)
            continue
        index = shown.index(name)
        moved = [y + (index - (len(shown) - 1) / 2) * shift for y in ys]
        style = line_style(index) | {"markersize": 3.5, "markevery": (index % every, every)}
        ax.plot(xs, moved, **style, zorder=3, clip_on=False)


def _legend(role: str, played: Sequence[_Played]) -> list[Artist]:
    legend: list[Artist] = [line_handle(0, f"{role} agents, one line each")]
    if others := [each.framed_label for each in played if each.framed.intersection(each.series)]:
        legend.append(Line2D([], [], label=f"{others[0]}s", **_OTHER))
    if any(each.band for each in played):
        legend.append(Patch(facecolor="#EFEFEF", edgecolor="#8C8C8C", label="initial range"))
    if any(each.stopped is not None for each in played):
        legend.append(Line2D([], [], label="stop", marker="|", linestyle="none", markersize=9, **_STOP))
    return legend
