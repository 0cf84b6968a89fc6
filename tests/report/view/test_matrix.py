"""A game as a matrix: what the game tells of itself, by whatever means it has, and what its attempts add."""

from collections.abc import Mapping, Sequence
from typing import Any

from parley.games.evidence import Evidence, Trajectory
from parley.report.view.attempts import Attempt
from parley.report.view.matrix import LEADING, OTHER, STOP, matrix

ROLES = {"agent_1": "honest", "agent_10": "honest", "agent_2": "byzantine"}
OUTCOME: Mapping[str, Any] = {"metrics": {}}


class Drawn(Evidence):
    """Tells a trajectory of three agents, one of whom does not matter."""

    def trajectory(self, outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]) -> Trajectory:
        series = {"agent_1": [(0, 5.0), (1, 7.0)], "agent_10": [(0, 6.0), (1, 7.0)], "agent_2": [(1, 2.5)]}
        return Trajectory(series, frozenset(["agent_1", "agent_10"]), ("honest", "liars"), None, 1)


def attempt(agent: str = "agent_1", number: int = 1, phase: str = "act", **more: Any) -> Attempt:
    plain: dict[str, Any] = {
        **dict.fromkeys(("failure", "failure_detail", "prompt_tokens", "completion_tokens", "reasoning")),
        **{"attempt": 0, "system": "s", "user": "u", "text": "said", "seconds": 0.0, "request_seed": 1},
        **{"temperature": 0.5, "finish_reason": "stop"},
    }
    return Attempt(round=number, phase=phase, agent=agent, **(plain | more))


def test_a_trajectory_is_a_matrix_of_values_colored_by_agreement() -> None:
    found = matrix(Drawn(), OUTCOME, [], ROLES, [])
    assert list(found.agents) == ["agent_1", "agent_10", "agent_2"]  # those that matter first, by number
    cells = {place: (cell.state, cell.text) for place, cell in found.cells.items()}
    assert cells["agent_1", 0] == (OTHER.name, "5")
    assert cells["agent_1", 1] == cells["agent_10", 1] == (LEADING.name, "7")
    assert cells["agent_2", 1] == (OTHER.name, "2.5")
    assert (found.framed, found.framed_label, found.results) == ({"agent_2"}, "liars", {1: STOP})


def test_a_game_that_tells_nothing_is_shown_by_its_replies() -> None:
    said = [
        attempt(parsed={"note": "x" * 90, "value": 3, "sure": True}),
        attempt(phase="vote", parsed={"decision": "stop"}),
        attempt("agent_2", text="plain \u202e words"),
    ]
    found = matrix(Evidence(), OUTCOME, [], ROLES, said)
    assert found.cells["agent_1", 1].text == "act: value 3, sure True; vote: stop"
    assert found.cells["agent_2", 1].text == "act: plain words"
    assert (found.framed, found.framed_label) == ({"agent_2"}, "byzantine")
