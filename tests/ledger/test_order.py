import pytest

from parley.games.evidence import Utterance
from parley.ledger.order import Order, misplaced

A, B, C = ("a", "b", "c"), ("a", "b"), ("a", "c")


def order(*deliberations: tuple[str, int, tuple[str, ...], bool], problem: int = 1) -> Order:
    found = Order()
    for simulation, session, agents, agreed in deliberations:
        found.add(simulation, session, {"problem": problem}, agents, agreed)
    return found


def test_a_hung_problem_is_deliberated_again_by_others_until_they_agree() -> None:
    assert order(("x", 0, A, False), ("x", 1, B, False), ("x", 2, C, True), ("y", 0, A, True)).height == 4
    assert order(("x", 0, A, False), ("y", 0, A, False)).height == 2  # the same agents, another simulation


def test_deliberations_that_should_not_have_been_are_refused_with_the_block_before() -> None:
    for deliberations, words in [
        ([("x", 0, A, True), ("x", 1, B, True)], r"again after agreement \(block 0\)"),
        ([("x", 0, A, False), ("x", 1, B, False), ("x", 2, A, True)], r"by the agents that hung it \(block 0\)"),
        ([("x", 0, A, False), ("x", 1, B, False), ("x", 2, A[::-1], True)], r"by the agents that hung it \(block 0\)"),
        ([("x", 1, A, True)], "session 1 .* session 0 should follow"),
        ([("x", 0, A, False), ("x", 2, B, True)], "session 2 .* session 1 should follow"),
        ([("x", 0, A, False), ("x", 1, B, True), ("y", 0, A, True), ("x", 2, C, True)], "ended with block 1"),
    ]:
        with pytest.raises(ValueError, match=words):
            order(*deliberations)
    with pytest.raises(ValueError, match="another subject than block 0"):
        order(("x", 0, A, False)).add("x", 1, {"problem": 2}, B, True)


def test_rounds_go_on_and_each_speaks_once_in_one() -> None:
    for places, found in [
        ([], None),
        ([(1, "a"), (1, "b"), (2, "b"), (2, "a"), (5, "a")], None),
        ([(2, "a"), (1, "b")], (1, "goes back from round 2")),
        ([(1, "a"), (1, "b"), (1, "a")], (2, "speaks twice in this round")),
    ]:
        assert misplaced([Utterance(number, agent, {}) for number, agent in places]) == found, places
