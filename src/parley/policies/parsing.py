"""Replies in JSON, parsed strictly: a value of exactly the asked shape, or a failure by class."""

import json
from typing import Any

from pydantic import BaseModel, ValidationError

from parley.policies import FailureClass, Reply
from parley.text import one_line

_RANGE_ERRORS = {
    "greater_than",
    "greater_than_equal",
    "less_than",
    "less_than_equal",
    "string_pattern_mismatch",
    "string_too_long",
    "string_too_short",
    "too_long",
    "too_short",
}


def parse_reply(text: str, finish_reason: str, model: type[BaseModel], cut: bool = False) -> Reply:
    """Parse one reply strictly: JSON of exactly the asked shape, or a failure by class.

    A number written as a string, a float, a boolean, a repeated or an unknown key is `invalid_json`; the right
    shape with a value outside its bounds is `out_of_range`. `finish_reason` is OpenAI's: "length" is a reply
    that was cut off, "content_filter" one that was refused. With `cut`, texts without a pattern that are longer than
    their fields are cut to them; elsewhere they are `out_of_range`, too.
    """
    if finish_reason == "length":
        return Reply(None, "length", "cut off at max_tokens, or the prompt did not fit the context")
    if finish_reason == "content_filter":
        return Reply(None, "refused", "refused by the engine or the model")
    try:
        fields = json.loads(text, object_pairs_hook=_unique_keys)
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
    # Keys are named, and keys are the agent's own words.
    return one_line(f"{where}: {problem['msg']}" if where else problem["msg"], 200)
