"""The API at work: the import, reading from anywhere, how objects show themselves."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import parley
from parley import paths
from parley.errors import UsageError
from support.records import forge
from support.studies import make_demo, with_model

pytestmark = pytest.mark.promise(
    "`import parley` is cheap, and reads results from any folder without weights or the model's entry."
)

HOSTILE = "<script>alert(1)</script>\u202e\x1b[2J\nand a second line " + 60 * "x"


# The import


@pytest.mark.slow
def test_the_import_is_cheap() -> None:
    heavy = "{'numpy', 'pandas', 'pyarrow', 'pydantic', 'matplotlib', 'asyncio', 'parley.api'}"
    code = f"import sys, parley; print(parley.__version__, sorted({heavy} & set(sys.modules)), 'load' in dir(parley))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.strip() == f"{parley.__version__} [] True"


# Reading from anywhere


def test_studies_in_two_folders_are_open_at_once(root: Path, loose: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    first, second = parley.load("demo", root), parley.load("demo", loose)
    for study, folder in ((first, root), (second, loose)):
        assert study.results().records[0].path.is_relative_to(folder)
    with ThreadPoolExecutor(2) as threads:
        frames = list(threads.map(lambda study: study.results().rounds, [first, second] * 2))
    assert all(len(set(frame["id"])) == 18 for frame in frames)
    assert Path.cwd() == Path("/")
    assert paths.root() == Path()
    by_path = parley.load(root / "config" / "demo.yaml", root)
    assert by_path.results().records[0].replay().identical


@pytest.mark.parametrize("entries", [None, f"models: {{other: {{source: {{repo: o/other, revision: {'b' * 40}}}}}}}"])
def test_results_are_read_without_the_entry_of_their_model(tmp_path: Path, entries: str | None) -> None:
    models = with_model(tmp_path)
    spec = parley.load("demo", tmp_path).conditions["spec"].tolist()
    models.unlink()
    if entries:
        models.write_text(entries)
    study = parley.load("demo", tmp_path)
    assert study.conditions["spec"].tolist() == spec
    assert set(study.results().rounds["model"]) == {"tiny"}
    assert study.results().records[0].replay().identical
    assert set(study.results().attempts["player"]) == {"tiny"}
    with pytest.raises(UsageError, match="no entry 'tiny'; add it to play, or give endpoint="):
        parley.run(study.play())


# How objects show themselves


@pytest.mark.slow
def test_objects_fit_on_three_lines_and_in_a_table(tmp_path: Path) -> None:
    grid = {"model": "majority", "n": 3, "b": 0, "prompt": "may_exist"}
    make_demo(tmp_path, title=HOSTILE.replace("\n", " ").replace("\x1b", " "), grids=[grid], seeds=1)
    study = parley.load("demo", tmp_path)
    [record] = study.results().records
    forge(record.path, meta=lambda meta: meta["outcome"].update(detail=HOSTILE, diagnosis="<b>won</b>"))
    for found in (study, parley.run(study.play()), study.results(), record):
        text, page = repr(found), found._repr_html_()
        assert len(text.splitlines()) <= 3
        assert max(map(len, text.splitlines())) <= 110
        assert all(character.isprintable() for line in text.splitlines() for character in line)
        assert page.startswith("<table")
        assert not any(part in page for part in ("<script", "<b>", "\u202e"))
    assert "&lt;script&gt;" in study._repr_html_()
