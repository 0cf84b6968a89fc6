"""What a model reasons before its reply: recorded, counted, and shown to nobody; in whole games of a service."""

import json
from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq
import pytest

from parley.errors import BudgetError
from parley.play.record import read_record, read_summary
from parley.play.replay import replay
from parley.play.spending import spending_line
from parley.report.explorer.game import recorded_attempts
from parley.report.explorer.selection import ShownFile
from parley.study import Study
from support.answering import SERVED, VARIABLE, StandInService, as_recorded, completion, recorded_reply
from support.studies import StudyFactory, play_all

pytestmark = pytest.mark.promise("Reasoning is recorded and counted in the budget, and no agent sees it.")

THOUGHT = "secretly \ud800 I think of"


def thinking(body: dict[str, Any]) -> Any:
    """Reply with 30 tokens of reasoning, which the completion has in it."""
    status, found = as_recorded(body)
    found["choices"][0]["message"]["reasoning"] = f"{THOUGHT} {body['seed']}"
    found["usage"] |= {"completion_tokens": 37, "completion_tokens_details": {"reasoning_tokens": 30}}
    return status, found


Make = Callable[..., Study]


@pytest.fixture
def make(study_factory: StudyFactory, server: StandInService) -> Make:
    """Write a study that asks the stand-in, which thinks, in a dialect."""
    server.answer = thinking

    def made(dialect: Any = None, **content: Any) -> Study:
        source = {"url": server.url, "served": SERVED, "key_variable": VARIABLE}
        entry = {"source": source, "limits": {"concurrent": 3}, **({} if dialect is None else {"dialect": dialect})}
        content = {"parameters": {"max_rounds": 2}, "seeds": 1, **content}
        return study_factory({"model": "tiny", "n": 3, "prompt": "may_exist"}, models={"tiny": entry}, **content)

    return made


@pytest.mark.slow
def test_reasoning_is_recorded_and_no_agent_sees_it_and_it_changes_nothing(make: Make, server: StandInService) -> None:
    longer = {"max_rounds": 3, "stop_threshold": 1}
    study = make({"reasoning_effort": "low", "reasoning_tokens": 500}, parameters=longer)
    [record] = play_all(study)
    rows = pq.read_table(record, partitioning=None).to_pylist()
    assert len(rows) > 6
    for row in rows:
        assert row["reasoning"] == f"secretly \ufffd I think of {row['request_seed']}"
        assert (row["reasoning_tokens"], row["completion_tokens"]) == (30, 37)
    assert [entry.reasoning for entry in read_record(record)[1]] == [row["reasoning"] for row in rows]
    assert "secretly" not in json.dumps([body["messages"] for body in server.bodies])
    summary = read_summary(record)
    assert "secretly" not in json.dumps(summary.outcome)
    assert {body["reasoning_effort"] for body in server.bodies} == {"low"}
    assert {body["max_tokens"] for body in server.bodies} == {800, 700}  # 300 and 200 of a reply
    record.unlink()
    server.answer = as_recorded
    assert read_summary(*play_all(study)).digest == summary.digest


@pytest.mark.slow
def test_tags_in_a_reply_in_free_text_are_seen_by_no_agent(make: Make, server: StandInService) -> None:
    def answer(body: dict[str, Any]) -> Any:
        if "response_format" in body:
            return as_recorded(body) if body["seed"] % 7 else completion('{"decision": "continue"}')
        return completion(f"<think>secretly {body['seed']}</think>\n\nI say openly what I do.")

    server.answer = answer
    asked = {"max_rounds": 2, "stop_threshold": 1, "reply_format": "two_steps"}
    [record] = play_all(make({"think_tags": True}, parameters=asked))
    rows = pq.read_table(record, partitioning=None).to_pylist()
    assert {row["reasoning"] is None for row in rows} == {False, True}
    said = json.dumps([body["messages"] for body in server.bodies])
    assert "I say openly" in said
    assert "secretly" not in said
    assert "secretly" not in json.dumps([row["text"] for row in rows])


@pytest.mark.promise("`code_fence: true` takes a fence off before a reply is read; the record has it as it came.")
def test_a_code_fence_comes_off_before_a_reply_is_read(make: Make, server: StandInService) -> None:
    identities, plain = set(), {}
    for dialect, fence in ((None, "{}"), ({"code_fence": True}, "```json\n{}\n```"), ({"code_fence": False}, "{}")):
        study = make(dialect)
        server.answer = lambda body, fence=fence: completion(
            fence.format(recorded_reply(body)[0]), recorded_reply(body)[1]
        )
        [record] = play_all(study)
        rows = pq.read_table(record, partitioning=None).to_pylist()
        assert {row["text"].startswith("```") for row in rows} == {fence != "{}"}
        assert replay(record).identical
        shown = recorded_attempts(ShownFile(next(study.simulations()), record, 0))[1]
        assert all((attempt.parsed is None) == (attempt.failure is not None) for attempt in shown)
        identities.add(study.conditions[0].identity)
        plain[fence] = [(row["failure"], row["round"], row["agent"]) for row in rows]
        record.unlink()
    assert len(identities) == len(plain) == 2
    assert any(failure is None for failure, *_ in plain["```json\n{}\n```"])


@pytest.mark.slow
def test_reasoning_is_in_the_budget_before_and_after(make: Make, server: StandInService) -> None:
    # A request can use some 3,000 tokens without reasoning.
    study = make({"reasoning_tokens": 50_000}, budget={"tokens": 40_000})
    with pytest.raises(BudgetError, match=r"the next request may use 5[0-9],[0-9]{3} tokens"):
        play_all(study)
    assert server.bodies == []
    study = make({"reasoning_tokens": 50_000}, budget={"tokens": 400_000})
    play_all(study)
    assert spending_line(study) == f"budget: {137 * len(server.bodies):,} of 400,000 tokens spent"
