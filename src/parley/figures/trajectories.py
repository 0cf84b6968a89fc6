"""Figures of single simulations: each agent's value over the rounds, for a few simulations unlike each other."""

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from parley.figures.page import FEW_PANELS, Panel, evenly, heading, pages, panel_width, per_row, words, wrapped
from parley.figures.style import HEIGHT, line_handle, line_style, look
from parley.games.evidence import FigureSpec, Trajectory
from parley.paths import single_link
from parley.play.record import read_summary, read_trace
from parley.study import Study
from parley.study.condition import Simulation
from parley.text import one_line

_WIDTH = 1.3  # inches, of a panel


def trajectories(study: Study, spec: FigureSpec) -> list[Figure]:
    """Draw one panel per chosen simulation, a row for each value of `spec.x`: every agent's value, round by round."""
    chosen, notes = few(study, spec, FEW_PANELS)
    rows = _rows(spec.x, chosen)
    columns = evenly(max(len(row) for row in rows), per_row(_WIDTH))
    titles = titles_of(study, chosen, panel_width(columns, _WIDTH), apart=spec.x)
    played = [study.game.evidence.trajectory(*read_played(study, simulation)) for simulation in chosen]
    notes.append("Lines are shifted slightly up or down so that equal values stay visible.")
    low, high = _range(played)

    def panel(ax: Axes, trajectory: Trajectory, simulation: Simulation, title: str) -> None:
        draw(ax, trajectory, low, high)
        ax.set_title(title, size=7, url=game_link(simulation))
        value = simulation.condition.axes.get(spec.x)
        ax.set_ylabel("value" if len(rows) < 2 else f"{wrapped(words([spec.x], [value]), HEIGHT + 0.4)}\nvalue")

    panels = []
    for row in rows:
        for at in row:
            draws = partial(panel, trajectory=played[at], simulation=chosen[at], title=titles[at])
            panels.append(Panel([draws], 0.0, titles[at].count("\n") + 1))
        panels += [Panel([])] * (-len(row) % columns)
    return pages(study, spec, panels, (_WIDTH, HEIGHT), notes, _trajectory_legend(played), columns)


def _rows(axis: str, chosen: Sequence[Simulation]) -> list[list[int]]:
    rows: dict[Any, list[int]] = {}
    for number, simulation in enumerate(chosen):
        rows.setdefault(simulation.condition.axes.get(axis), []).append(number)
    return list(rows.values())


def few(study: Study, spec: FigureSpec, most: int, attacked: bool = False) -> tuple[list[Simulation], list[str]]:
    """Return the simulations of a figure, those that the study names, else up to `most`; and notes on the choice."""
    axes, everything = study.axes, list(study.simulations())
    shown_in = {condition.name for condition in study.shown_in(spec)}
    # Those it shows may all have been left out as damaged.
    simulations = [s for s in everything if s.condition.name in shown_in] or everything
    named = study.named_for(spec.name, some_left_out=True)
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


def titles_of(study: Study, chosen: Sequence[Simulation], width: float, apart: str = "") -> list[str]:
    """Return the titles of simulations, for panels of a width in inches, which do not name the axis `apart`."""
    named_axes = [axis for axis in _varying(study, chosen) if axis != apart]
    labels = {outcome.name: outcome.label for outcome in study.game.outcomes}
    titles = []
    for simulation in chosen:
        outcome = read_summary(simulation.record(study.name)).outcome
        ending = study.game.class_of(outcome["name"], outcome["detail"])
        detail = f" ({outcome['detail']})" if outcome["detail"] not in (None, ending) else ""
        ended = f"seed {simulation.seed}: {labels[ending]}{detail}, rounds={outcome['rounds']}"
        where = heading(named_axes, [simulation.condition.axes[axis] for axis in named_axes], width)
        titles.append("\n".join(filter(None, [where, textwrap.fill(one_line(ended), int(width / 0.056))])))
    return titles


def game_link(simulation: Simulation) -> str | None:
    """Return the address of one simulation; None in figures for a paper."""
    return None if look().for_paper else single_link(simulation.id)


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


def _range(drawn: Sequence[Trajectory]) -> tuple[float, float]:
    values = [value for t in drawn for points in t.series.values() for _, value in points]
    values += [edge for t in drawn if t.band for edge in t.band]
    return (min(values), max(values)) if values else (0.0, 1.0)


def draw(ax: Axes, trajectory: Trajectory, low: float, high: float) -> None:
    """Draw one simulation into a panel whose values go from `low` to `high`."""
    span = (high - low) or 1.0
    ax.set_ylim(low - 0.08 * span, high + 0.08 * span)
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    ax.set_xlabel("round")
    if trajectory.band:
        ax.axhspan(*trajectory.band, facecolor="#EFEFEF", edgecolor="none", zorder=0)
        for edge in trajectory.band:
            ax.axhline(edge, color="#8C8C8C", linewidth=0.8, zorder=0.5)
    if trajectory.stopped is not None:
        ax.axvline(trajectory.stopped, color="black", linewidth=1.6, zorder=1)
    if not any(trajectory.series.values()):
        ax.text(0.5, 0.5, "no values", transform=ax.transAxes, ha="center", va="center")
    last = max((x for points in trajectory.series.values() for x, _ in points), default=1)
    every = max(1, round(last / 10))
    shown = [name for name in trajectory.series if name in trajectory.highlighted]
    shift = min(0.005, 0.03 / max(1, len(shown))) * span
    for name, points in trajectory.series.items():
        xs, ys = [x for x, _ in points], [y for _, y in points]
        if name not in trajectory.highlighted:
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


def _trajectory_legend(drawn: Sequence[Trajectory]) -> list[Artist]:
    first, second = drawn[0].labels if drawn else ("agents", "others")
    legend: list[Artist] = [line_handle(0, f"{first}, one line each")]
    if any(name not in t.highlighted for t in drawn for name in t.series):
        legend.append(Line2D([], [], label=second, **_OTHER))
    if any(t.band for t in drawn):
        legend.append(Patch(facecolor="#EFEFEF", edgecolor="#8C8C8C", label="initial range"))
    if any(t.stopped is not None for t in drawn):
        legend.append(
            Line2D([], [], color="black", linewidth=1.6, marker="|", linestyle="none", markersize=9, label="stop")
        )
    return legend
