"""Replies, parsed strictly as they were asked for: a value of exactly the asked shape, or a failure by class.

Replies in free text (`reply_format: text`) have labeled lines: the last ones of a reply, or the first where the answer
is asked for before the argument. Each holds one field; a field that is a list has a line for each item. What else was
written becomes the free field.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Annotated, Any, ClassVar, NamedTuple

from pydantic import BaseModel, Field, ValidationError

from parley.policies import PROMPT_TOO_LONG, THOUGHT_CUT_OFF, THOUGHT_ONLY, TOOL_CALL, Ask, FailureClass, Reply
from parley.text import one_line
from parley.text.yamlfile import StrictModel

_RANGE_ERRORS = {
    "greater_than",
    "greater_than_equal",
    "less_than",
    "less_than_equal",
    "out_of_range",  # of fields that each are within their bounds, but not together
    "string_pattern_mismatch",
    "string_too_long",
    "string_too_short",
    "too_long",
    "too_short",
}


# What ends a reply so that it is not read. Records have the words: a prompt that did not fit had no class of its own.
_ENDED: Mapping[str, tuple[FailureClass, str]] = {
    "length": ("length", "cut off at max_tokens, or the prompt did not fit the context"),
    "content_filter": ("refused", "refused by the engine or the model"),
    PROMPT_TOO_LONG: ("prompt_too_long", "the prompt does not fit the model's context"),
    THOUGHT_ONLY: ("thought_only", "the model wrote a thought and no reply"),
    THOUGHT_CUT_OFF: ("thought_cut_off", "the thought used up the longest reply"),
    TOOL_CALL: ("tool_call", "a call of a tool in place of a reply"),
    "no_tool_call": ("no_tool_call", "the model did not call the tool whose input is the reply"),
    "white_space": ("white_space", "JSON, then white space up to max_tokens"),
}


def parse_reply(text: str, finish_reason: str, model: type[BaseModel], cut: bool = False) -> Reply:
    """Parse one reply strictly: JSON of exactly the asked shape, or a failure by class.

    The wrong shape (a number as text, a repeated key) is `invalid_json`, a value outside its bounds `out_of_range`.
    With `cut`, texts without a pattern that are longer than their fields are cut to them.
    """
    if finish_reason in _ENDED:
        return Reply(None, *_ENDED[finish_reason])
    try:
        fields = _decoded(text)
        return Reply(model.model_validate_json(text, strict=True))
    except ValidationError as error:
        if cut and (shorter := _cut(fields, error, model)) is not None:
            return parse_reply(shorter, finish_reason, model)
        return Reply(None, _failure_class(error), _first_problem(error))
    except (ValueError, RecursionError) as error:
        return Reply(None, "invalid_json", one_line(str(error), 200))


def _cut(fields: dict[str, Any], error: ValidationError, model: type[BaseModel]) -> str | None:
    """Return the reply with its long texts cut; None if something else is wrong, or such a text has a pattern."""
    problems = error.errors(include_url=False, include_input=False)
    if any(problem["type"] != "string_too_long" or len(problem["loc"]) != 1 for problem in problems):
        return None
    longest = {str(problem["loc"][0]): problem["ctx"]["max_length"] for problem in problems}
    shapes = model.model_json_schema()["properties"]
    if any('"pattern"' in json.dumps(shapes[name]) for name in longest):
        return None
    return json.dumps({key: value[: longest[key]] if key in longest else value for key, value in fields.items()})


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise ValueError("a key is repeated")
    return dict(pairs)


_decoded = json.JSONDecoder(object_pairs_hook=_unique_keys).decode  # made once: `json.loads` makes one for each text


def _failure_class(error: ValidationError) -> FailureClass:
    """`out_of_range` if every field in error is of the right type and only outside its bounds."""
    kinds: dict[str, set[str]] = {}
    for problem in error.errors(include_url=False, include_context=False):
        kind = problem["type"]
        if kind == "literal_error" and not isinstance(problem["input"], str):
            kind = "no_word"
        where = str(problem["loc"][0]) if problem["loc"] else ""
        kinds.setdefault(where, set()).add(kind)
    # A choice ("stop", "continue") is out of range when it is another word. In a union with a number the
    # number's own error decides.
    in_shape = all(found & _RANGE_ERRORS or found == {"literal_error"} for found in kinds.values())
    return "out_of_range" if in_shape else "invalid_json"


def _first_problem(error: ValidationError) -> str:
    problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in problem["loc"])
    return one_line(f"{where}: {problem['msg']}" if where else problem["msg"], 200)


MAX_FREE_TEXT = 1_000_000  # characters; what a model writes freely ends at its tokens, long before
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")


class ReplyModel(StrictModel):
    """Base of the replies of a game: strict, and told which field may be written freely."""

    free: ClassVar[str] = ""  # the field that free text becomes; "" for none
    labels: ClassVar[Mapping[str, str]] = {}  # of fields that are not called like their label


@cache
def schema_of(model: type[BaseModel]) -> Mapping[str, Any]:
    """Return the JSON schemas of the fields of a reply, in the order in which they are asked for."""
    return dict(model.model_json_schema()["properties"])


def free_field(model: type[BaseModel]) -> str:
    """Return the name of the field that free text becomes; "" for none."""
    return str(getattr(model, "free", ""))


def labels(model: type[BaseModel]) -> dict[str, str]:
    """Return the label of each field that has lines of its own, by the field's name, in their order."""
    known: Mapping[str, str] = getattr(model, "labels", {})
    return {
        name: known.get(name, name.replace("_", " ").capitalize())
        for name in schema_of(model)
        if name != free_field(model)
    }


