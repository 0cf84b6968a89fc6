"""A consensus game as a table of values and votes."""

from parley.games.consensus.game import ConsensusGame
from parley.games.evidence import Timeline
from support.playing import INITIAL, SILENT, Played, drive, new_consensus


def told(played: Played) -> Timeline:
    outcome = played.outcome.as_json()
    return ConsensusGame.evidence.timeline(outcome, outcome["trace"])


def test_cells_have_values_colored_by_agreement() -> None:
    votes = ["continue", "stop", "continue", "stop"]
    found = told(drive(new_consensus("hhhb", max_rounds=2), ([20, 20, 7, 9], votes), ([20, 20, SILENT, 20], "stop")))
    texts = {place: cell.text for place, cell in found.cells.items()}
    assert [texts[f"agent_{k}", 0] for k in (1, 2, 3)] == [str(value) for value in INITIAL[:3]]
    assert [texts[f"agent_{k}", 1] for k in (1, 2, 3, 4)] == ["20", "20", "7", "9"]
    assert [found.cells[f"agent_{k}", 1].state for k in (1, 2, 3, 4)] == ["leading", "leading", "apart", "apart"]
    assert (found.cells["agent_3", 2].state, texts["agent_3", 2]) == ("silent", "7")  # it keeps its value
    assert found.cells["agent_4", 2].state == "leading"  # of a Byzantine agent it is what it tells
    assert {state.name for state in found.states} >= {cell.state for cell in found.cells.values()}


def test_votes_and_the_stop_are_marked_and_byzantine_agents_framed() -> None:
    votes = ["continue", "stop", "continue", "stop"]
    found = told(drive(new_consensus("hhhb"), ([20, 20, 20, 9], votes), ([20, 20, 20, 9], "stop")))
    assert {(mark.agent, mark.round) for mark in found.marks} == {
        *(("agent_2", 1), ("agent_4", 1)),
        *((f"agent_{k}", 2) for k in (1, 2, 3, 4)),
    }
    assert found.results == {1: "2", 2: "4: stop"}
    assert (found.framed, list(found.agents)[-1]) == ({"agent_4"}, "agent_4")


def test_values_that_nobody_shares_do_not_lead() -> None:
    found = told(drive(new_consensus("hhh", max_rounds=1), ([1, 2, 3], "continue")))
    assert {cell.state for cell in found.cells.values()} == {"apart"}
