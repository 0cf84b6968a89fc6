"""What holds for all deliberations, and what can be none; docs/playthroughs shows how single ones go."""

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.errors import UsageError
from parley.games.base import Game, Group, new_game
from parley.games.deliberation.game import DeliberationGame
from parley.games.deliberation.panels import Panels
from parley.games.deliberation.parameters import DeliberationParameters
from parley.games.deliberation.prompts import PROMPTS
from parley.games.problems.problem import Problem
from parley.play.runner import Play
from support.playthrough import by_hand, simulation_of

POLICIES = ["Ask for orders the day before", "Offer three dishes instead of five", "Give leftovers to a shelter"]


def new(grid: dict[str, Any] | None = None, seed: int = 0, **parameters: Any) -> Game:
    return simulation_of("deliberation", grid or {}, {"reply_format": "json", **parameters}, seed).game()


def played(replies: dict[str, Any], grid: dict[str, Any] | None = None, **parameters: Any) -> Play:
    return by_hand(new(grid, **parameters), replies)


def agents(honest: int, byzantine: int = 0) -> list[Group]:
    return [Group("honest", honest), Group("byzantine", byzantine)]


# What can be played

CANNOT_BE_PLAYED: list[tuple[dict[str, Any], list[Group], str]] = [
    ({}, agents(0, 3), "an honest agent"),
    ({"panel_size": 4}, agents(3), "panel_size: 4"),
    ({"panel_size": 3, "redeliberations": 1}, agents(3), "redeliberations: 1: 1 panels of 3"),
    ({"panel_size": 1, "redeliberations": 2}, agents(2, 4), "redeliberations: 2: 2 panels of 1"),
    ({"topology": "ring"}, agents(2), "a ring needs 3"),
    ({"fewest_honest": 3}, agents(2, 2), "fewest_honest: 3: a panel has 2"),
    ({"fewest_honest": 2, "panel_size": 1}, agents(2, 2), "fewest_honest: 2: a panel has 1"),
    ({"reading": "strict", "problems": "wason"}, agents(3), "reading: strict"),
]
OUT_OF_RANGE: list[dict[str, Any]] = [
    *({"theta": theta} for theta in (0, "3/2", -0.5, "nan")),
    *({"cot_share": "1.01"}, {"turns": -1}, {"redeliberations": 1}, {"hears": "some"}, {"time_limit": 0}),
]


def test_what_cannot_be_played_is_refused() -> None:
    for parameters, groups, named in CANNOT_BE_PLAYED:
        with pytest.raises(UsageError, match=named):
            DeliberationGame.check(DeliberationParameters(**parameters), groups)
    at_the_limit = {"panel_size": 1, "redeliberations": 1, "fewest_honest": 1, "reading": "strict"}
    DeliberationGame.check(DeliberationParameters(**at_the_limit), agents(2, 4))
    for parameters in OUT_OF_RANGE:
        with pytest.raises(ValueError, match=next(iter(parameters))):
            DeliberationParameters(**parameters)


def test_the_threat_model_is_the_papers_whoever_is_malicious() -> None:
    told = [DeliberationGame.threat_model(DeliberationParameters(), agents(3, b)) for b in (0, 2)]
    assert told == ["none", "paper"]


# Who deliberates on what


@settings(max_examples=40)
@given(st.integers(2, 6), st.integers(1, 5), st.integers(1, 3), st.integers(0, 99))
def test_no_panel_is_drawn_twice_and_each_has_an_honest_agent(n: int, size: int, honest: int, seed: int) -> None:
    names = [f"agent_{place + 1}" for place in range(n)]
    size, trusted = min(size, n - 1), set(names[:honest])
    panels = Panels(names, trusted, size, np.random.default_rng(seed))
    drawn = [panels.next() for _ in range(2 if size > 1 else min(2, len(trusted)))]
    assert len({*drawn}) == len(drawn)
    for panel in drawn:
        assert len(panel) == size
        assert trusted & {*panel}
        assert list(panel) == [name for name in names if name in panel]
    assert Panels(names, trusted, n, np.random.default_rng(seed)).next() == tuple(names)