def labels_first(model: type[BaseModel]) -> bool:
    """Whether the labeled lines come before the free text."""
    fields = list(schema_of(model))
    return free_field(model) in fields[1:]


def read_text(text: str, finish_reason: str, model: type[BaseModel]) -> Reply:
    """Parse one reply in free text as strictly as JSON: without each labeled line it is `invalid_json`."""
    if finish_reason in _ENDED:
        return parse_reply(text, finish_reason, model)
    schemas, first = schema_of(model), labels_first(model)
    lines = text.split("\n")
    fields: dict[str, Any] = {}
    named = labels(model).items()
    for name, label in named if first else reversed(named):  # as their lines are met
        listed = schemas[name].get("type") == "array"
        values = _taken(lines, label, first, len(lines) if listed else 1)
        if not values:
            return Reply(None, "invalid_json", f"no {'first' if first else 'last'} line that begins with {label}:")
        fields[name] = values if listed else _typed(values[0], schemas[name])
    if free := free_field(model):
        fields[free] = "\n".join(lines).strip()[: schemas[free].get("maxLength")]
    return parse_reply(json.dumps(fields), "stop", model)


def _taken(lines: list[str], label: str, first: bool, most: int) -> list[str]:
    """Take lines with a label, `most` at most, from one end of `lines`; return what stands behind it, in order."""
    line_of = re.compile(rf"\**{re.escape(label)}\**:(.*)")
    end = 0 if first else -1
    found: list[str] = []
    while lines and len(found) < most:
        line = lines[end].strip()
        matched = line_of.fullmatch(line)
        if line and not matched:
            break
        lines.pop(end)
        if matched:
            found.append(matched[1].strip().strip("*").strip())
    return found if first else found[::-1]


def _typed(value: str, schema: Mapping[str, Any]) -> str | int:
    """Return a value as JSON would have it: an integer where one is asked for, else text."""
    kinds = {kind.get("type") for kind in schema.get("anyOf", [schema])}
    return int(value) if "integer" in kinds and _INTEGER.fullmatch(value) else value


# Any format


class FreeText(ReplyModel):
    """What an agent wrote freely."""

    text: Annotated[str, Field(max_length=MAX_FREE_TEXT)]


class Reading(NamedTuple):
    """How replies of an agent are read: whether long texts are cut to their fields, and a Markdown fence comes off."""

    cut_texts: bool = False
    code_fence: bool = False


AS_WRITTEN = Reading()


_FENCE = "```"
_FENCE_LINE = re.compile(rf"{_FENCE}[A-Za-z]*")


def without_fence(text: str) -> str:
    """Return what stands in the one Markdown code fence that a text is; the text itself where it is anything else."""
    first, _, rest = text.strip().partition("\n")
    inside, _, last = rest.rpartition("\n")
    fenced = _FENCE_LINE.fullmatch(first.rstrip()) and last.strip() == _FENCE
    again = any(line.lstrip().startswith(_FENCE) for line in inside.split("\n"))
    return inside if fenced and not again else text


def read_reply(ask: Ask, text: str, finish_reason: str, reading: Reading = AS_WRITTEN) -> Reply:
    """Return what a reply says, in the format that was asked for."""
    return replace(_read(ask, text, finish_reason, reading), text=text)


def _read(ask: Ask, text: str, finish_reason: str, reading: Reading) -> Reply:
    if reading.code_fence:
        text = without_fence(text)
    if ask.reply_format == "text":
        return read_text(text, finish_reason, ask.reply_model)
    if ask.reply_format != "free":
        return parse_reply(text, finish_reason, ask.reply_model, reading.cut_texts)
    if finish_reason in _ENDED and not (finish_reason == "length" and text.strip()):
        return parse_reply(text, finish_reason, ask.reply_model)
    if not text.strip():
        return Reply(None, "invalid_json", "nothing was written")
    return Reply(FreeText(text=text[:MAX_FREE_TEXT]))
