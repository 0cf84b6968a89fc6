import pytest

from parley.games.evidence import Utterance
from parley.ledger.order import Order, misplaced

P = {"problem": 1}
A, B, C = ("a", "b", "c"), ("a", "b"), ("a", "c")


def order(*deliberations: tuple[str, int, tuple[str, ...], bool]) -> Order:
    found = Order()
    for simulation, session, agents, agreed in deliberations:
        found.add(simulation, session, P, agents, agreed)
    return found


def test_a_hung_problem_is_deliberated_again_by_others_until_they_agree() -> None:
    found = order(("x", 0, A, False), ("x", 1, B, False), ("x", 2, C, True), ("y", 0, A, True))
    assert found.height == 4


def test_an_agreed_problem_is_not_deliberated_again() -> None:
    with pytest.raises(ValueError, match=r"deliberated again after agreement \(block 0\)"):
        order(("x", 0, A, True), ("x", 1, B, True))


@pytest.mark.parametrize("agents", [A, A[::-1]])
def test_those_who_hung_a_problem_do_not_deliberate_it_again(agents: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"deliberated again by the agents that hung it \(block 0\)"):
        order(("x", 0, A, False), ("x", 1, B, False), ("x", 2, agents, True))


def test_the_same_agents_may_deliberate_in_another_simulation() -> None:
    assert order(("x", 0, A, False), ("y", 0, A, False)).height == 2


def test_sessions_count_from_zero_without_gaps() -> None:
    with pytest.raises(ValueError, match="session 1 of its simulation, where session 0 should follow"):
        order(("x", 1, A, True))
    with pytest.raises(ValueError, match="session 2 of its simulation, where session 1 should follow"):
        order(("x", 0, A, False), ("x", 2, B, True))


def test_a_simulation_stands_in_one_place() -> None:
    with pytest.raises(ValueError, match="of a simulation that ended with block 1"):
        order(("x", 0, A, False), ("x", 1, B, True), ("y", 0, A, True), ("x", 2, C, True))


def test_a_simulation_has_one_subject() -> None:
    found = order(("x", 0, A, False))
    with pytest.raises(ValueError, match="about another subject than block 0, of the same simulation"):
        found.add("x", 1, {"problem": 2}, B, True)


def said(*places: tuple[int, str]) -> list[Utterance]:
    return [Utterance(number, agent, {}) for number, agent in places]


@pytest.mark.parametrize(
    ("places", "found"),
    [
        ([], None),
        ([(1, "a"), (1, "b"), (2, "b"), (2, "a"), (5, "a")], None),
        ([(2, "a"), (1, "b")], (1, "goes back from round 2")),
        ([(1, "a"), (1, "b"), (1, "a")], (2, "speaks twice in this round")),
    ],
)
def test_rounds_go_on_and_each_speaks_once_in_one(
    places: list[tuple[int, str]], found: tuple[int, str] | None
) -> None:
    assert misplaced(said(*places)) == found
