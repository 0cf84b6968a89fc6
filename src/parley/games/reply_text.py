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

from parley.games.base import Reply, parse_reply

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
    """Parse one reply in free text as strictly as JSON: a missing or doubtful line is `invalid_json`.

    Around a label and a value only white space and asterisks of emphasis may stand; blank lines count for nothing. A
    label may be repeated with the same value. The values are then what they would be in JSON, and fail as they would.
    """
    if finish_reason in ("length", "content_filter"):
        return parse_reply(text, finish_reason, model)
    names = labels(model)
    first = labels_first(model)
    found, rest = _taken_apart(text, names, first)
    schemas = schema_of(model)
    fields: dict[str, Any] = {}
    for name, label in names.items():
        values = list(dict.fromkeys(found.get(label, [])))
        if not values:
            return Reply(None, "invalid_json", f"no {'first' if first else 'last'} line that begins with {label}:")
        if schemas[name].get("type") == "array":
            fields[name] = values
        elif len(values) > 1:
            return Reply(None, "invalid_json", f"several lines that begin with {label}:")
        else:
            fields[name] = _typed(values[0], schemas[name])
    if free := free_field(model):
        fields[free] = rest[: schemas[free].get("maxLength")]
    return parse_reply(json.dumps(fields), "stop", model)


def _taken_apart(text: str, names: Mapping[str, str], first: bool) -> tuple[dict[str, list[str]], str]:
    """Return the values of the labeled lines at one end of a text, by label, and what else stands there."""
    lines = text.strip().split("\n")
    order = range(len(lines)) if first else range(len(lines) - 1, -1, -1)
    any_label = "|".join(re.escape(label) for label in names.values())
    line_of = re.compile(rf"\**({any_label})\**:(.*)")
    found: dict[str, list[str]] = {}
    rest = lines
    for place in order:
        line = lines[place].strip()
        matched = line_of.fullmatch(line)
        if line and not matched:
            rest = lines[place:] if first else lines[: place + 1]
            break
        if matched:
            value = matched[2].strip().strip("*").strip()
            found.setdefault(matched[1], []).insert(len(found.get(matched[1], [])) if first else 0, value)
    else:
        rest = []
    return found, "\n".join(rest).strip()


def _typed(value: str, schema: Mapping[str, Any]) -> str | int:
    """Return a value as JSON would have it: an integer where one is asked for, else text."""
    kinds = {kind.get("type") for kind in schema.get("anyOf", [schema])}
    return int(value) if "integer" in kinds and _INTEGER.fullmatch(value) else value
