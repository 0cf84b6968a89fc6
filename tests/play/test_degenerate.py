"""What replies of models are degenerate, and how their classes are counted and shown."""

import json
from dataclasses import replace
from typing import Any

import pytest

from parley.analysis.conditions import degenerate_warnings
from parley.analysis.summarize import summarize
from parley.analysis.tables import read_table
from parley.play.degenerate import (
    ASKED,
    degenerate_class,
    degenerate_of,
    repeated_share,
)
from parley.play.record import read_summary
from parley.policies import Ask, Completion
from parley.policies.reply_text import parse_reply
from support.answering import SeedPolicy, record_with_model
from support.playing import CHOICES, new_consensus, new_deliberation, new_hunt
from support.studies import StudyFactory

pytestmark = pytest.mark.promise("Degenerate replies are counted by class and warned of from 2%.")

PROPOSAL = {
    "internal_strategy": "Move towards 18.",
    "value": 18,
    "public_reasoning": "Most of us are near 18, so 18 suits all.",
}


SAID = 'see "public_reasoning": "I say 18" and "internal_strategy": "copied"'
LOOP = "I think we should all agree on the value. " * 12
REASONING = (
    "First, the 16 eggs of a day minus 3 for breakfast and 4 for muffins leave 16 - 3 - 4 = 9 eggs. Then 9 eggs at "
    "$2 each bring 9 * 2 = $18 a day. To check: 3 + 4 = 7 eggs are used, 16 - 7 = 9 are sold, and 9 * $2 = $18. So "
    "she makes $18 every day at the farmers' market."
)
LETTERS = "".join(chr(0x4E00 + place) for place in range(600))  # as long as the text may be


@pytest.fixture(scope="module")
def asks() -> dict[str, Ask]:
    """A question of each kind; before `again`, peers said what looks like the shape of the reply."""
    playing = new_consensus().play()
    first = next(playing)
    replies = [parse_reply(json.dumps(PROPOSAL | {"public_reasoning": SAID}), "stop", first[0].reply_model)] * 3
    votes = playing.send(replies)
    stays = replace(replies[0], value=votes[0].reply_model(decision="continue"))
    again = playing.send([stays] * 3)
    found = {"propose": first[0], "vote": votes[0], "again": again[0], "hunt": next(new_hunt().play())[0]}
    answer, policies = new_deliberation(cot_share=1), new_deliberation(problem=CHOICES)
    found |= {"answer": next(answer.play())[0], "policies": next(policies.play())[0]}
    return found


def class_of(ask: Ask, reply: dict[str, Any] | str, finish_reason: str = "stop") -> str | None:
    text = reply if isinstance(reply, str) else json.dumps(reply)
    return degenerate_class(ask, text, finish_reason, parse_reply(text, finish_reason, ask.reply_model).value)


def test_each_reply_has_its_class(asks: dict[str, Ask]) -> None:
    def strategy(text: object) -> dict[str, Any]:
        return PROPOSAL | {"internal_strategy": text}

    def public(text: str) -> dict[str, Any]:
        return PROPOSAL | {"public_reasoning": text}

    failed = strategy(",") | {"value": 99}
    assert parse_reply(json.dumps(failed), "stop", asks["propose"].reply_model).failure == "out_of_range"
    rows: list[tuple[str, dict[str, Any] | str, str | None]] = [
        ("propose", PROPOSAL, None),
        *(("propose", kind(text), "no_letter") for text in (",", "", " \n ", "}", "…") for kind in (strategy, public)),
        *(("propose", public(text), None) for text in ("x", "18", "é", "同意")),  # one letter or digit is enough
        *(("propose", text, "no_letter") for text in (",", "{", "...")),  # of no form
        ("propose", failed, "no_letter"),  # a reply that failed is looked at, too
        ("propose", strategy("your private observations"), "placeholder"),
        ("propose", strategy(" [Your private observations.] "), "placeholder"),
        ("propose", strategy("your private observations: all say 18"), None),  # mentioned, and the agent's own
        ("propose", public(LOOP), "repetition"),
        ("propose", LOOP, "repetition"),
        ("propose", public(REASONING), None),
        ("propose", public(LETTERS), "cut_off"),
        ("propose", public(LETTERS[:-1]), None),
        # Words of peers are no placeholders, and a choice of words is no text.
        *(("again", public(text), None) for text in ("I say 18", SAID)),
        ("again", public("your explanation visible to all agents"), "placeholder"),
        ("vote", {"decision": "continue"}, None),
        # Words and answers are texts.
        ("hunt", {"reasoning": "Together we win.", "word": "stag"}, None),
        ("hunt", {"reasoning": "Your reasoning, step by step.", "word": "stag"}, "placeholder"),
        ("hunt", '{"reasoning": "Together we win.", "word": "}"}', "no_letter"),
        ("answer", {"argument": "Nine times two.", "answer": "}"}, "no_letter"),
        ("policies", {"policies": ["Lend tools"], "argument": ","}, "no_letter"),
    ]
    for name, reply, expected in rows:
        assert class_of(asks[name], reply) == expected, (name, reply)
    for text, reason, expected in [
        (json.dumps(public(LOOP))[:-3], "length", "repetition"),
        ('{"internal_strategy": "Move tow', "length", "cut_off"),
        ("", "thought_cut_off", "cut_off"),
        ("", "length", None),  # the prompt did not fit the context
        ("...", "content_filter", None),  # a refusal, which a service cut
    ]:
        assert class_of(asks["propose"], text, reason) == expected, text


