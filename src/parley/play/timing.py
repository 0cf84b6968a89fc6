"""How long a simulation took, by phase: telemetry, which is outside of every digest.

A phase of a round is over when its slowest reply is there, so times add up over rounds, not over agents.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from parley.play.journal import Entry

_PLACES = 3  # of a second


def times(entries: Iterable[Entry]) -> dict[str, Any]:
    """Return `phase_seconds`, by phase, and `wall_seconds` of the attempts of one simulation; in s, rounded to ms.

    `phase_seconds` adds, over the rounds, the time of the agent that took longest, all its attempts together: what
    prompting takes when nothing else is waited for. `wall_seconds` adds, over rounds and phases, the time from the
    first question to the last reply; where a simulation went on after a death, that holds the pause, too.
    """
    agents: dict[tuple[str, int], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    spans: dict[tuple[str, int], list[tuple[float, float]]] = defaultdict(list)
    for entry in entries:
        key = (entry.phase, entry.round)
        agents[key][entry.agent] += entry.milliseconds
        spans[key].append((entry.started, entry.started + entry.milliseconds / 1000))
    phases: dict[str, int] = defaultdict(int)
    for (phase, _), taken in agents.items():
        phases[phase] += max(taken.values())
    # A clock that was set back in between could make it negative.
    wall = sum(max(0.0, max(end for _, end in span) - min(start for start, _ in span)) for span in spans.values())
    return {
        "phase_seconds": {phase: round(taken / 1000, _PLACES) for phase, taken in phases.items()},
        "wall_seconds": round(wall, _PLACES),
    }