def test_a_share_of_the_agents_answers_first_by_chain_of_thought_whatever_their_role() -> None:
    for share, n, number in ((0, 4, 0), ("1/2", 4, 2), ("1/2", 5, 3), ("1/3", 4, 1), (1, 4, 4)):
        asks = next(new({"n": n}, cot_share=share).play())
        first = [next(iter(ask.reply_model.model_fields)) for ask in asks]
        assert first.count("argument") == number, (share, n)
    chosen = set()
    for seed in range(20):
        parameters = DeliberationParameters(cot_share="1/2", reply_format="json")  # type: ignore[arg-type]
        asks = next(new_game(DeliberationGame, parameters, agents(1, 1), "improve", seed).play())
        chosen |= {ask.role for ask in asks if next(iter(ask.reply_model.model_fields)) == "argument"}
    assert chosen == {"honest", "byzantine"}


def test_the_same_seed_has_the_same_problem_and_target_whoever_plays() -> None:
    for seed in range(5):
        each = (agents(3), agents(5), agents(4, 1))
        games: Any = [new_game(DeliberationGame, DeliberationParameters(), groups, "improve", seed) for groups in each]
        assert len({(game.problem.id, game.target) for game in games}) == 1


def test_a_records_problem_is_played_and_not_drawn_again() -> None:
    eighteen = Problem("eighteen", "number", "What is {target} in {agents}?", "18")
    game: Any = new_game(DeliberationGame, DeliberationParameters(), agents(2), "improve", 0, eighteen.as_json())
    assert game.problem == eighteen
    assert all(eighteen.question in ask.user for ask in next(game.play()))  # its braces are no places
    with pytest.raises(ValueError, match="problem"):
        new_game(DeliberationGame, DeliberationParameters(), agents(2), "improve", 0, {"id": 7})


def test_honest_agents_are_told_neither_the_right_answer_nor_the_target() -> None:
    for seed in range(20):
        parameters = DeliberationParameters(reply_format="json")
        game: Any = new_game(DeliberationGame, parameters, agents(1, 1), "improve", seed)
        for ask in next(game.play()):
            told = [ask.agent[6:], "2"] + ([] if ask.role == "honest" else [game.target])
            assert re.findall(r"-?[\d/]+", ask.system) == told
            assert ask.view.target == (None if ask.role == "honest" else game.target)


# Prompts


def test_every_place_of_every_template_is_filled() -> None:
    for problems in ("arithmetic", "wason", "policies"):
        for prompt in PROMPTS:
            grid = {"n": 2, "b": 1, "prompt": prompt, "byzantine": "llm_stubborn"}
            for exchange in by_hand(new(grid, problems=problems, turns=1, stop_when_unanimous=False)).exchanges:
                assert not re.search(r"\{[a-z]+\}", exchange.ask.system + exchange.ask.user), (problems, prompt)


def test_the_identity_of_a_study_has_the_prompts_of_its_problems_alone() -> None:
    sent = []
    for kind in ("arithmetic", "policies"):
        files = PROMPTS.files("improve", DeliberationParameters.model_validate({"problems": {"kind": kind}}))
        sent.append({path.name for path in files.values() if "reply_templates" not in str(path)})
    users = {f"{task}_user.txt" for task in ("cot", "zero_shot", "reflect_improve")}
    assert sent[0] == {"honest_system.txt", "byzantine_system.txt", *users}
    assert sent[1] == {re.sub("_(system|user)", r"_policies_\1", name) for name in sent[0]}


def test_an_unknown_prompt_is_an_error_that_names_the_known_ones() -> None:
    for wrong in (("none", "honest", "cot"), ("improve", "judge", "cot"), ("improve", "honest", "propose")):
        with pytest.raises(UsageError, match="improve, skeptical; roles: honest, byzantine; phases: cot"):
            PROMPTS.template(*wrong, "user")


def test_policies_can_be_named_in_full_however_short_answers_are() -> None:
    outcome = played({"0 initial": [POLICIES[:1]] * 3}, problems="policies", answer_chars=3, turns=0).outcome
    assert outcome.metrics["consensus"] == ["ask for orders the day before"]
    assert played({"0 initial": ["8.00"] * 3}, answer_chars=3, turns=0, retries=0).outcome.metrics["silent"] == 3


