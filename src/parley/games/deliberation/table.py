"""A simulation of the deliberation game as a table: who gave which answer in which turn."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from parley.games.deliberation.state import Round, Value
from parley.games.evidence import Mark, State, Timeline, TimelineCell
from parley.text import by_number

RIGHT, WRONG, LEADING, APART, UNREADABLE, SILENT = "right", "wrong", "leading", "apart", "unreadable", "silent"
_NOTHING = (
    State(UNREADABLE, "answer that could not be read", "#CC79A7", "xxx"),
    State(SILENT, "no usable reply", "#FFFFFF", "xxx"),
)
DEFINITIVE = (State(RIGHT, "right answer", "#56B4E9", ""), State(WRONG, "wrong answer", "#E69F00", "///"), *_NOTHING)
POLICIES = (
    State(LEADING, "the most frequent answer", "#56B4E9", ""),
    State(APART, "another answer", "#E69F00", "///"),
    *_NOTHING,
)


def timeline(right: str | None, trace: Sequence[Round]) -> Timeline:
    """Return the deliberations on a problem, one after the other, as a table; `right` is None where no answer is.

    Who is Byzantine does not stand in the trace.
    """
    names = sorted({name for entry in trace for name in entry["answers"]}, key=by_number)
    cells = {}
    marks = []
    before: Mapping[str, str] = {}
    for entry in trace:
        number = entry["round"]
        states = {name: _state(right, entry, name) for name in entry["answers"]}
        for name, state in states.items():
            cells[name, number] = TimelineCell(state, _text(entry["answers"][name], entry["said"][name]))
            if entry["turn"] and before.get(name) == RIGHT != state:
                marks.append(Mark(name, number, "gives up the right answer"))
            if entry["turn"] and state == RIGHT != before.get(name, RIGHT):
                marks.append(Mark(name, number, "comes to the right answer"))
        before = states
    return Timeline(
        agents={name: name for name in names},
        framed=frozenset(),
        framed_label="",
        cells=cells,
        states=POLICIES if right is None else DEFINITIVE,
        marks=marks,
        results={entry["round"]: _result(entry) for entry in trace},
        results_label="honest agents in the largest agreement",
    )


def _state(right: str | None, entry: Round, name: str) -> str:
    answer = _hashable(entry["answers"][name])
    if answer is None:
        return SILENT if entry["said"][name] is None else UNREADABLE
    if right is not None:
        return RIGHT if answer == right else WRONG
    counts = Counter(_hashable(value) for value in entry["answers"].values() if value is not None)
    return LEADING if counts[answer] > 1 and counts[answer] == max(counts.values()) else APART


def _hashable(value: Value | list[str] | None) -> Value | None:
    return tuple(value) if isinstance(value, list) else value


def _text(answer: Value | None, said: Mapping[str, Any] | None) -> str:
    if answer is None:
        return str(said["answer"]) if said else "–"
    return answer if isinstance(answer, str) else "; ".join(answer)


def _result(entry: Round) -> str:
    """Return how many agree, and what a deliberation came to in its last turn."""
    share = entry["measures"]["participation"]
    told = "–" if share is None else f"{share:.0%}"
    if (verdict := entry.get("verdict")) is None:
        return told
    return f"{told}: {'agreed' if verdict['agreed'] else 'hung'}"
