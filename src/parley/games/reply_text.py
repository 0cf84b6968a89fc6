"""Replies in free text with labeled lines (`reply_format: text`): how they are read, and the grammar that allows them.

The labeled lines are the last ones of a reply, or the first where the answer is asked for before the argument. Each
holds one field; a field that is a list has a line for each item. What else was written becomes the free field.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from parley.games.base import Reply, parse_reply

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_MOST_LISTED = 1_000  # integers that a grammar lists one by one


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


# The grammar


@cache
def text_pattern(model: type[BaseModel]) -> str:
    """Return the regular expression of the replies that a model may write: any lines, and the labeled ones.

    A line that begins with a label is no free line, so that a reply ends after the labeled ones.
    """
    named = labels(model)
    lines = [_lines(label, schema_of(model)[name]) for name, label in named.items()]
    if labels_first(model):
        return "\n".join(lines).replace("\n", r"\n") + r"(\n[^\n]*)*"
    other = _not_beginning([f"{label}:" for label in named.values()])
    return rf"(({other})?\n)*" + r"\n".join(lines)


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


def _not_beginning(texts: Collection[str]) -> str:
    """Return the regular expression of lines, of one character at least, that begin with none of `texts`."""
    longer = {text[0]: [other[1:] for other in texts if other[0] == text[0]] for text in texts}
    found = [f"[^{''.join(map(_escaped, longer))}\\n][^\\n]*"]
    found += [f"{_escaped(sign)}({_not_beginning(rest)})?" for sign, rest in longer.items() if "" not in rest]
    return "|".join(found)


def _escaped(text: str) -> str:
    """Return a text as a regular expression that every engine reads alike."""
    return "".join(_escapes(text))


def _escapes(text: str) -> Iterator[str]:
    for sign in text:
        yield f"\\{sign}" if sign in r".^$*+?{}[]\|()" else sign
