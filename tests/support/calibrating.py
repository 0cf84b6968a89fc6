"""A stand-in for an engine that answers the questions of calibrations, in whatever form it is asked."""

import json
import re
from collections.abc import Callable
from typing import Any

from parley.calibration.arms import questions
from parley.games.problems.sources import Arithmetic
from support.answering import completion, schema_of

RIGHT = {problem.question: problem.answer or "" for problem in questions(Arithmetic(), 30)}
_WORDS = "I worked it out, and then I checked it."


def question_of(body: dict[str, Any]) -> str:
    """Return the question that a request asks."""
    said = "\n".join(message["content"] for message in body["messages"])
    return next(question for question in RIGHT if question in said)


def reply_of(body: dict[str, Any], answer: str) -> str:
    """Return a reply that gives an answer in the form that the request asks for."""
    told = body["messages"][-1]["content"]
    if found := re.search('begins with "(Answer|Value|Word):"', told):
        label = found[1]
        lines = [f"{label}: {answer}", *([f"Public: {_WORDS}"] if label == "Value" else [])]
        before = "Start with one line" in told
        return "\n".join([*lines, _WORDS] if before else [_WORDS, *lines])
    if "structured_outputs" not in body:
        return f"{_WORDS} The answer is {answer}."
    names = schema_of(body)["properties"]
    return json.dumps(
        {name: int(answer) if name == "value" else answer if name in ("answer", "word") else _WORDS for name in names}
    )


def answering(
    change: Callable[[dict[str, Any], str], str] = lambda body, answer: answer,
) -> Callable[[dict[str, Any]], Any]:
    """Return what a stand-in answers: the right answers, as `change` makes them of a request and its right answer."""
    return lambda body: completion(reply_of(body, change(body, RIGHT[question_of(body)])))
