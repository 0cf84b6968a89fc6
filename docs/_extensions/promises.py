"""The list of promises in docs/verification.md, from the marker `promise` on tests: `make verification`."""

import ast
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

TESTS = Path(__file__).parents[2] / "tests"
PAGE = Path(__file__).parents[1] / "verification.md"
BEGIN, END = "<!-- made by `make verification` -->\n", "<!-- end -->\n"


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


def listed() -> str:
    """Return the promises by room, each with the tests that show it, in Markdown."""
    parts = []
    for room, rows in groupby(promises(), key=lambda row: row[1].split("/")[0]):
        lines = "".join(f"- {promise} `{shows}`\n" for promise, shows in rows)
        parts.append(f"### {room}\n\n{lines}\n")
    return "\n" + "".join(parts)


def page() -> str:
    """Return the whole page: what is written by hand around the list of now."""
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    return f"{before}{BEGIN}{listed()}{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
