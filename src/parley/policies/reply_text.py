"""Replies in free text with labeled lines (`reply_format: text`), and how they are read.

The labeled lines are the last ones of a reply, or the first where the answer is asked for before the argument. Each
holds one field; a field that is a list has a line for each item. What else was written becomes the free field.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from parley.policies import Reply
from parley.policies.parsing import parse_reply

MAX_FREE_TEXT = 1_000_000  # characters; what a model writes freely ends at its tokens, long before
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")


class ReplyModel(BaseModel):
    """Base of the replies of a game: strict, and told which field may be written freely."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

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
    """Parse one reply in free text as strictly as JSON: without each labeled line in its place it is `invalid_json`.

    Around a label and a value only white space and asterisks of emphasis may stand; blank lines count for nothing. The
    values are then what they would be in JSON, and fail as they would.
    """
    if finish_reason in ("length", "content_filter"):
        return parse_reply(text, finish_reason, model)
    schemas, first = schema_of(model), labels_first(model)
    lines = text.split("\n")
    fields: dict[str, Any] = {}
    for name, label in _in_turn(labels(model), first):
        listed = schemas[name].get("type") == "array"
        values = _taken(lines, label, first, len(lines) if listed else 1)
        if not values:
            return Reply(None, "invalid_json", f"no {'first' if first else 'last'} line that begins with {label}:")
        fields[name] = values if listed else _typed(values[0], schemas[name])
    if free := free_field(model):
        fields[free] = "\n".join(lines).strip()[: schemas[free].get("maxLength")]
    return parse_reply(json.dumps(fields), "stop", model)


def _in_turn(named: Mapping[str, str], first: bool) -> list[tuple[str, str]]:
    """Return names and labels in the order in which their lines are met, from the end of a text that has them."""
    return list(named.items()) if first else list(named.items())[::-1]


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
