"""Degenerate replies: what came back in place of an answer, by class, whether or not it could be parsed.

An unusable reply is counted as a failure; a degenerate one may be usable, and still says nothing (","). Many of them
mean that the format, or the sampling, shapes what a model writes.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal

from pydantic import BaseModel

from parley.play.runner import Exchange
from parley.policies import THOUGHT_CUT_OFF, WHITE_SPACE, Ask, FailureClass
from parley.policies.reply_text import free_field

DegenerateClass = Literal["placeholder", "no_letter", "repetition", "cut_off"]
# In the order in which they are looked for: a reply is of the first that fits. A loop that was cut off is a loop.
DEGENERATE_CLASSES: tuple[DegenerateClass, ...] = ("placeholder", "no_letter", "repetition", "cut_off")
MEANINGS: Mapping[DegenerateClass, str] = {
    "placeholder": "repeats a placeholder of the prompt",
    "no_letter": "a text without any letter or digit",
    "repetition": "says the same words over and over",
    "cut_off": "cut off at max_tokens, or at the longest text that its format allows",
}
WARN_FROM = 0.02  # share of the replies of models
ASKED = "model_replies"  # in the telemetry: attempts that a model answered

_GRAM = 4  # words
_FEWEST = 20  # of those; less text cannot be told from a short answer
_REPEATED = 0.5  # share of them from which a text is a loop
_FEWEST_SPACES = 2  # in words of the prompt that no agent would say by chance
_WORD = re.compile(r"\w+|[^\w\s]")
_SHAPE = re.compile(r'"(\w+)"\s*:\s*(?:\[\s*)?"((?:[^"\\]|\\.)*)"')


def degenerate_class(ask: Ask, text: str, finish_reason: str, value: BaseModel | None) -> DegenerateClass | None:
    """Return the class of degenerate reply that one attempt is, None for an ordinary one.

    `value` is what the reply was parsed to; None if it could not be used, and then its `text` is looked at. A reply
    without any text is none: a prompt that did not fit, or a refusal.
    """
    if finish_reason == THOUGHT_CUT_OFF:
        return "cut_off"
    if not text.strip() or finish_reason == "content_filter":
        return None
    longest = _text_fields(ask.reply_model)
    texts = list(_texts(text, value, longest))
    if _placeholder(ask, [_normal(said) for _, said in texts], longest):
        return "placeholder"
    said_nothing = [said for _, said in texts] or ([text] if value is None else [])
    if any(not any(map(str.isalnum, said)) for said in said_nothing):
        return "no_letter"
    if repeated_share(" ".join(said for _, said in texts) or text) > _REPEATED:
        return "repetition"
    if ask.reply_format == "text":  # its free part is cut by Parley: the model went on
        longest = {**longest, free_field(ask.reply_model): None}
    full = any(most is not None and len(said) >= most for name, said in texts for most in [longest[name]])
    return "cut_off" if full or finish_reason in ("length", WHITE_SPACE) else None


def count_degenerate(exchanges: Iterable[Exchange]) -> dict[str, int]:
    """Return the number of attempts in `exchanges`, and of those of each class of degenerate reply."""
    number, classes = 0, Counter[DegenerateClass | None]()
    for x in exchanges:
        number += 1
        classes[degenerate_class(x.ask, x.entry.text, x.entry.finish_reason, x.reply.value)] += 1
    return {ASKED: number, **{name: classes[name] for name in DEGENERATE_CLASSES}}


def degenerate_of(telemetry: Mapping[str, Any]) -> tuple[int, int]:
    """Return how many replies of models a record tells of, and how many are degenerate; (0, 0) if it has none."""
    counts = telemetry.get("degenerate") or {ASKED: 0}
    return counts[ASKED], sum(counts.get(name, 0) for name in DEGENERATE_CLASSES)


def repeated_share(text: str) -> float:
    """Return the share, in [0, 1], of the 4-grams of words and signs that stood in `text` before; 0 for short texts.

    It is seq-rep-4 of Welleck et al., "Neural Text Generation with Unlikelihood Training" (ICLR 2020), section 6.
    """
    words = _WORD.findall(text.casefold())
    grams = [tuple(words[at : at + _GRAM]) for at in range(len(words) - _GRAM + 1)]
    return 1 - len(set(grams)) / len(grams) if len(grams) >= _FEWEST else 0.0


@cache
def _text_fields(model: type[BaseModel]) -> dict[str, int | None]:
    """Return the fields of a reply that are free text, or a list of such, with their longest; no choices of words."""
    fields: dict[str, int | None] = {}
    for name, schema in model.model_json_schema()["properties"].items():
        of = schema.get("items", {}) if schema.get("type") == "array" else schema
        if of.get("type") == "string" and not {"enum", "const"} & set(of):
            fields[name] = of.get("maxLength")
    return fields


def _texts(text: str, value: BaseModel | None, longest: Mapping[str, int | None]) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each free text of a reply, as parsed; else as in the JSON that its text is."""
    try:
        fields = json.loads(text) if value is None else value.model_dump()
    except (ValueError, RecursionError):
        return
    for name, given in fields.items() if isinstance(fields, dict) else ():  # in order: a repetition may span two
        for said in given if isinstance(given, list | tuple) else [given]:
            if name in longest and isinstance(said, str):
                yield name, said


def _placeholder(ask: Ask, texts: Sequence[str], longest: Mapping[str, int | None]) -> bool:
    """Whether one of these texts is what the prompt's shape of the reply has in place of texts, or says of them.

    The shape stands last, or its last line tells of it in words. What agents said stands in quotes, whose own are
    escaped: their words are none.
    """
    shape = {name: shown for name, shown in _SHAPE.findall(f"{ask.system}\n{ask.user}") if name in longest}
    shown = set(map(_normal, shape.values()))
    last_line = ask.user.rstrip().rpartition("\n")[2].casefold()
    return any(text in shown or (text.count(" ") >= _FEWEST_SPACES and text in last_line) for text in texts)


def _normal(text: str) -> str:
    """Return a text without case, and without the signs and spaces around it unless it is nothing else."""
    return re.sub(r"^[\W_]+|[\W_]+$", "", text).casefold() or text.strip()


# What most often makes replies of a class usable.
REMEDIES: Mapping[FailureClass, str] = {
    "invalid_json": "the model's entry in models.yaml (dialect: {code_fence: true} for replies in a fence, or "
    "structured), or parameters: {reply_format: text} in the study (see config/formats.yaml)",
    "out_of_range": "reply_format (see config/formats.yaml), or another model",
    "length": "max_tokens of the phase",
    "refused": "the prompt, or another model",
    "prompt_too_long": "max_model_len in the model's entry, history_rounds, or fewer agents",
    "thought_only": "reasoning-parser in engine_args, or reasoning_effort in the dialect of the model's entry",
    "thought_cut_off": "reasoning_tokens in the entry (of a service in its dialect), or max_tokens of the phase",
    "tool_call": "reply_format, or another model",
    "no_tool_call": "api: chat in the dialect of the model's entry, where the server takes schemas",
    "white_space": "reply_format: text (see config/formats.yaml), or structured in the dialect of the model's entry",
}
