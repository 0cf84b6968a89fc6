"""Filters around agents that deliberate: whose answers they do not get, and what is refused."""

import json
from typing import Any

import pytest

from parley.errors import UsageError
from parley.games.deliberation.game import DeliberationGame
from parley.games.deliberation.parameters import DeliberationParameters
from parley.games.filters import SCORE
from parley.games.parameters import Group
from parley.play.record import write_record
from parley.play.replay import replay
from parley.play.runner import Play
from parley.policies import Ask
from parley.text.yamlfile import validated
from support.pages import data_of, recorded
from support.playing import play_of
from support.playthrough import by_hand, simulation_of
from support.studies import StudyFactory

WRONG = "agent_4"


def deliberated(answers: list[list[Any]], scores: dict[str, Any] | None = None, **parameters: Any) -> Play:
    """Play four honest agents who answer so in each turn; in turn 1 they may give scores."""
    moves: dict[str, Any] = {f"{turn} {'reflect' if turn else 'initial'}": said for turn, said in enumerate(answers)}
    given = {"turns": len(answers) - 1, "stop_when_unanimous": False, "reply_format": "json", **parameters}
    return by_hand(
        simulation_of("deliberation", {"n": 4}, given).game(), moves | ({f"1 {SCORE}": scores} if scores else {})
    )


def ask_of(play: Play, turn: int, phase: str, agent: str = "agent_1") -> Ask:
    [found] = [x.ask for x in play.exchanges if (x.ask.round, x.ask.phase, x.ask.agent) == (turn, phase, agent)]
    return found


def dropped(play: Play, turn: int, agent: str = "agent_1") -> list[str]:
    return list(play.outcome.trace[turn].get("filtered", {}).get(agent, {}))


@pytest.mark.promise("Each filter drops what its definition says, on games small enough to do by hand.")
def test_who_stands_apart_and_does_not_move_is_not_heard() -> None:
    play = deliberated([["8", "8", "7", "9"], ["8", "8", "8", "9"], ["8", "8", "8", "9"]], filter={"reputation": 1})
    # In turn 1 agents 3 and 4 are as far from the others; the last by number is dropped. Then 3 moved, and 4 did not.
    assert [dropped(play, turn) for turn in (0, 1, 2)] == [[], [WRONG], [WRONG]]
    for turn in (1, 2):
        ask = ask_of(play, turn, "reflect")
        assert f"{WRONG}:" not in ask.user
        assert "agent_3:" in ask.user
        assert list(ask.view.heard) == ["agent_2", "agent_3"]
        assert play.outcome.trace[turn]["heard"]["agent_1"] == ["agent_2", "agent_3"]
    assert dropped(play, 1, WRONG) == ["agent_3"]  # never its own


def test_an_answer_that_cannot_be_read_is_far_from_all_and_silence_is_no_message() -> None:
    play = deliberated([["8", "8", "8", "8 or 9"], ["8"] * 4], filter={"reputation": 1})
    assert dropped(play, 1) == [WRONG]
    play = deliberated([["8", "8", "8", None], ["8"] * 4], filter={"reputation": 2}, retries=0)
    assert dropped(play, 1) == ["agent_3", "agent_2"]
    assert "agent_4: (no answer)" in ask_of(play, 1, "reflect").user


@pytest.mark.promise("Each honest agent scores what it heard in one more question; a failed score drops nobody.")
@pytest.mark.parametrize("reply_format", ["json", "text", "two_steps"])
@pytest.mark.parametrize("problems", ["arithmetic", "policies"])
def test_scores_decide(reply_format: str, problems: str) -> None:
    told = {"agent_2": 9, "agent_3": 0, "agent_4": 9}
    scores = {"agent_1": told, "agent_2": {"raw": "none"}}
    given = {"filter": {"scored": 1}, "problems": problems, "retries": 0, "reply_format": reply_format}
    play = deliberated([[{}] * 4, [{}] * 4], scores, **given)
    assert dropped(play, 1) == ["agent_3"]
    assert dropped(play, 1, "agent_2") == []
    ask = ask_of(play, 1, SCORE)
    texts = " ".join(message["content"] for message in ask.messages)
    assert "agent_2, agent_3, agent_4" in texts
    assert "{" not in texts.replace("{form}", "")
    assert "agent_3:" in texts
    assert "agent_3:" not in "".join(message["content"] for message in ask_of(play, 1, "reflect").messages)


def test_a_silent_agent_is_not_scored_and_scripted_ones_score_by_agreement() -> None:
    play = deliberated([["8", "8", "7", None], ["8"] * 4], filter={"scored": 1}, retries=0)
    given = {x.ask.agent: json.loads(x.entry.text) for x in play.exchanges if x.ask.phase == SCORE}
    assert given["agent_1"] == {"agent_2": 10, "agent_3": 5}
    assert given["agent_2"] == {"agent_1": 10, "agent_3": 5}
    play = deliberated([["8", "8 or 9", "7", "8"], ["8"] * 4], filter={"scored": 1}, retries=0)
    assert dropped(play, 1) == ["agent_2"]


def test_scores_take_time() -> None:
    late = {f"agent_{k}": {"seconds": 30.0} for k in range(1, 5)}
    given: dict[str, Any] = {"filter": {"scored": 1}, "time_limit": 20}
    assert deliberated([["8"] * 4, ["8"] * 4], late, **given).outcome.detail == "time_limit"
    assert deliberated([["8"] * 4, ["8"] * 4], **given).outcome.detail is None


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"filter": {"trim": 1}}, "filter trim needs values that have an order"),
    ({"filter": {"median_of_rounds": 2}}, "filter median_of_rounds needs values that have an order"),
    ({"filter": {"scored": 1}, "hears": "neighbor"}, "use hears: all"),
    ({"filter": {"reputation": 2}, "panel_size": 3}, "3 agents hear 2 others, and none would be left; lower f to 1"),
]


@pytest.mark.parametrize(("parameters", "why"), REFUSED)
def test_what_cannot_be_filtered_is_refused_in_one_line(parameters: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why) as refused:
        DeliberationGame.check(validated(DeliberationParameters, parameters, "parameters"), [Group("honest", 4)])
    assert "\n" not in str(refused.value)


@pytest.mark.promise("A game with a filter replays; the explorer shows who did not hear what.")
@pytest.mark.parametrize("kind", ["reputation", "scored"])
def test_a_filtered_deliberation_replays_and_the_explorer_has_what_was_dropped(
    study_factory: StudyFactory, kind: str
) -> None:
    grid = {"model": "solver", "n": 4, "b": 1, "byzantine": "stubborn", "prompt": "improve"}
    parameters = {"stop_when_unanimous": False, "filter": {kind: 1}}
    study = study_factory(grid, game="deliberation", parameters=parameters)
    [simulation] = study.simulations()
    path = simulation.record("small")
    played = play_of(simulation)
    write_record(path, simulation, played, {})
    assert replay(path).difference is None
    [game] = data_of(recorded(study))
    trace = played.outcome.trace
    assert trace[1]["filtered"]
    for entry in trace[1:]:
        for name, of in entry["filtered"].items():
            said = [f"{peer}: {trace[entry['turn'] - 1]['answers'][peer]}" for peer in of]
            assert game["unheard"][name, entry["round"]] == [(text, "") for text in said]
    honest = {agent["name"] for agent in game["agents"] if agent["role"] == "honest"}
    assert {name for name, _ in game["unheard"]} <= honest