def test_what_parley_itself_cuts_is_not_cut_off_by_the_model(asks: dict[str, Ask]) -> None:
    reply = PROPOSAL | {"internal_strategy": LETTERS}
    value = asks["propose"].reply_model.model_validate(reply | {"internal_strategy": LETTERS[:400]})
    for form, expected in (("json", "cut_off"), ("text", None)):
        ask = replace(asks["propose"], reply_format=form)
        assert degenerate_class(ask, json.dumps(reply), "stop", value) == expected, form


def test_the_repeated_share_is_that_of_four_words() -> None:
    assert repeated_share(" ".join(map(str, range(40)))) == 0.0
    # 40 words are 37 of them, and 4 words in a circle have 4 different ones.
    assert repeated_share("a b c d " * 10) == pytest.approx(1 - 4 / 37)
    assert repeated_share("a b c d " * 5) == 0.0  # too short to tell


# Counted in records and tables


class _Saying(SeedPolicy):
    """Answers proposals with one text, every vote as the stand-in does."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        reply = await super().answer(ask, 1, attempt)
        return (
            reply
            if ask.phase == "vote"
            else replace(reply, text=json.dumps(PROPOSAL | {"internal_strategy": self._text}))
        )


def test_a_record_counts_the_replies_of_models_alone(study_factory: StudyFactory) -> None:
    study = study_factory({"model": "tiny", "n": 4, "b": 1, "byzantine": "random"}, parameters={"max_rounds": 1})
    [simulation] = study.simulations()
    telemetry = read_summary(record_with_model(simulation, policy=_Saying(","))).telemetry
    # Three agents of the model, a proposal and a vote each; the scripted one is not asked.
    assert telemetry["degenerate"] == {ASKED: 6, "placeholder": 0, "no_letter": 3, "repetition": 0, "cut_off": 0}
    assert degenerate_of(telemetry) == (6, 3)
    assert degenerate_of({"calls": 6}) == (0, 0)


# Tables and reports of a study of models


def test_tables_count_them_by_condition_and_one_is_warned_of_from_two_percent(study_factory: StudyFactory) -> None:
    study = study_factory({"model": "tiny", "n": [3, 4]}, parameters={"max_rounds": 1}, seeds=2)
    for simulation in study.simulations():
        record_with_model(simulation, policy=_Saying("," if simulation.condition.axes["n"] == 4 else "Move."))
    summarize(study)
    conditions = read_table("small", "conditions").sort_values("n", ignore_index=True)
    clean, bad = (row for _, row in conditions.iterrows())
    assert (clean[ASKED], clean["degenerate"], clean["degenerate_rate"]) == (12, 0, 0.0)
    assert (bad[ASKED], bad["degenerate"], bad["degenerate_no_letter"], bad["degenerate_rate"]) == (16, 8, 8, 0.5)
    simulations = read_table("small", "simulations").sort_values("n")
    assert simulations["degenerate_no_letter"].tolist() == [0, 0, 4, 4]
    [line] = degenerate_warnings(conditions, study.axes)
    assert line.startswith("model=tiny, n=4, b=0, prompt=may_exist: 50.0% of 16 replies")
    for rate, warned in ((0.0199, False), (0.02, True)):
        conditions.loc[1, "degenerate_rate"] = rate
        assert bool(degenerate_warnings(conditions, study.axes)) is warned
