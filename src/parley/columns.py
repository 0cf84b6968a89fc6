"""Columns: what a column of a table or of a record is called, its type, its unit, and what it means.

A column is declared once, where what it holds is made. The schemas of the files and docs/data.md follow from it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

NUMBER = "number"
JSON = "JSON"  # the unit of texts that hold JSON


@dataclass(frozen=True)
class Column:
    """One column.

    `name` may have a part in angle brackets that stands for many: `<outcome>_rate`. `type` is an Arrow type or the
    name of one ("int64", "double", "string", "bool"); "" is whatever the values are ("any"), "number" is "double" in
    studies of a game whose values may be fractions, else "int64". `required` columns have no gaps.
    """

    name: str
    type: Any
    text: str
    unit: str = ""
    required: bool = False

    @property
    def arrow(self) -> Any:
        """The type of Arrow (pyarrow.DataType); None for whatever the values are."""
        import pyarrow as pa  # takes a while, and few commands need it

        if self.type == NUMBER:
            return pa.int64()
        return pa.type_for_alias(self.type) if isinstance(self.type, str) and self.type else self.type or None

    @property
    def kind(self) -> str:
        """The type in words, for people; dictionaries are how texts are stored."""
        if self.type == NUMBER:
            return NUMBER
        stored = str(self.arrow or "any")
        return "string" if stored.startswith("dictionary<values=string") else stored


@cache
def described() -> dict[str, Any]:
    """Return what `analysis/columns.yaml` says of axes, tables and other things with columns."""
    content: dict[str, Any] = _read(Path(__file__).with_name("analysis") / "columns.yaml")
    return content


def table_names() -> list[str]:
    """Return the names of the tables that every study has."""
    return [name for name in described()["tables"] if name != "ledger"]


def _read(path: Path) -> Any:
    return yaml.load(path.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def read_columns(path: Path) -> dict[str, tuple[Column, ...]]:
    """Return the columns in each section of a YAML file, which has for each the type, what it means, and its unit."""
    sections = _read(path).items()
    return {key: tuple(Column(name, *spec) for name, spec in columns.items()) for key, columns in sections}


def schema(columns: Iterable[Column]) -> Any:
    """Return the schema of Arrow (pyarrow.Schema) that columns make; those without a type are null."""
    import pyarrow as pa

    return pa.schema([pa.field(each.name, each.arrow or pa.null(), nullable=not each.required) for each in columns])


def find(columns: Iterable[Column], name: str, parts: Mapping[str, Iterable[str]]) -> Column | None:
    """Return the column that is, or stands for, `name`; None if none does.

    `parts` are the words that each part in angle brackets may be; one that is not among them may be any.
    """
    for column in columns:
        before, opened, rest = column.name.partition("<")
        part, _, after = rest.partition(">")
        word = name.removeprefix(before).removesuffix(after)
        stands_for = opened and word and name == before + word + after and word in parts.get(part, [word])
        if column.name == name or stands_for:
            return column
    return None
