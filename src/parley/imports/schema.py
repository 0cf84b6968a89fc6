"""The JSON schema of a line of the plain format: `python -m parley.imports.schema` writes it."""

from typing import Any

from parley import paths
from parley.imports.jsonl import ReplyLine
from parley.study.schema import text

NAME = "reply"


def schema() -> dict[str, Any]:
    """Return the schema of one line."""
    return ReplyLine.model_json_schema()


def main() -> None:
    """Write the schema file."""
    path = paths.schema(NAME)
    path.write_text(text(schema()), encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main()
