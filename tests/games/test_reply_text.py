"""Replies in free text with labeled lines: what is read, what fails, and what the grammar allows."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from parley.games.consensus.parameters import HonestVote
from parley.games.deliberation.parameters import answer_pattern
from parley.games.problems.problem import Problem
from parley.games.stag_hunt.parameters import WORD_PATTERN, hunt_model, one_word
from parley.policies.reply_text import Reading, parse_reply, read_reply, read_text, without_fence
from support.answering import first_ask, said
from support.playing import CARDS, EIGHTEEN
from support.replies import BYZANTINE, POLICIES, PROPOSAL, REASONED, TURN, ZERO_SHOT

pytestmark = pytest.mark.promise("Replies in free text are read by the same classes of failure as JSON.")


def values(model: type[BaseModel], text: str) -> dict[str, Any]:
    reply = read_text(text, "stop", model)
    assert reply.value is not None, reply.detail
    return reply.value.model_dump()


def test_the_last_line_is_the_answer_and_the_rest_the_argument() -> None:
    argument = "Nine times two.\n\nThat is it."
    for line in ("Answer: 18", "**Answer:** 18", "**Answer**: 18", "**Answer: 18**", "  Answer:**18**  \n\n"):
        assert values(REASONED, f"{argument}\n{line}") == {"argument": argument, "answer": "18"}, line
    assert values(REASONED, "x" * 100 + "\nAnswer: 3")["argument"] == "x" * 40  # cut to its field
    assert values(REASONED, "Answer: 3\nNo, wait.\nAnswer: 4") == {"argument": "Answer: 3\nNo, wait.", "answer": "4"}
    assert values(REASONED, "Answer: 17\n**Answer: 18**") == {"argument": "Answer: 17", "answer": "18"}


FENCES = (
    ("```json\n{}\n```", "{}"),
    (" \n```\r\n{\r\n}\r\n```  \n", "{\r\n}\r"),
    ("```\n```", ""),
    ("```json\n{}\n```\nDone.", None),
    ("Here:\n```json\n{}\n```", None),
    ("```json\n{}\n```\n```json\n{}\n```", None),
    ("```json x\n{}\n```", None),
    ("```json {} ```", None),
    ("````\n{}\n````", None),
    ("```", None),
)


def test_one_fence_around_the_whole_of_a_reply_comes_off_where_it_is_asked_for() -> None:
    for text, inside in FENCES:
        assert without_fence(text) == (text if inside is None else inside), text
    fenced = f"```\n{said('propose', 1)[0]}\n```"
    assert read_reply(first_ask(), fenced, "stop").failure == "invalid_json"
    assert read_reply(first_ask(), fenced, "stop", Reading(code_fence=True)).value is not None


def test_an_answer_that_is_asked_for_first_is_the_first_line() -> None:
    assert values(ZERO_SHOT, "Answer: 18\n\nBecause 9 + 9.") == {"answer": "18", "argument": "Because 9 + 9."}
    assert values(ZERO_SHOT, "Answer: 18\nAnswer: 17") == {"answer": "18", "argument": "Answer: 17"}
    assert values(ZERO_SHOT, "Answer: 18") == {"answer": "18", "argument": ""}
    assert read_text("Because.\nAnswer: 18", "stop", ZERO_SHOT).failure == "invalid_json"


def test_several_fields_have_a_line_each_and_a_list_one_for_each_item() -> None:
    text = "Public: no\n**Value:** 20\n\nPublic: It is *the* middle.\n"
    said = {"internal_strategy": "Public: no", "value": 20, "public_reasoning": "It is *the* middle."}
    assert values(PROPOSAL, text) == said
    assert values(TURN, "x\nValue: -3\nPublic: y\nVote: stop")["vote"] == "stop"
    assert values(BYZANTINE, "x\nValue: abstain\nPublic: y")["value"] == "abstain"
    both = "Both.\nPolicy: Lend tools\nPolicy: Buy more books"
    assert values(POLICIES, both)["policies"] == ["Lend tools", "Buy more books"]


FAILURES: list[tuple[type[BaseModel], str, str]] = [
    *((REASONED, text, "invalid_json") for text in ("", "It is 18.", "Answer: 18\nThat is it.", "answer: 18")),
    (REASONED, "The Answer: 18", "invalid_json"),
    (REASONED, "Answer: " + "1" * 61, "out_of_range"),
    *(
        (PROPOSAL, text, "invalid_json")
        for text in ("Value: 20", "Public: x\nValue: 20", "Value: 20\nAnd so\nPublic: x")
    ),
    *((PROPOSAL, f"Value: {value}\nPublic: x", "invalid_json") for value in ("20.0", "020", "twenty", "9" * 5000)),
    (PROPOSAL, "Value: 51\nPublic: x", "out_of_range"),
    (PROPOSAL, "Value: 5\nPublic: " + "x" * 31, "out_of_range"),
    (HonestVote, "Decision: abstain", "out_of_range"),
    (HonestVote, "Decision: stop.", "out_of_range"),
    (hunt_model("act", 600), "Action: hunt stag", "out_of_range"),
    (hunt_model("signal", 600), "Word: two words", "out_of_range"),
]


def test_what_json_would_refuse_fails_by_the_same_classes() -> None:
    for model, text, failure in FAILURES:
        reply = read_text(text, "stop", model)
        assert (reply.value, reply.failure) == (None, failure), text
        assert reply.detail
    for finish, failure in (("length", "length"), ("content_filter", "refused")):
        assert read_text("x\nAnswer: 18", finish, REASONED).failure == failure


# What a schema allows, a game can read


@given(st.from_regex(re.compile(WORD_PATTERN), fullmatch=True))
@settings(deadline=None)
@pytest.mark.slow
def test_every_word_that_the_schema_allows_is_one(word: str) -> None:
    assert one_word(word) == word.strip("'-")
    assert parse_reply(json.dumps({"reasoning": "", "word": word}), "stop", hunt_model("signal", 600)).failure is None


@pytest.mark.parametrize("problem", [EIGHTEEN, CARDS, Problem("c", "cards", "?", "9,E", ("E", "9", "123", "B"))])
@given(data=st.data())
@settings(deadline=None)
@pytest.mark.slow
def test_every_answer_that_the_schema_allows_can_be_read(problem: Problem, data: st.DataObject) -> None:
    chars = data.draw(st.integers(20, 60) if problem.options else st.integers(7, 60))
    pattern = answer_pattern(problem.kind, problem.options, chars)
    assert pattern is not None
    answer = data.draw(st.from_regex(re.compile(pattern), fullmatch=True))
    assert problem.read(answer) is not None
    assert len(answer) <= chars
