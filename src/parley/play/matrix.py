"""A game as a matrix of agents by rounds, from its replies and from what the game says of itself.

What a color means is told by the game's evidence: its timeline, or else its trajectory. A game with neither has its
replies in short, equal ones in one color.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from parley.engine.grammar import json_schema
from parley.games.base import Game, Outcome
from parley.games.evidence import Timeline, Trajectory
from parley.play.runner import Exchange

_PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
_SCALE = ("#3B528B", "#2C728E", "#21918C", "#5EC962", "#FDE725")  # of viridis, from low to high
_SIGNS = "*+^~=#"  # one for each label of marks


@dataclass(frozen=True)
class Cell:
    """What one agent did in one round, as far as it is known; `text` may be a model's own, and is not cleaned.

    `color` is None where the game has not said it. `again` says that a reply was of use only when it was repeated,
    `open` that the agent is being asked. `signs` are those of marks.
    """

    text: str = ""
    color: str | None = None
    failed: bool = False
    again: bool = False
    open: bool = False
    signs: str = ""


@dataclass(frozen=True)
class Row:
    """An agent: its name, what it is called, and whether it stands out."""

    name: str
    label: str
    framed: bool


@dataclass(frozen=True)
class Matrix:
    """A game as far as it was played; the columns are its rounds, as its figures count them.

    `colors` and `signs` say what colors and signs mean, by label; `framed_label` what the rows are that stand out.
    `results` are short texts below the columns, and `results_label` says what they are.
    """

    rows: Sequence[Row]
    cells: Mapping[tuple[str, int], Cell]
    framed_label: str
    colors: Mapping[str, str]
    signs: Mapping[str, str]
    results: Mapping[int, str]
    results_label: str = ""

    @property
    def columns(self) -> list[int]:
        """The rounds."""
        return sorted({number for _, number in self.cells})


@dataclass(frozen=True)
class Told:
    """What a game says of its rounds; `shift` leads from the round of an ask to a column."""

    what: Timeline | Trajectory
    shift: int


def told_of(game: Game, outcome: Outcome, last: int) -> Told | None:
    """Return what a game that is over says of its rounds, the `last` asked round being its last one."""
    found = outcome.as_json()
    trace = found.pop("trace")
    try:
        timeline = game.evidence.timeline(found, trace)
        return Told(timeline, max((number for _, number in timeline.cells), default=last) - last)
    except NotImplementedError:
        pass
    try:
        return Told(game.evidence.trajectory(found, trace), 0)
    except NotImplementedError:
        return None


def parts(exchange: Exchange, decisive: frozenset[str]) -> tuple[list[Any], dict[str, str]]:
    """Return what a reply that could be read decides, the `decisive` texts among it, and its other texts by name."""
    if exchange.reply.value is None:
        return [], {}
    properties = json_schema(exchange.ask.reply_model)["properties"]
    fields = exchange.reply.value.model_dump(exclude_unset=True)
    texts = {key: value for key, value in fields.items() if "maxLength" in properties[key] and key not in decisive}
    return [value for key, value in fields.items() if key not in texts], texts


def matrix(
    rows: Sequence[Row], framed_label: str, cells: Mapping[tuple[str, int], Cell], told: Told | None, until: float
) -> Matrix:
    """Return the matrix of a game; `cells` are of its replies, by agent and asked round.

    `told` counts for the asked rounds before `until` alone.
    """
    if told is None:
        colors = _of_values(cell.text for cell in cells.values() if not cell.open)
        colored = {key: replace(cell, color=colors.get(cell.text)) for key, cell in cells.items()}
        return Matrix(rows, colored, framed_label, colors, {}, {})
    placed = {(name, number + told.shift): cell for (name, number), cell in cells.items()}
    plain = Matrix(rows, placed, framed_label, {}, {}, {})
    if isinstance(told.what, Timeline):
        return _by_timeline(plain, told.what, until + told.shift)
    return _by_trajectory(plain, told.what, until)


def _of_values(values: Iterable[str]) -> dict[str, str]:
    """Return a color for each of the first few values."""
    found = dict.fromkeys(value for value in values if value)
    return dict(zip(found, _PALETTE, strict=False))


def _by_timeline(plain: Matrix, timeline: Timeline, until: float) -> Matrix:
    """Return the matrix with the states, words, marks and results of a timeline, as far as it was played."""
    states = {state.name: state for state in timeline.states}
    signs = dict(zip(dict.fromkeys(mark.label for mark in timeline.marks), _SIGNS, strict=False))
    cells, used = dict(plain.cells), set()
    for (name, number), told in timeline.cells.items():
        if number < until:
            state, said = states[told.state], cells.get((name, number), Cell())
            used.add(state.name)
            cells[name, number] = replace(said, text=told.text or state.name, color=state.color)
    for mark in timeline.marks:
        if mark.round < until and mark.label in signs:
            cell = cells.get((mark.agent, mark.round), Cell())
            cells[mark.agent, mark.round] = replace(cell, signs=cell.signs + signs[mark.label])
    seen = {sign for cell in cells.values() for sign in cell.signs}
    # Whom the game does not tell apart, roles do.
    framed = timeline.framed or {row.name for row in plain.rows if row.framed}
    rows = [Row(name, label, name in framed) for name, label in timeline.agents.items()]
    return Matrix(
        rows=sorted(rows, key=lambda row: row.framed),
        cells=cells,
        framed_label=timeline.framed_label if timeline.framed else plain.framed_label,
        colors={state.label: state.color for state in timeline.states if state.name in used},
        signs={label: sign for label, sign in signs.items() if sign in seen},
        results={number: text for number, text in timeline.results.items() if number < until},
        results_label=timeline.results_label,
    )


def _by_trajectory(plain: Matrix, lines: Trajectory, until: float) -> Matrix:
    """Return the matrix with a color for each value of a trajectory, from the least to the greatest."""
    values = {(name, number): value for name, line in lines.series.items() for number, value in line if number < until}
    low, high = min(values.values(), default=0), max(values.values(), default=0)
    cells = dict(plain.cells)
    for key, value in values.items():
        said = cells.get(key, Cell())
        cells[key] = replace(said, text=said.text or f"{value:g}", color=_on_scale(value, low, high))
    ends = {f"{value:g}": _on_scale(value, low, high) for value in (low, (low + high) / 2, high)} if values else {}
    return replace(plain, cells=cells, colors=ends)


def _on_scale(value: float, low: float, high: float) -> str:
    """Return the color of a value between two: exact at the steps of the scale, mixed between them."""
    place = (value - low) / (high - low) * (len(_SCALE) - 1) if high > low else (len(_SCALE) - 1) / 2
    below = min(int(place), len(_SCALE) - 2)
    pairs = [(int(_SCALE[below][at : at + 2], 16), int(_SCALE[below + 1][at : at + 2], 16)) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(a + (b - a) * (place - below)):02X}" for a, b in pairs)
