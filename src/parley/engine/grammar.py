"""What holds a model to the form of a reply: the grammar that goes with each request, and its part of an identity."""

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal

from pydantic import BaseModel

from parley.engine.service.dialect import PLAIN, Dialect
from parley.policies import Ask

GrammarVersion = Literal[1, 2]
LATEST: GrammarVersion = 2
MAX_WHITE_SPACE = 12  # characters in a row: a line break with its indent, and no way to fill a whole reply
# What an identity and a record say of each version of the grammar of servers of ours.
OF_OWN_SERVERS: Mapping[GrammarVersion, str] = {
    1: f"xgrammar, JSON schema, white space up to {MAX_WHITE_SPACE}",
    2: f"xgrammar, JSON schema without lengths, white space up to {MAX_WHITE_SPACE}",
}


def grammar_version(name: str | None) -> GrammarVersion | None:
    """Return which version of our grammar a record names; None for another one, or a service's."""
    return next((version for version, known in OF_OWN_SERVERS.items() if known == name), None)


def constraint(
    ask: Ask, of_service: bool, dialect: Dialect = PLAIN, version: GrammarVersion = LATEST
) -> Mapping[str, Any]:
    """Return the fields of a request that hold the model to the form that is asked for.

    Services get OpenAI's `response_format`, as far as their dialect has it. Servers of ours get xgrammar's structural
    tag, which leaves a model the white space that it would write by itself, and bounds it; JSON without any damages
    replies. Free text is held by nothing: a model that may not stop before its last line goes on after its end
    (docs/explanation/reply-formats.md).
    """
    if ask.reply_format != "json" or (of_service and dialect.structured == "none"):
        return {}
    if not of_service:
        return {"structured_outputs": {"structural_tag": _structural_tag(ask.reply_model, version)}}
    if dialect.structured == "json_object":
        return {"response_format": {"type": "json_object"}}
    schema = json_schema(ask.reply_model)
    named = {"name": ask.phase, "schema": schema if dialect.schema_lengths else _strict(schema), "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


@cache
def _structural_tag(model: type[BaseModel], version: GrammarVersion) -> str:
    schema = json_schema(model) if version == 1 else _without_lengths(json_schema(model))
    form = {"type": "json_schema", "json_schema": schema, "max_whitespace_cnt": MAX_WHITE_SPACE}
    return json.dumps({"type": "structural_tag", "format": form})


# Up to so many characters a bound within a pattern costs nothing that can be measured.
_LONG_REPEAT = re.compile(r"\{([01]),(?:[2-9]\d|\d{3,})\}")


def _without_lengths(schema: Mapping[str, Any]) -> Any:
    """Return a schema without what bounds how long a text may be, which the parser sees to.

    Each character that a bound counts is a state of xgrammar's automaton, whose masks are found for each token: ten
    seconds to compile, and ten to a hundred times as slow for each token (benchmarks/README.md).
    """

    def open_pattern(part: dict[str, Any]) -> None:
        if isinstance(pattern := part.get("pattern"), str):
            part["pattern"] = _LONG_REPEAT.sub(lambda found: "+" if found[1] == "1" else "*", pattern)

    return _rewritten(schema, frozenset(("maxLength",)), open_pattern)


# Keywords that OpenAI refuses; what they say is checked when the reply is parsed.
_NOT_STRICT = frozenset(("minLength", "maxLength", "default", "uniqueItems"))


def _strict(schema: Mapping[str, Any]) -> Any:
    """Return a schema in the part of JSON Schema that OpenAI takes: no lengths of texts, and no property left out."""

    def require_all(part: dict[str, Any]) -> None:
        if "properties" in part:
            part["required"] = list(part["properties"])

    return _rewritten(schema, _NOT_STRICT, require_all)


def _rewritten(schema: Any, without: frozenset[str], change: Callable[[dict[str, Any]], None]) -> Any:
    """Return a schema `without` some keywords, after a `change` to each of its parts."""
    if isinstance(schema, list):
        return [_rewritten(part, without, change) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    rewritten = {key: _rewritten(part, without, change) for key, part in schema.items() if key not in without}
    if "properties" in schema:  # their names are no keywords
        rewritten["properties"] = {
            name: _rewritten(part, without, change) for name, part in schema["properties"].items()
        }
    change(rewritten)
    return rewritten


@cache
def json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a reply, with its bounds and lengths."""
    return model.model_json_schema()
