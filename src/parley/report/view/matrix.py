"""One game as a matrix, agents by rounds, from what the game says of itself: a timeline, a trajectory, or its replies.

No game is known here.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from parley.games.evidence import Evidence, State, Trajectory
from parley.report.view.attempts import Attempt
from parley.text import by_number, one_line

FAILED, AGAIN, STOP = "no usable reply", "asked again", "stop"
LEADING = State("leading", "holds the most frequent value", "#56B4E9", "")
OTHER = State("other", "holds another value", "#E69F00", "///")
_MOST = 80  # characters of a reply in a cell
_WORD = 16  # characters of a value that is no free text


@dataclass(frozen=True)
class Cell:
    """What one agent did in one round; `state` is the name of a state, or None."""

    state: str | None = None
    text: str = ""
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Matrix:
    """A game as a table: agents by name with their labels, rounds, and a cell for each that did anything."""

    agents: Mapping[str, str]
    rounds: Sequence[int]
    cells: Mapping[tuple[str, int], Cell]
    states: Sequence[State] = ()
    framed: frozenset[str] = frozenset()
    framed_label: str = ""
    results: Mapping[int, str] = field(default_factory=dict)
    results_label: str = ""


def matrix(
    evidence: Evidence[Any],
    outcome: Mapping[str, Any] | None,
    trace: Sequence[Mapping[str, Any]],
    roles: Mapping[str, str],
    attempts: Sequence[Attempt],
    until: int | None = None,
) -> Matrix:
    """Return a game as a matrix.

    `roles` has the role of each agent by name. What the game does not tell is shown by its replies: all of a trace
    that it cannot read, such as one of another version, or without an `outcome`; and the rounds from `until` on, of a
    game that is still played.
    """
    try:
        said = None if outcome is None else _said(evidence, outcome, trace)
    except Exception:  # noqa: BLE001 (code of the user's own, or a trace of another version)
        said = None
    replies = _by_replies(roles, attempts if said is None or until is not None else ())
    if said is not None and until is not None:
        before = {place: cell for place, cell in said.cells.items() if place[1] < until}
        after = {place: cell for place, cell in replies.cells.items() if place[1] >= until}
        results = {number: text for number, text in said.results.items() if number < until}
        said = replace(said, cells=before | after, rounds=_rounds(before | after), results=results)
    said = said or replies
    if not said.framed:  # whom the game does not tell apart, roles do
        said = replace(said, framed=replies.framed, framed_label=replies.framed_label)
    agents = {**said.agents, **{name: name for name in replies.agents if name not in said.agents}}
    return _with_attempts(replace(said, agents=agents), attempts)


def _said(evidence: Evidence[Any], outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]) -> Matrix | None:
    """Return what the game tells as a timeline, or as a trajectory; None if it tells neither."""
    own = type(evidence)
    if own.timeline is not Evidence.timeline:
        return _timeline(evidence, outcome, trace)
    if own.trajectory is not Evidence.trajectory:
        return _trajectory(evidence.trajectory(outcome, trace))
    return None


def _timeline(evidence: Evidence[Any], outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]) -> Matrix:
    told = evidence.timeline(outcome, trace)
    marks: dict[tuple[str, int], list[str]] = defaultdict(list)
    for mark in told.marks:
        marks[mark.agent, mark.round].append(mark.label)
    cells = {place: Cell(cell.state, cell.text, tuple(marks.get(place, ()))) for place, cell in told.cells.items()} | {
        place: Cell(marks=tuple(labels)) for place, labels in marks.items() if place not in told.cells
    }
    return Matrix(
        agents=dict(told.agents),
        rounds=_rounds(cells),
        cells=cells,
        states=told.states,
        framed=told.framed,
        framed_label=told.framed_label,
        results=dict(told.results),
        results_label=told.results_label,
    )


def _trajectory(told: Trajectory) -> Matrix:
    """Return a matrix of values, colored by whether they are the most frequent of those that matter."""
    by_round: dict[int, dict[str, float]] = defaultdict(dict)
    for name, points in told.series.items():
        for number, value in points:
            by_round[number][name] = value
    cells = {}
    for number, held in by_round.items():
        counts = Counter(value for name, value in held.items() if name in told.highlighted) or Counter(held.values())
        most = max(counts.values())
        for name, value in held.items():
            state = LEADING if counts[value] == most and most > 1 else OTHER
            cells[name, number] = Cell(state.name, f"{value:g}")
    names = sorted(told.series, key=lambda name: (name not in told.highlighted, by_number(name)))
    return Matrix(
        agents={name: name for name in names},
        rounds=_rounds(cells),
        cells=cells,
        states=(LEADING, OTHER),
        framed=frozenset(told.series) - told.highlighted,
        framed_label=told.labels[1],
        results={} if told.stopped is None else {told.stopped: STOP},
    )


def _by_replies(roles: Mapping[str, str], attempts: Sequence[Attempt]) -> Matrix:
    """Return a matrix whose cells have what each agent last replied in each phase.

    Agents of another role than that of the first, which games have honest, stand out.
    """
    ordinary = next(iter(roles.values()), "")
    said: dict[tuple[str, int], dict[str, str]] = defaultdict(dict)
    for attempt in attempts:
        said[attempt.agent, attempt.round][attempt.phase] = reply_text(attempt)
    several = len({attempt.phase for attempt in attempts}) > 1
    cells = {
        place: Cell(text="; ".join(f"{phase}: {text}" if several else text for phase, text in by_phase.items()))
        for place, by_phase in said.items()
    }
    names = sorted(roles, key=lambda name: (roles[name] != ordinary, by_number(name)))
    framed = frozenset(name for name in names if roles[name] != ordinary)
    label = ", ".join(sorted({roles[name] for name in framed}))
    return Matrix({name: name for name in names}, _rounds(cells), cells, framed=framed, framed_label=label)


def reply_text(attempt: Attempt) -> str:
    """Return a reply as a few words, in one line: free text only where there is nothing shorter."""
    if attempt.failure is not None:
        return ""
    if isinstance(attempt.parsed, Mapping):
        short = {name: value for name, value in attempt.parsed.items() if 0 < len(str(value)) <= _MOST}
        short = {name: value for name, value in short.items() if len(str(value)) <= _WORD} or short
        told = [str(value) if len(short) == 1 else f"{name} {value}" for name, value in short.items()]
        return one_line(", ".join(told), _MOST)
    return one_line(attempt.text, _MOST)


def _with_attempts(said: Matrix, attempts: Iterable[Attempt]) -> Matrix:
    """Return a matrix with a mark where an agent had no usable reply, and where it was asked again."""
    last: dict[tuple[str, int, str], Attempt] = {}
    for attempt in attempts:
        last[attempt.agent, attempt.round, attempt.phase] = attempt
    marks: dict[tuple[str, int], list[str]] = defaultdict(list)
    for (agent, number, _), attempt in last.items():
        marks[agent, number] += [FAILED] * (attempt.failure is not None) + [AGAIN] * (attempt.attempt > 0)
    cells = dict(said.cells)
    for place, labels in marks.items():
        if labels and place[0] in said.agents:
            cell = cells.get(place, Cell())
            cells[place] = replace(cell, marks=(*cell.marks, *dict.fromkeys(labels)))
    asked = {number for _, number in marks}
    return replace(said, cells=cells, rounds=sorted({*said.rounds, *asked}))


def _rounds(cells: Mapping[tuple[str, int], Cell]) -> list[int]:
    return sorted({number for _, number in cells})
