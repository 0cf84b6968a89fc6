"""A simulation of the deliberation game as a table of answers."""

from parley.games.deliberation.game import DeliberationGame
from parley.games.evidence import Timeline
from support.deliberating import CHOICES, Deliberated, deliberate, new_deliberation

SUNDAYS, BOOKS = CHOICES.options[:2]


def told(played: Deliberated) -> Timeline:
    outcome = played.outcome.as_json()
    return DeliberationGame.evidence.timeline(outcome, outcome["trace"])


def states(timeline: Timeline, number: int) -> list[str]:
    return [timeline.cells[name, number].state for name in timeline.agents]


def test_answers_are_told_apart_by_whether_they_are_right() -> None:
    game = new_deliberation("hhhh", turns=1)
    found = told(deliberate(game, ["18", "17", "many", None], ["17", "18", "18.0", "18"]))
    assert list(found.agents) == ["agent_1", "agent_2", "agent_3", "agent_4"]
    assert states(found, 0) == ["right", "wrong", "unreadable", "silent"]
    assert [found.cells[name, 0].text for name in found.agents] == ["18", "17", "many", "–"]
    assert states(found, 1) == ["wrong", "right", "right", "right"]
    assert {(mark.agent, mark.round, mark.label) for mark in found.marks} == {
        ("agent_1", 1, "gives up the right answer"),
        *((f"agent_{number}", 1, "comes to the right answer") for number in (2, 3, 4)),
    }
    assert found.results[1].endswith(": hung")
    assert {state.name for state in found.states} >= set(states(found, 0))


def test_among_policies_answers_are_told_apart_by_agreement() -> None:
    game = new_deliberation("hhh", problem=CHOICES, turns=1)
    answers = [[SUNDAYS], [SUNDAYS], [BOOKS]]
    found = told(deliberate(game, answers, answers))
    assert states(found, 0) == ["leading", "leading", "apart"]
    assert {state.name for state in found.states} >= set(states(found, 0))
    assert found.cells["agent_3", 0].text.casefold() == BOOKS.casefold()
    assert not found.marks


def test_an_answer_that_nobody_shares_does_not_lead() -> None:
    game = new_deliberation("hhh", problem=CHOICES, turns=1)
    answers = [[option] for option in CHOICES.options]
    assert set(states(told(deliberate(game, answers, answers)), 0)) == {"apart"}
