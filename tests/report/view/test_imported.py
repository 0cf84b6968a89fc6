"""Imported games in the explorer: as much as is there."""

from pathlib import Path

import pytest

from parley.imports.write import import_games
from parley.report.view.chosen import chosen
from parley.report.view.index import index_content, read_rows
from parley.study import Study, load_study
from support.imported import cheap_talk, reply_lines, write_cheap_talk, write_lines
from support.pages import data_of

pytestmark = pytest.mark.usefixtures("folder")


def imported(path: Path, form: str, keep_damaged: bool = False) -> Study:
    Path("config").mkdir(exist_ok=True)
    return load_study(import_games(form, path, "theirs", keep_damaged).study)


def test_published_games_show_their_words_and_actions_without_prompts() -> None:
    write_cheap_talk(Path("raw"), 1, cheap_talk(["ssh", "hhh"], adversary=3))
    study = imported(Path("raw"), "byzantine-cheap-talk")
    [game] = data_of(study)
    [adversary] = [agent["name"] for agent in game["agents"] if agent["framed"]]
    assert game["cells"][adversary, 1][:2] == ("Hunt Hare", "stag")
    assert {(row["system"], row["user"]) for row in game["attempts"]} == {(None, None)}
    assert {row["parsed"]["action"] for row in game["attempts"] if row["phase"] == "act"} == {"Hunt Stag", "Hunt Hare"}
    assert len({agent["player"] for agent in game["agents"]}) == 3
    shown = chosen(study, {}, 10, journals=False)
    assert index_content(shown, read_rows(shown.parts))["imported"] is True


def test_games_in_lines_show_their_prompts_and_who_saw_whom() -> None:
    links = [["agent_1", "agent_2"], ["agent_2", "agent_3"]]
    [game] = data_of(imported(write_lines(Path("games.jsonl"), reply_lines(["ssh", "sss"], links=links)), "jsonl"))
    assert {agent["name"]: agent["hears"] for agent in game["agents"]} == {
        "agent_1": ["agent_2"],
        "agent_2": ["agent_1", "agent_3"],
        "agent_3": ["agent_2"],
    }
    first = game["attempts"][0]
    assert (first["system"], first["user"]) == ("You hunt.", "Round 1: signal?")


def test_a_reply_that_is_missing_is_marked() -> None:
    lines = reply_lines(["ss", "ss"])
    lines[-1]["text"] = "nothing of use"
    [game] = data_of(imported(write_lines(Path("games.jsonl"), lines), "jsonl", keep_damaged=True))
    assert game["cells"]["agent_2", 2][0] == "idle"
    assert "no usable reply" in game["cells"]["agent_2", 2][2]
