"""The real workflow on a game that keeps a ledger, which its processes learn of when they start."""

import os
from pathlib import Path

import pytest
import yaml

from parley import paths
from parley.study import Study, load_study
from support import REPOSITORY
from support.workflows import jobs, snakemake

pytestmark = [
    pytest.mark.promise("The ledger is a stage of its own; other settings of it play nothing."),
    pytest.mark.slow,
]

STARTED_WITH = """
import sys
sys.path.insert(0, {tests!r})
from support.playing import CouncilGame
from parley.games.registry import GAMES
GAMES[CouncilGame.name] = CouncilGame
"""


def write(**changes: object) -> Study:
    grid = {"model": "majority", "n": 3, "b": [0, 1], "prompt": "may_exist", "byzantine": "random"}
    content = {"game": "council", "seeds": 2, "parameters": {"max_rounds": 3}, "grids": [grid], **changes}
    Path("small.yaml").write_text(yaml.safe_dump(content))
    return load_study(Path("small.yaml"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, council: None) -> Path:
    """A working directory whose processes know the game of `council.py`."""
    monkeypatch.chdir(tmp_path)
    start = tmp_path / "start"
    start.mkdir()
    (start / "sitecustomize.py").write_text(STARTED_WITH.format(tests=str(REPOSITORY / "tests")))
    known = [str(start), str(REPOSITORY / "src"), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PARLEY_PROGRESS", "snakemake")  # which prints its table of jobs
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, known)))
    Path("models.yaml").write_text((REPOSITORY / "config" / "models.yaml").read_text())
    return tmp_path


def played(*arguments: str) -> dict[str, int]:
    """Run the workflow, and return the jobs that it planned and ran."""
    ran = snakemake(*arguments, "--config", "study=small.yaml")
    assert ran.returncode == 0, ran.stderr
    return jobs(ran.stdout + ran.stderr)


def planned() -> dict[str, int]:
    return played("--dry-run")


@pytest.mark.rare
@pytest.mark.usefixtures("folder")
def test_the_ledger_is_a_stage_of_its_own_that_follows_its_settings() -> None:
    study = write()
    assert played()["ledger"] == 1
    made = [
        paths.ledger("small"),
        paths.ledger_head(paths.ledger("small")),
        paths.stamp("small", "ledger", study.ledger_plan),
        *(paths.table("small", "ledger", suffix) for suffix in (".csv", ".parquet")),
    ]
    assert all(path.stat().st_size for path in made)
    before = paths.ledger("small").read_bytes()
    assert planned() == {}

    # Other settings make the ledger anew, and what shows it; nothing is played.
    limited = write(ledger={"block_limit": 1})
    counts = played()
    assert (counts["ledger"], counts["figures"], counts["report"]) == (1, 1, 1)
    assert not {"simulate_shard", "summarize"} & set(counts)
    assert planned() == {}
    assert list(made[2].parent.glob("plan-*")) == [paths.stamp("small", "ledger", limited.ledger_plan)]

    # Back again: the same bytes.
    write()
    assert played()["ledger"] == 1
    assert paths.ledger("small").read_bytes() == before

    # What is missing is made again, with what shows it.
    paths.ledger("small").unlink()
    counts = planned()
    assert counts["ledger"] == 1
    assert not {"simulate_shard", "summarize"} & set(counts)

    # Added seeds play, and the ledger grows.
    write(seeds=3)
    counts = planned()
    assert (counts["simulate_shard"], counts["ledger"]) == (1, 1)