# What is shown of it


def test_series_are_of_the_last_deliberation_and_end_with_it() -> None:
    evidence = DeliberationGame.evidence
    ended = played({"0 initial": ["9", "8", "8"], "1 reflect": ["8"] * 3}, turns=3).outcome.as_json()
    series = evidence.series(ended, ended["trace"])
    assert series["accuracy"] == [(0, pytest.approx(2 / 3)), (1, 1.0)]
    assert (series["wrong_to_right"], series["confidence"]) == ([(1, 1.0)], [])
    assert evidence.last_round(ended, ended["trace"]) == 1
    two = {"0 initial": ["6", "7", "5"], "1 initial": ["8"] * 3}
    again = played(two, turns=0, panel_size=2, redeliberations=1).outcome.as_json()
    assert evidence.series(again, again["trace"])["accuracy"] == [(0, 1.0)]
    apart = [[policy] for policy in POLICIES]
    replies = {"0 initial": [POLICIES[:1], POLICIES[:1], POLICIES[1:2]], "1 reflect": apart}
    graded = played(replies, problems="policies", turns=1).outcome.as_json()
    assert evidence.series(graded, graded["trace"])["confidence"] == [(0, pytest.approx(2 / 3))]


def test_the_transcript_has_every_utterance_of_every_deliberation() -> None:
    apart = ["6", "7", None]
    replies = {"0 initial": apart, "1 reflect": apart, "2 initial": ["8"] * 3}
    outcome = played(replies, turns=1, panel_size=2, redeliberations=1).outcome.as_json()
    sessions = first, second = DeliberationGame.evidence.transcript(outcome, outcome["trace"])
    assert [session.agreed for session in sessions] == [False, True]
    assert [utterance.round for utterance in second.utterances] == [2, 2]
    assert second.utterances[0].content == {"answer": "8", "argument": "This follows from the problem."}
    assert first.agents == tuple(outcome["trace"][0]["answers"])
    spoken = [agent for entry in outcome["trace"][:2] for agent, said in entry["said"].items() if said]
    assert [utterance.agent for utterance in first.utterances] == spoken
    for session in sessions:
        assert session.subject["question"] == "What is 55 / 11 + 33 / 11?"
        assert "answer" not in session.subject


def test_a_timeline_tells_answers_apart_by_whether_they_are_right() -> None:
    replies = {"0 initial": ["8", "9", "many", None], "1 reflect": ["9", "8", "8.0", "8"]}
    outcome = played(replies, {"n": 4}, turns=1).outcome.as_json()
    told = DeliberationGame.evidence.timeline(outcome, outcome["trace"])
    assert list(told.agents) == ["agent_1", "agent_2", "agent_3", "agent_4"]
    cells = [[told.cells[name, turn] for name in told.agents] for turn in (0, 1)]
    states = [[cell.state for cell in each] for each in cells]
    assert states == [["right", "wrong", "unreadable", "silent"], ["wrong", "right", "right", "right"]]
    assert [cell.text for cell in cells[0]] == ["8", "9", "many", "–"]
    assert {(mark.agent, mark.round, mark.label) for mark in told.marks} == {
        ("agent_1", 1, "gives up the right answer"),
        *((f"agent_{number}", 1, "comes to the right answer") for number in (2, 3, 4)),
    }
    assert told.results[1].endswith(": hung")
    assert {state.name for state in told.states} >= {*states[0]}


def test_among_policies_an_answer_leads_that_another_agent_shares() -> None:
    one, two, three = ([policy] for policy in POLICIES)
    for said, states in (([one, one, two], ["leading", "leading", "apart"]), ([one, two, three[:0]], ["apart"] * 2)):
        outcome = played({"0 initial": said}, problems="policies", turns=0).outcome.as_json()
        told = DeliberationGame.evidence.timeline(outcome, outcome["trace"])
        assert [told.cells[name, 0].state for name in told.agents][: len(states)] == states
        assert told.cells["agent_2", 0].text == said[1][0].casefold()
        assert not told.marks
        assert {state.name for state in told.states} >= {*states}
