"""Data files: every attempt of every game, whatever the game, with each text once, and hostile text as it is."""

import json
from pathlib import Path
from typing import Any

import pytest

from parley.errors import UsageError
from parley.games.evidence import Evidence
from parley.games.registry import GAMES
from parley.play.simulate import simulate
from parley.policies import Ask, Completion
from parley.report.view.chosen import chosen
from parley.report.view.content import part_content
from parley.report.view.matrix import AGAIN, FAILED
from parley.study import Study
from support.answering import record_with_model
from support.answering_in_format import FREELY, Answering
from support.council import CouncilGame
from support.forging import edit, forge
from support.hostile import TEXTS
from support.hunting import HUNTERS
from support.studies import StudyFactory
from support.viewed import data_of


def played(study: Study) -> Study:
    for simulation in study.simulations():
        simulate(study, simulation.record(study.name), [], 0.0)
    return study


class Says:
    """Answers every question with one text."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        return Completion(self._text, "stop", 10, 3)


def test_the_consensus_game_shows_values_votes_and_the_stop(study_factory: StudyFactory) -> None:
    study = played(study_factory({"honest": 3, "b": 1, "byzantine": "random"}, parameters={"max_rounds": 4}))
    [game] = data_of(study)
    assert game["rounds"][0] == 0
    honest = [agent["name"] for agent in game["agents"] if agent["role"] == "honest"]
    assert {name: game["cells"][name, 0][1] for name in honest} == {
        name: str(value) for name, value in game["metrics"]["initial_values"].items()
    }
    [liar] = [agent for agent in game["agents"] if agent["framed"]]
    assert (liar["role"], liar["player"], game["framed_label"]) == ("byzantine", "random", "Byzantine agent")
    assert game["agents"][-1] is liar
    assert liar["hears"] is None  # everyone
    voted = {(row["agent"], row["round"]) for row in game["attempts"] if row["parsed"] == {"decision": "stop"}}
    assert {place for place, cell in game["cells"].items() if "votes to stop" in cell[2]} == voted
    assert game["results"] == {
        str(number): f"{sum(place[1] == number for place in voted)}"
        + (": stop" if number == game["rounds"][-1] and game["outcome"] != "no_consensus" else "")
        for number in game["rounds"][1:]
    }


def test_the_values_in_the_cells_are_those_that_were_proposed(study_factory: StudyFactory) -> None:
    [game] = data_of(played(study_factory({"model": "random", "n": 3}, parameters={"max_rounds": 3})))
    proposed = [row for row in game["attempts"] if row["phase"] == "propose"]
    assert proposed
    for row in proposed:
        assert game["cells"][row["agent"], row["round"]][1] == str(row["parsed"]["value"])


def test_the_stag_hunt_shows_actions_words_and_betrayals(study_factory: StudyFactory) -> None:
    grid = HUNTERS | {"model": "grim_trigger", "b": 1, "prompt": "plain"}
    [game] = data_of(played(study_factory(grid, game="stag_hunt", parameters={"rounds": 4})))
    [liar] = [agent["name"] for agent in game["agents"] if agent["framed"]]
    assert "first betrayal" in game["cells"][liar, 2][2]
    for row in game["attempts"]:
        if row["phase"] == "act":
            assert game["cells"][row["agent"], row["round"]][0] == row["parsed"]["action"]


def test_a_network_is_told_by_agent(study_factory: StudyFactory) -> None:
    study = played(study_factory({"n": 5}, parameters={"max_rounds": 1, "topology": "ring"}))
    [game] = data_of(study)
    assert {len(agent["hears"]) for agent in game["agents"]} == {2}
    by_name = {agent["name"]: agent["hears"] for agent in game["agents"]}
    assert all(name in by_name[peer] for name, peers in by_name.items() for peer in peers)


def test_a_deliberation_shows_answers_by_whether_they_are_right(study_factory: StudyFactory) -> None:
    grid = {"model": "solver", "honest": 3, "b": 1, "byzantine": "stubborn", "prompt": "improve"}
    [game] = data_of(played(study_factory(grid, game="deliberation", parameters={"turns": 2})))
    assert game["round_name"] == "turn"
    assert game["rounds"][0] == 0
    right = game["metrics"]["right_answer"]
    for (_, number), (state, text, _) in game["cells"].items():
        assert (state == "right") == (text == right), number
    assert [agent["role"] for agent in game["agents"] if agent["framed"]] == ["byzantine"]
    assert {row["temperature"] for row in game["attempts"]} == {None}  # scripts have none


def test_an_attempt_has_what_its_record_has(study_factory: StudyFactory) -> None:
    study = study_factory({"model": "tiny"}, parameters={"max_rounds": 2, "retries": 1}, seeds=9)
    for simulation in study.simulations():
        record_with_model(simulation)
    games = data_of(study)
    rows = [row for game in games for row in game["attempts"]]
    assert {row["prompt_tokens"] for row in rows} == {100}
    assert all(row["system"] and row["user"] for row in rows)
    assert {row["temperature"] for row in rows if row["phase"] == "propose"} == {0.5}
    failed = [row for row in rows if row["failure"]]
    assert {(row["failure"], row["parsed"], row["finish_reason"]) for row in failed} == {("length", None, "length")}
    assert any(row["attempt"] == 1 and row["parsed"] for row in rows)
    last = {(n, row["agent"], row["round"], row["phase"]): row for n, g in enumerate(games) for row in g["attempts"]}
    unusable = {(n, agent, number) for (n, agent, number, _), row in last.items() if row["failure"]}
    again = {(n, agent, number) for (n, agent, number, _), row in last.items() if row["attempt"]}
    for mark, places in ((FAILED, unusable), (AGAIN, again)):
        marked = {(n, *at) for n, game in enumerate(games) for at, cell in game["cells"].items() if mark in cell[2]}
        assert marked == places


def test_replies_in_plain_text_are_shown_as_they_were_taken(study_factory: StudyFactory) -> None:
    study = study_factory({"model": "tiny"}, parameters={"max_rounds": 1, "reply_format": "text"})
    [simulation] = study.simulations()
    record_with_model(simulation, policy=Answering())
    [game] = data_of(study)
    assert not [row for row in game["attempts"] if row["failure"]]
    proposed = {"internal_strategy": FREELY, "value": 7, "public_reasoning": "seven"}
    assert [row["parsed"] for row in game["attempts"] if row["phase"] == "propose"] == [proposed] * 3


def test_degenerate_replies_are_told_apart(study_factory: StudyFactory) -> None:
    study = study_factory({"model": "tiny"}, parameters={"max_rounds": 1})
    [simulation] = study.simulations()
    said = json.dumps({"internal_strategy": ",", "value": 3, "public_reasoning": ","})
    record_with_model(simulation, policy=Says(said))
    [game] = data_of(study)
    assert {row["degenerate"] for row in game["attempts"] if row["phase"] == "propose"} == {True}


@pytest.mark.parametrize("text", TEXTS)
def test_hostile_text_is_kept_as_it_was_recorded(study_factory: StudyFactory, text: str) -> None:
    study = study_factory({"model": "tiny"}, parameters={"max_rounds": 1})
    [simulation] = study.simulations()
    record_with_model(simulation, policy=Says(text))
    [game] = data_of(study)
    assert {row["text"] for row in game["attempts"]} == {text.replace("\ud800", "\ufffd") or None}


def test_each_text_is_there_once(study_factory: StudyFactory) -> None:
    study = played(study_factory({"n": 4}, seeds=3, parameters={"max_rounds": 3}))
    [part] = chosen(study, {}, 100, journals=False).parts
    texts = part_content(part)["texts"]
    assert len({json.dumps(text) for text in texts}) == len(texts)
    strings = [text for text in texts if isinstance(text, str)]
    prompts = [text for text in texts if isinstance(text, list)]
    assert prompts
    assert all(isinstance(texts[line], str) for prompt in prompts for line in prompt)
    assert not [text for text in strings if "\n" in text]


def test_a_record_that_cannot_be_read_is_named_in_its_place(study_factory: StudyFactory) -> None:
    study = played(study_factory({}, seeds=3, parameters={"max_rounds": 1}))
    bad = [simulation.record(study.name) for simulation in study.simulations()][1]
    edit(bad, lambda rows: rows[0].update(text="{}"))
    games = data_of(study)
    assert [sorted(game) == ["damaged", "id", "seed"] for game in games] == [False, True, False]
    assert str(bad) in games[1]["damaged"]


def test_numbers_that_a_browser_cannot_tell_apart_are_texts(study_factory: StudyFactory) -> None:
    study = played(study_factory({}, parameters={"max_rounds": 1}))
    [simulation] = study.simulations()
    odd = [2**60, float("nan")]
    forge(simulation.record(study.name), meta=lambda meta: meta["outcome"]["metrics"].update(odd=odd))
    [game] = data_of(study)
    assert game["metrics"]["odd"] == [str(2**60), None]


def test_a_game_that_says_nothing_of_its_own_is_shown_by_its_replies(
    study_factory: StudyFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Silent(CouncilGame):
        name = "silent"
        evidence: Evidence[Any] = Evidence()

    monkeypatch.setitem(GAMES, "silent", Silent)
    [game] = data_of(played(study_factory({"n": 3}, game="silent", parameters={"max_rounds": 1})))
    texts = {cell[1] for cell in game["cells"].values()}
    assert all(text.startswith("propose: ") and "vote: " in text for text in texts)


def test_conditions_that_are_not_there_are_refused(study_factory: StudyFactory, folder: Path) -> None:
    study = played(study_factory({"n": [3, 4]}, parameters={"max_rounds": 1}))
    with pytest.raises(UsageError, match="n=7"):
        chosen(study, {"n": "7"}, 10, journals=False)
