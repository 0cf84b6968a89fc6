"""A game as a matrix: what it says of itself, by whatever means it has, and what its replies add."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from parley.games.evidence import Evidence, Trajectory
from parley.play.matrix import AGAIN, FAILED, LEADING, OTHER, STOP, Replied, game_timeline, marks_of, rounds_of

ROLES = {"agent_1": "honest", "agent_10": "honest", "agent_2": "byzantine"}
OUTCOME: Mapping[str, Any] = {"metrics": {}}


class Drawn(Evidence):
    """Tells a trajectory of three agents, one of whom does not matter."""

    def trajectory(self, outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]) -> Trajectory:
        series = {"agent_1": [(0, 5.0), (1, 7.0)], "agent_10": [(0, 6.0), (1, 7.0)], "agent_2": [(1, 2.5)]}
        return Trajectory(series, frozenset(["agent_1", "agent_10"]), ("honest", "liars"), None, 1)


def game(evidence: Evidence[Any]) -> Any:
    seats = [SimpleNamespace(name=name, role=role) for name, role in ROLES.items()]
    return SimpleNamespace(evidence=evidence, roles=("honest", "byzantine"), seats=seats)


def test_a_trajectory_is_a_matrix_of_values_colored_by_agreement() -> None:
    found = game_timeline(game(Drawn()), OUTCOME, [], {})
    assert list(found.agents) == ["agent_1", "agent_10", "agent_2"]  # those that matter first, by number
    cells = {place: (cell.state, cell.text) for place, cell in found.cells.items()}
    assert cells["agent_1", 0] == (OTHER.name, "5")
    assert cells["agent_1", 1] == cells["agent_10", 1] == (LEADING.name, "7")
    assert cells["agent_2", 1] == (OTHER.name, "2.5")
    assert (found.framed, found.framed_label, found.results) == ({"agent_2"}, "liars", {1: STOP})


def test_a_game_that_says_nothing_is_shown_by_its_replies() -> None:
    said = {("agent_1", 1): Replied("7", [AGAIN]), ("agent_2", 1): Replied("", [FAILED, AGAIN])}
    for evidence, outcome in ((Evidence[Any](), OUTCOME), (Drawn(), None)):
        found = game_timeline(game(evidence), outcome, [], said)
        assert {place: cell.text for place, cell in found.cells.items()} == {("agent_1", 1): "7", ("agent_2", 1): ""}
        assert (found.framed, found.framed_label) == ({"agent_2"}, "byzantine")
        assert marks_of(found) == {("agent_1", 1): [AGAIN], ("agent_2", 1): [FAILED, AGAIN]}


def test_of_a_game_that_is_played_its_own_rounds_hold_as_far_as_they_are_whole() -> None:
    said = {("agent_1", number): Replied("said") for number in (0, 1, 2)}
    found = game_timeline(game(Drawn()), OUTCOME, [], said, until=1)
    assert {place: cell.text for place, cell in found.cells.items() if place[0] == "agent_1"} == {
        ("agent_1", 0): "5",
        ("agent_1", 1): "said",
        ("agent_1", 2): "said",
    }
    assert not found.results
    assert rounds_of(found) == [0, 1, 2]
