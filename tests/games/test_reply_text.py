"""Replies in free text with labeled lines: what is read, what fails, and what the grammar allows."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from parley.games.consensus.parameters import HonestVote
from parley.games.deliberation.parameters import answer_pattern, reply_model
from parley.games.problems.problem import Problem
from parley.games.stag_hunt.parameters import LONGEST_WORD, WORD_PATTERN, act_model, signal_model
from parley.games.stag_hunt.state import one_word
from parley.policies.parsing import parse_reply
from parley.policies.reply_text import read_text
from support.answering_in_format import BYZANTINE, POLICIES, PROPOSAL, REASONED, TURN, ZERO_SHOT
from support.deliberating import CARDS, CHOICES, EIGHTEEN


def values(model: type[BaseModel], text: str) -> dict[str, Any]:
    reply = read_text(text, "stop", model)
    assert reply.value is not None, reply.detail
    return reply.value.model_dump()


@pytest.mark.parametrize(
    "line", ["Answer: 18", "**Answer:** 18", "**Answer**: 18", "**Answer: 18**", "Answer: **18**", "  Answer:18  \n\n"]
)
def test_the_last_line_is_the_answer_and_the_rest_the_argument(line: str) -> None:
    assert values(REASONED, f"Nine times two.\n\nThat is it.\n{line}") == {
        "argument": "Nine times two.\n\nThat is it.",
        "answer": "18",
    }


def test_an_answer_that_is_asked_for_first_is_the_first_line() -> None:
    assert values(ZERO_SHOT, "Answer: 18\n\nBecause 9 + 9.") == {"answer": "18", "argument": "Because 9 + 9."}
    assert read_text("Because.\nAnswer: 18", "stop", ZERO_SHOT).failure == "invalid_json"
    assert values(ZERO_SHOT, "Answer: 18") == {"answer": "18", "argument": ""}


def test_free_text_is_cut_to_its_field() -> None:
    assert values(REASONED, "x" * 100 + "\nAnswer: 3")["argument"] == "x" * 40


def test_earlier_lines_with_the_label_are_free_text() -> None:
    assert values(REASONED, "Answer: 3\nNo, wait.\nAnswer: 4") == {"argument": "Answer: 3\nNo, wait.", "answer": "4"}


def test_several_fields_have_a_line_each() -> None:
    text = "I stay.\n**Value:** 20\nPublic: It is *the* middle."
    assert values(PROPOSAL, text) == {
        "internal_strategy": "I stay.",
        "value": 20,
        "public_reasoning": "It is *the* middle.",
    }
    assert values(TURN, "x\nValue: -3\nPublic: y\nVote: stop")["vote"] == "stop"
    assert values(BYZANTINE, "x\nValue: abstain\nPublic: y")["value"] == "abstain"


def test_a_list_has_a_line_for_each_item() -> None:
    text = "Both.\nPolicy: Lend tools\nPolicy: Buy more books"
    assert values(POLICIES, text)["policies"] == ["Lend tools", "Buy more books"]


@pytest.mark.parametrize(
    ("model", "text", "failure"),
    [
        (REASONED, "It is 18.", "invalid_json"),  # no line
        (REASONED, "Answer: 18\nThat is it.", "invalid_json"),  # not the last one
        (REASONED, "The Answer: 18", "invalid_json"),  # another line
        (REASONED, "answer: 18", "invalid_json"),
        (REASONED, "Answer: " + "1" * 61, "out_of_range"),
        (REASONED, "", "invalid_json"),
        (PROPOSAL, "Value: 20", "invalid_json"),  # a field is missing
        (PROPOSAL, "Public: x\nValue: 20", "invalid_json"),  # not in their order
        (PROPOSAL, "Value: 20\nAnd so\nPublic: x", "invalid_json"),
        (PROPOSAL, "Value: 20.0\nPublic: x", "invalid_json"),
        (PROPOSAL, "Value: 020\nPublic: x", "invalid_json"),
        (PROPOSAL, "Value: twenty\nPublic: x", "invalid_json"),
        (PROPOSAL, "Value: " + "9" * 5000 + "\nPublic: x", "invalid_json"),
        (PROPOSAL, "Value: 51\nPublic: x", "out_of_range"),
        (PROPOSAL, "Value: 5\nPublic: " + "x" * 31, "out_of_range"),
        (HonestVote, "Decision: abstain", "out_of_range"),
        (HonestVote, "Decision: stop.", "out_of_range"),
        (act_model(600), "Action: hunt stag", "out_of_range"),
        (signal_model(600), "Word: two words", "out_of_range"),
    ],
)
def test_what_json_would_refuse_fails_by_the_same_classes(model: type[BaseModel], text: str, failure: str) -> None:
    reply = read_text(text, "stop", model)
    assert (reply.value, reply.failure) == (None, failure)
    assert reply.detail


def test_a_reply_that_was_cut_off_or_refused_is_no_reply() -> None:
    assert read_text("x\nAnswer: 18", "length", REASONED).failure == "length"
    assert read_text("x\nAnswer: 18", "content_filter", REASONED).failure == "refused"


def test_only_the_last_lines_count() -> None:
    assert values(REASONED, "Answer: 17\n**Answer: 18**") == {"argument": "Answer: 17", "answer": "18"}
    said = values(PROPOSAL, "Public: no\n\nValue: 3\n\nPublic: yes\n")
    assert said == {"internal_strategy": "Public: no", "value": 3, "public_reasoning": "yes"}
    assert values(ZERO_SHOT, "Answer: 18\nAnswer: 17") == {"answer": "18", "argument": "Answer: 17"}


# What a schema allows, a game can read


@given(st.from_regex(re.compile(WORD_PATTERN), fullmatch=True))
@settings(deadline=None)
def test_every_word_that_the_schema_allows_is_one(word: str) -> None:
    assert one_word(word, LONGEST_WORD) == word.strip("'-")
    assert parse_reply(json.dumps({"reasoning": "", "word": word}), "stop", signal_model(600)).failure is None


@pytest.mark.parametrize("word", ["stag", "Together", "all-in", "don't", "été", "вместе", "统一", "7"])
def test_good_words_are_allowed(word: str) -> None:
    assert re.fullmatch(WORD_PATTERN, word)


@pytest.mark.parametrize("word", [",", "}", ":", "", "two words", "-stag", "stag!", "\u200bstag", "x" * 31, "“stag”"])
def test_what_is_no_word_is_not_allowed(word: str) -> None:
    assert not re.fullmatch(WORD_PATTERN, word)


@pytest.mark.parametrize("problem", [EIGHTEEN, CARDS, Problem("c", "cards", "?", "9,E", ("E", "9", "123", "B"))])
@given(data=st.data())
@settings(deadline=None)
def test_every_answer_that_the_schema_allows_can_be_read(problem: Problem, data: st.DataObject) -> None:
    chars = data.draw(st.integers(20, 60) if problem.options else st.integers(7, 60))
    pattern = answer_pattern(problem.kind, problem.options, chars)
    assert pattern is not None
    answer = data.draw(st.from_regex(re.compile(pattern), fullmatch=True))
    assert problem.read(answer) is not None
    assert len(answer) <= chars


@pytest.mark.parametrize(
    ("problem", "answer", "allowed"),
    [
        *[(EIGHTEEN, text, True) for text in ("18", "-7", "$1,234.50", "3/4", "0.5", "-$2", "1000000")],
        *[
            (EIGHTEEN, text, False)
            for text in ("", "...", "}", "{argument: ", ">$110", "about 3", "1/0", "18 dollars")
        ],
        *[(CARDS, text, True) for text in ("A", "A, 7", "7, A, K, 4")],
        *[(CARDS, text, False) for text in ("", "B", "A or 7", "...", "A, 7, A, K, 4")],
    ],
)
def test_the_schema_allows_the_answers_of_the_kind_alone(problem: Problem, answer: str, allowed: bool) -> None:
    pattern = answer_pattern(problem.kind, problem.options, 60)
    assert pattern is not None
    assert (re.fullmatch(pattern, answer) is not None) is allowed


def test_an_answer_that_may_be_longer_than_the_study_allows_has_no_pattern() -> None:
    assert answer_pattern("number", (), 6) is None
    assert answer_pattern("cards", CARDS.options, 5) is None
    assert "pattern" not in reply_model("cot", "number", (), 6, 40).model_json_schema()["properties"]["answer"]


def test_schemas_have_the_patterns() -> None:
    assert signal_model(600).model_json_schema()["properties"]["word"]["pattern"] == WORD_PATTERN
    answer = REASONED.model_json_schema()["properties"]["answer"]
    assert (answer["pattern"], answer["maxLength"]) == (answer_pattern("number", (), 60), 60)


def test_policies_are_those_that_are_offered() -> None:
    schema = POLICIES.model_json_schema()["properties"]["policies"]
    assert schema["items"]["enum"] == list(CHOICES.options)
    assert (schema["minItems"], schema["maxItems"]) == (1, 3)


def test_the_parser_is_no_stricter_than_before() -> None:
    for model, said in (
        (REASONED, {"argument": "", "answer": "I think 18"}),
        (POLICIES, {"argument": "", "policies": ["Burn books"]}),
        (POLICIES, {"argument": "", "policies": []}),
        (signal_model(600), {"reasoning": "", "word": "stag!"}),
    ):
        assert parse_reply(json.dumps(said), "stop", model).failure is None
