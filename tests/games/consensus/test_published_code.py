"""`rules: published_code`: what the authors' code does otherwise than the paper says."""

from typing import Any

from parley.games.consensus.parameters import ConsensusParameters
from parley.study.prompt_sent import asked
from support.playing import SILENT, Say, drive, new_consensus
from support.studies import StudyFactory

CODE: dict[str, Any] = {"rules": "published_code"}
GO = "continue"


def test_its_defaults_are_those_of_the_code() -> None:
    code, paper = ConsensusParameters(**CODE), ConsensusParameters()
    assert (code.retries, str(code.stop_threshold), code.history_rounds) == (2, "2/3", 3)
    assert (code.propose, code.vote, code.max_rounds) == (paper.propose, paper.vote, 50)
    assert ConsensusParameters(**CODE, retries=1, history_rounds=2).model_dump(
        include={"retries", "history_rounds"}
    ) == {
        "retries": 1,
        "history_rounds": 2,
    }


def test_it_is_part_of_the_identity_only_where_it_is_set(study_factory: StudyFactory) -> None:
    assert "rules" not in ConsensusParameters().model_dump()
    plain, told, code = (
        study_factory(parameters=parameters).conditions[0].identity
        for parameters in ({}, {"rules": "paper"}, {"rules": "published_code"})
    )
    assert plain == told != code


def test_it_says_66_percent_and_plays_two_thirds() -> None:
    game = new_consensus("hhb", **CODE)
    assert "66%+ of ALL agents" in next(asked(game, 0)).system
    assert "75%+ of ALL agents" in next(asked(new_consensus("hhb", **CODE, stop_threshold=0.75), 0)).system
    few = dict.fromkeys(map(str, range(33)), "stop") | dict.fromkeys(map(str, range(33, 50)), "continue")
    assert not game.protocol.stops(few)  # 33 of 50 are 66%
    assert new_consensus("hhb").protocol.stops(few)


def test_three_rounds_are_shown_whose_reasons_are_cut_at_50_characters() -> None:
    long, whole = "x" * 51, "y" * 50
    played = drive(new_consensus("hhb", **CODE, max_rounds=5), ([Say(1, long), Say(2, whole), 3], GO))
    history = played.ask(5, "propose", 1).user
    assert [f"Round {number}:" in history for number in range(1, 5)] == [False, True, True, True]
    assert history.count(f'1 | Reasoning: "{"x" * 47}..."\n') == 3
    assert history.count(f'2 | Reasoning: "{whole}"\n') == 3
    now = played.ask(5, "vote", 1).user
    assert f'1 | Reasoning: "{long}"' in now  # the proposals of this round are cut at 200, as in the paper's rules


def test_five_notes_are_shown() -> None:
    rounds = [([Say(1, note=f"note {number}"), 2, 3], GO) for number in range(1, 8)]
    notes = [
        drive(new_consensus("hhb", max_rounds=7, **rules), *rounds).ask(7, "propose", 1).user
        for rules in (CODE, {"history_rounds": 3})
    ]
    assert [[f"Round {n}: note {n}" in text for n in range(1, 7)] for text in notes] == [
        [False, True, True, True, True, True],
        [False, False, False, True, True, True],
    ]


def test_a_silent_agents_old_value_is_sent_again() -> None:
    rounds = [([1, SILENT, "abstain"], GO), ([1, SILENT, 9], GO), ([1, 5, Say("abstain", "why")], GO)]
    code = drive(new_consensus("hhb", **CODE, max_rounds=3), *rounds).outcome
    # agent_2 keeps its initial value, 42; a Byzantine agent has none before it proposes.
    assert [list(entry["proposals"].values()) for entry in code.trace] == [[1, 42, None], [1, 42, 9], [1, 5, 9]]
    paper = drive(new_consensus("hhb", max_rounds=3), *rounds).outcome
    assert [list(entry["proposals"].values()) for entry in paper.trace] == [
        [1, None, None],
        [1, None, 9],
        [1, 5, None],
    ]
