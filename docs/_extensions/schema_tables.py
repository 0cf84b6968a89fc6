"""Turns a JSON schema of pydantic into Markdown: a section for each group of keys, a row for each key."""

import json
from typing import Any

Schema = dict[str, Any]


def markdown(schema: Schema) -> str:
    """Return a page for a schema: its own keys first, then those of each definition, in the order of first use."""
    parts = [_section(schema.get("description", ""), schema)]
    for name in _used(schema):
        definition = schema["$defs"][name]
        if "properties" in definition:
            parts.append(f"## {name}\n\n{_section(definition.get('description', ''), definition)}")
    return "\n".join(parts)


def _section(description: str, schema: Schema) -> str:
    required = set(schema.get("required", ()))
    rows = [
        f"| `{key}` | {_kind(value)} | {_default(key, value, required)} | {_cell(value.get('description', ''))} |"
        for key, value in schema["properties"].items()
    ]
    summary = description.split("\n\n")[0]  # what follows is for those who read the code
    head = f"{summary}\n\n" if summary else ""
    if not rows:
        return f"{head}No keys.\n"
    return "\n".join([f"{head}| key | value | default | meaning |", "|---|---|---|---|", *rows, ""])


def _used(schema: Schema) -> list[str]:
    """Return the names of all definitions that a schema uses, in the order of first use, depth last."""
    names: list[str] = []

    def look(node: Any) -> None:
        if isinstance(node, dict):
            if "$ref" in node:
                name = node["$ref"].rsplit("/", 1)[1]
                if name not in names:
                    names.append(name)
            for key, value in node.items():
                if key != "$defs":
                    look(value)
        elif isinstance(node, list):
            for value in node:
                look(value)

    look(schema)
    for name in names:  # grows while it is read
        look(schema["$defs"][name])
    return names


def _kind(value: Schema) -> str:
    """Say in a few words what a value may be."""
    if "$ref" in value:
        name = value["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    if "enum" in value:
        return " or ".join(f"`{choice}`" for choice in value["enum"])
    if "const" in value:
        return f"`{value['const']}`"
    for key in ("anyOf", "oneOf"):
        if key in value:
            kinds = [_kind(option) for option in value[key] if option.get("type") != "null"]
            return " or ".join(dict.fromkeys(kind for kind in kinds if kind != "any value")) or "any value"
    kind = value.get("type")
    if kind == "array":
        return f"list of {_kind(value.get('items', {}))}"
    if kind == "object":
        inner = value.get("additionalProperties")
        return f"mapping to {_kind(inner)}" if isinstance(inner, dict) and inner else "mapping"
    if kind in ("integer", "number"):
        return f"{kind}{_bounds(value)}"
    return {"string": "text", "boolean": "true or false"}.get(str(kind), "any value")


def _bounds(value: Schema) -> str:
    low, above = value.get("minimum"), value.get("exclusiveMinimum")
    high = value.get("maximum")
    words = [f"from {_number(low)}" if low is not None else f"above {_number(above)}" if above is not None else ""]
    words.append(f"to {_number(high)}" if high is not None else "")
    text = " ".join(word for word in words if word)
    return f" {text}" if text else ""


def _number(value: float) -> str:
    return f"{int(value) if value == int(value) else value:,}"


def _default(key: str, value: Schema, required: set[str]) -> str:
    if key in required:
        return "required"
    default = value.get("default")
    if isinstance(default, dict):
        default = {name: inner for name, inner in default.items() if inner is not None}
    return "" if default in (None, "", [], {}) else f"`{_cell(json.dumps(default, ensure_ascii=False))}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
