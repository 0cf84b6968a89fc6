"""Data files: every attempt of every game, whatever the game, with each text once, and hostile text as it is."""

import json
from pathlib import Path
from typing import Any

import pytest

from parley.imports.import_games import import_games
from parley.play.degenerate import MEANINGS
from parley.play.journal import Entry
from parley.play.matrix import AGAIN, FAILED
from parley.policies import Ask, Completion
from parley.report.explorer.game import Attempt, replies_of
from parley.report.explorer.index import index_content, part_rows
from parley.report.explorer.selection import select
from parley.study import load_study
from support.answering import record_with_model
from support.pages import Json, data_of, recorded
from support.playing import HUNTERS
from support.records import cheap_talk, edit, forge, write_cheap_talk
from support.replies import FREELY, Answering
from support.studies import StudyFactory

pytestmark = pytest.mark.promise("The explorer has every attempt of every game as it was recorded.")


class Says:
    """Answers every question with one of some texts, in turn."""

    def __init__(self, *texts: str) -> None:
        self._texts, self._asked = texts, 0

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        self._asked += 1
        return Completion(self._texts[self._asked % len(self._texts)], "stop", 10, 3)


def test_the_consensus_game_shows_values_votes_and_the_stop(study_factory: StudyFactory) -> None:
    grid = {"model": "random", "honest": 3, "b": 1, "byzantine": "random"}
    [game] = data_of(recorded(study_factory(grid, parameters={"max_rounds": 4})))
    assert game["rounds"][0] == 0
    honest = [agent["name"] for agent in game["agents"] if agent["role"] == "honest"]
    assert {name: game["cells"][name, 0][1] for name in honest} == {
        name: str(value) for name, value in game["metrics"]["initial_values"].items()
    }
    [liar] = [agent for agent in game["agents"] if agent["framed"]]
    assert (liar["role"], liar["player"], liar["hears"]) == ("byzantine", "random", None)  # None: everyone
    proposed = [row for row in game["attempts"] if row["phase"] == "propose"]
    assert {row["temperature"] for row in proposed} == {None}  # scripts have none
    for row in proposed:
        assert game["cells"][row["agent"], row["round"]][1] == str(row["parsed"]["value"])
    voted = {(row["agent"], row["round"]) for row in game["attempts"] if row["parsed"] == {"decision": "stop"}}
    assert {place for place, cell in game["cells"].items() if "votes to stop" in cell[2]} == voted


def test_the_stag_hunt_shows_actions_betrayals_and_who_hears_whom(study_factory: StudyFactory) -> None:
    grid = HUNTERS | {"model": "grim_trigger", "n": 5, "b": 1}
    ring = {"rounds": 4, "topology": "ring", "disclosure": "silent"}
    [game] = data_of(recorded(study_factory(grid, game="stag_hunt", parameters=ring)))
    hears = {agent["name"]: agent["hears"] for agent in game["agents"]}
    assert {len(peers) for peers in hears.values()} == {2}
    assert all(name in hears[peer] for name, peers in hears.items() for peer in peers)
    [liar] = [agent["name"] for agent in game["agents"] if agent["framed"]]
    assert "first betrayal" in game["cells"][liar, 2][2]
    for row in game["attempts"]:
        if row["phase"] == "act":
            assert game["cells"][row["agent"], row["round"]][0] == row["parsed"]["action"]


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


def by_model(make: StudyFactory, policy: Any, **parameters: Any) -> Json:
    """Return a game of one round that a model played."""
    study = make({"model": "tiny", "n": 4}, parameters={"max_rounds": 1, "retries": 0, **parameters})
    [simulation] = study.simulations()
    record_with_model(simulation, policy=policy)
    [game] = data_of(study)
    return game


def test_replies_are_shown_as_they_were_taken_and_degenerate_ones_told_apart(study_factory: StudyFactory) -> None:
    game = by_model(study_factory, Answering(), reply_format="text")
    assert not [row for row in game["attempts"] if row["failure"]]
    proposed = {"internal_strategy": FREELY, "value": 7, "public_reasoning": "seven"}
    assert [row["parsed"] for row in game["attempts"] if row["phase"] == "propose"] == [proposed] * 4
    said = json.dumps({"internal_strategy": ",", "value": 3, "public_reasoning": ","})
    game = by_model(study_factory, Says(said))
    assert {row["degenerate"] for row in game["attempts"] if row["phase"] == "propose"} == {MEANINGS["no_letter"]}


def test_what_cannot_be_read_is_named_in_its_place(study_factory: StudyFactory) -> None:
    study = recorded(study_factory({}, seeds=3, parameters={"max_rounds": 1}))
    first, bad, odd = (simulation.record(study.name) for simulation in study.simulations())
    edit(bad, lambda rows: rows[0].update(text="{}"))
    # Numbers that a browser cannot tell apart are texts.
    forge(first, meta=lambda meta: meta["outcome"]["metrics"].update(odd=[2**60, float("nan")]))
    forge(odd, meta=lambda meta: meta["simulation"].update(material={"imported": 3}))
    games = data_of(study)
    assert [sorted(game) == ["damaged", "id"] for game in games] == [False, True, True]
    assert f"{odd}: its outcome or trace is of no game" in games[2]["damaged"]
    assert str(bad) in games[1]["damaged"]
    assert games[0]["metrics"]["odd"] == [str(2**60), None]


# Games that were played elsewhere: as much as is there


def test_published_games_show_their_words_and_actions_without_prompts(folder: Path) -> None:
    write_cheap_talk(Path("raw"), 1, cheap_talk(["ssh", "hhh"], adversary=3))
    Path("config").mkdir()
    study = load_study(import_games("byzantine-cheap-talk", Path("raw"), "theirs").study)
    [game] = data_of(study)
    [adversary] = [agent["name"] for agent in game["agents"] if agent["framed"]]
    assert game["cells"][adversary, 1][:2] == ("Hunt Hare", "stag")
    assert {(row["system"], row["user"]) for row in game["attempts"]} == {(None, None)}
    shown = select(study, 10)
    assert index_content(shown, [part_rows(part) for part in shown.parts])["imported"] is True


def test_a_reply_is_a_few_words_in_its_cell() -> None:
    def attempt(agent: str = "agent_1", phase: str = "act", text: str = "said", parsed: Any = None) -> Attempt:
        entry = Entry(1, phase, agent, 0, 1, "", text, "stop", None, None, None, 0.0, 0.0)
        return Attempt(entry, "s", "u", None, None, 0.5, parsed)

    said = [
        attempt(parsed={"note": "x" * 90, "value": 3, "sure": True}),
        attempt(phase="vote", parsed={"decision": "stop"}),
        attempt("agent_2", text="plain \u202e words"),
    ]
    texts = {agent: reply.text for (agent, _), reply in replies_of(said).items()}
    assert texts == {"agent_1": "3, True; stop", "agent_2": "plain words"}
