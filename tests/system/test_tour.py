"""The tour, a notebook: its cells run one after another, as Jupyter runs them, and their outputs can be shown."""

import ast
import asyncio
import inspect
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
import pytest

from support import REPOSITORY

pytestmark = pytest.mark.promise("The tour runs from any folder and shows what its text says.")

TOUR = REPOSITORY / "examples" / "tour.ipynb"


def cells(kind: str) -> list[str]:
    return [cell.source for cell in nbformat.read(TOUR, as_version=4).cells if cell.cell_type == kind]


async def run(source: str, names: dict[str, Any]) -> Any:
    """Run a cell, which may await, and return the value of its last line if that is an expression."""
    value = None
    for statement in ast.parse(source).body:
        shown = isinstance(statement, ast.Expr)
        tree = ast.Expression(statement.value) if shown else ast.Module([statement], [])
        code = compile(tree, TOUR.name, "eval" if shown else "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        value = eval(code, names)  # noqa: S307
        if code.co_flags & inspect.CO_COROUTINE:
            value = await value
    return value


async def run_all(names: dict[str, Any]) -> list[Any]:
    """Run all cells in one event loop, as a notebook has one, and return what they show."""
    return [await run(source, names) for source in cells("code")]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Work in an empty folder that is not the repository; what the tour imports and writes is gone afterwards."""
    for name in ("work", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield tmp_path / "work"
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(REPOSITORY / "examples")):
            del sys.modules[name]


@pytest.mark.rare
def test_the_tour_runs_from_any_folder_and_shows_what_its_text_says(elsewhere: Path) -> None:
    names: dict[str, Any] = {}
    shown = asyncio.run(run_all(names))
    assert len(names["study"].conditions) == 3
    assert names["results"].conditions["simulations"].tolist() == [20] * 3
    assert names["results"].conditions["valid_consensus_rate"][0] == 1
    assert names["figure"]._repr_png_().startswith(b"\x89PNG")
    assert names["record"].outcome["name"] == names["wrong"]["outcome"].iloc[0] != "valid_consensus"
    assert True in [value for value in shown if isinstance(value, bool)]  # the replay
    *_, played, contributions = [value for value in shown if value is not None]
    compared = names["outcomes"]
    assert [sum(counts.values()) for counts in compared.values()] == [10] * 3
    assert compared["Median-faults-1"]["no_consensus"] < compared["Median"]["no_consensus"]
    assert played.outcome.name == "free_riding"
    assert isinstance(contributions, pd.DataFrame)
    assert contributions.to_numpy().tolist() == [[20, 13, 8, 5, 3, 2, 1, 0, 0, 0]] * 3 + [[0] * 10]
    for value in shown:
        assert value is None or repr(value)
    assert (names["lab"] / "results" / "first" / "report" / "report.html").is_file()
    assert list(elsewhere.iterdir()) == []


def test_the_tour_is_stored_without_outputs_and_as_jupyter_writes_it() -> None:
    notebook = nbformat.read(TOUR, as_version=4)
    nbformat.validate(notebook)
    assert [cell.outputs for cell in notebook.cells if cell.cell_type == "code" and cell.outputs] == []
    assert {cell.execution_count for cell in notebook.cells if cell.cell_type == "code"} == {None}
    assert notebook.metadata.kernelspec.name == "python3"
    assert TOUR.read_text(encoding="utf-8") == nbformat.writes(notebook) + "\n"
