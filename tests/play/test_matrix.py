"""A game as a matrix: what it says of itself, by whatever means it has, and what its replies add."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from parley.games.evidence import Evidence, State, Timeline, TimelineCell
from parley.play.matrix import AGAIN, FAILED, Replied, game_timeline, marks_of, rounds_of

ROLES = {"agent_1": "honest", "agent_10": "honest", "agent_2": "byzantine"}
OUTCOME: Mapping[str, Any] = {"metrics": {}}


class Drawn(Evidence):
    """Tells what one of three agents held, in two rounds."""

    def timeline(self, outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]) -> Timeline:
        cells = {("agent_1", 0): TimelineCell("held", "5"), ("agent_1", 1): TimelineCell("held", "7")}
        states = (State("held", "holds a value", "#56B4E9"),)
        return Timeline({"agent_1": "agent_1"}, frozenset(), "", cells, states, (), {1: "stop"}, "votes")


def game(evidence: Evidence[Any]) -> Any:
    seats = [SimpleNamespace(name=name, role=role) for name, role in ROLES.items()]
    return SimpleNamespace(evidence=evidence, roles=("honest", "byzantine"), seats=seats)


def test_a_game_that_says_nothing_is_shown_by_its_replies() -> None:
    said = {("agent_1", 1): Replied("7", [AGAIN]), ("agent_2", 1): Replied("", [FAILED, AGAIN])}
    for evidence, outcome in ((Evidence[Any](), OUTCOME), (Drawn(), None)):
        found = game_timeline(game(evidence), outcome, [], said)
        assert {place: cell.text for place, cell in found.cells.items()} == {("agent_1", 1): "7", ("agent_2", 1): ""}
        assert (found.framed, found.framed_label) == ({"agent_2"}, "byzantine")
        assert marks_of(found) == {("agent_1", 1): [AGAIN], ("agent_2", 1): [FAILED, AGAIN]}


def test_replies_stand_where_a_game_says_nothing_of_itself() -> None:
    said = {("agent_1", number): Replied("said") for number in (0, 1, 2)}
    found = game_timeline(game(Drawn()), OUTCOME, [], said)
    assert {place: cell.text for place, cell in found.cells.items()} == {
        ("agent_1", 0): "5",
        ("agent_1", 1): "7",
        ("agent_1", 2): "said",
    }
    assert rounds_of(found) == [0, 1, 2]
