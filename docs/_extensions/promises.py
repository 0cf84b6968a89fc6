"""Lists what tests promise, from their marker `promise`, in Markdown."""

import ast
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

TESTS = Path(__file__).parents[2] / "tests"


def promises() -> Iterator[tuple[str, str]]:
    """Yield each promise with what shows it: a file of tests, or one test of it. Nothing is imported."""
    for file in sorted(TESTS.rglob("test_*.py")):
        name = file.relative_to(TESTS).as_posix()
        for statement in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                marks, shows = statement.decorator_list, f"{name}::{statement.name}"
            elif isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "pytestmark":
                marks, shows = [statement.value], name
            else:
                continue
            for node in (node for mark in marks for node in ast.walk(mark)):
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.promise":
                    yield ast.literal_eval(node.args[0]), shows


def markdown() -> str:
    """Return the promises by room, each with the tests that show it."""
    parts = []
    for room, rows in groupby(promises(), key=lambda row: row[1].split("/")[0]):
        lines = "".join(f"- {promise} `{shows}`\n" for promise, shows in rows)
        parts.append(f"### {room}\n\n{lines}")
    return "\n".join(parts)
