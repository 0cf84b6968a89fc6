"""Replies in free text with labeled lines (`reply_format: text`): how they are read, and the grammar that allows them.

The labeled lines are the last ones of a reply, or the first where the answer is asked for before the argument. Each
holds one field; a field that is a list has a line for each item. What else was written becomes the free field.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from parley.games.base import Reply, parse_reply

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_MOST_LISTED = 1_000  # integers that a grammar lists one by one
_FREE_CHARS = 400  # of free text that becomes no field


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


# The grammar


@cache
def text_pattern(model: type[BaseModel]) -> str:
    """Return the regular expression of the replies that a model may write: free text, and the labeled lines.

    Free text has at most as many characters as its field, as in JSON, so that a reply comes to its labeled lines.
    """
    lines = r"\n".join(_lines(label, schema_of(model)[name]) for name, label in labels(model).items())
    most = schema_of(model).get(free_field(model), {}).get("maxLength", _FREE_CHARS)
    free = rf"[^\0]{{0,{most}}}"
    return rf"{lines}(\n{free})?" if labels_first(model) else rf"({free}\n)?{lines}"


# Signs and classes of a regular expression, of which all others are plain characters.
_PIECE = re.compile(r"\[(?:\\.|[^\]\\])*\]|\{\d+(?:,\d+)?\}|[()|?*+]|\\n|\\?(.)")


@cache
def text_grammar(model: type[BaseModel]) -> str:
    """Return the same as a grammar in EBNF, which xgrammar compiles without the time limit of expressions."""

    def piece(found: re.Match[str]) -> str:
        if found[0] == r"\n":
            return r'"\n"'
        return json.dumps(found[1]) if found[1] else found[0]

    return "root ::= " + " ".join(piece(found) for found in _PIECE.finditer(text_pattern(model)))


def _lines(label: str, schema: Mapping[str, Any]) -> str:
    if schema.get("type") == "array":
        one = f"{_escaped(label)}: ({_value(schema['items'])})"
        return rf"{one}(\n{one}){{0,{schema.get('maxItems', 100) - 1}}}"
    return f"{_escaped(label)}: ({_value(schema)})"


def _value(schema: Mapping[str, Any]) -> str:
    """Return the regular expression of the values that a JSON schema allows, on one line."""
    if "anyOf" in schema:
        return "|".join(_value(part) for part in schema["anyOf"])
    if "const" in schema or "enum" in schema:
        return "|".join(_escaped(str(value)) for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "integer":
        return _integers(schema.get("minimum"), schema.get("maximum"))
    if "pattern" in schema:
        return str(schema["pattern"]).removeprefix("^").removesuffix("$")
    return rf"[^\n]{{1,{schema.get('maxLength', 1_000)}}}"


def _integers(low: int | None, high: int | None) -> str:
    if low is None or high is None or high - low >= _MOST_LISTED:
        return "-?(0|[1-9][0-9]{0,17})"
    return "|".join(str(number) for number in range(low, high + 1))


def _escaped(text: str) -> str:
    """Return a text as a regular expression that every engine reads alike."""
    return "".join(_escapes(text))


def _escapes(text: str) -> Iterator[str]:
    for sign in text:
        yield f"\\{sign}" if sign in r".^$*+?{}[]\|()" else sign
