"""The real workflow on a study whose paths moved: a new axis, another name."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from parley import paths
from parley.play.record import read_description
from parley.study import Study, load_study
from support.studies import MODELS
from support.workflows import jobs, snakemake

pytestmark = pytest.mark.slow

PARLEY = [sys.executable, "-m", "parley.cli"]
GRID = {"model": "majority", "n": [3, 4], "b": [0, 1], "prompt": "may_exist", "byzantine": "random"}


def write(name: str = "small", **grid: object) -> Study:
    content = {"game": "consensus", "seeds": 2, "parameters": {"max_rounds": 3}, "grids": [GRID | grid]}
    Path("models.yaml").write_text(yaml.safe_dump(MODELS))
    Path(f"{name}.yaml").write_text(yaml.safe_dump(content))
    return load_study(Path(f"{name}.yaml"))


def contents(study: str) -> dict[str, bytes]:
    return {
        read_description(path)["id"]: path.read_bytes() for path in sorted(paths.simulations(study).rglob("*.parquet"))
    }


def parley(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PARLEY, *arguments], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def played_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("played")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        write()
        result = snakemake("--config", "study=small.yaml")
    assert result.returncode == 0, result.stderr
    return made


@pytest.fixture
def played(played_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The records of a study that the workflow has played, which is in the working directory."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(played_once, tmp_path, symlinks=True, dirs_exist_ok=True)
    return contents("small")


def test_a_new_axis_plays_nothing_again(played: dict[str, bytes]) -> None:
    study = write(byzantine=["random"])
    before = sorted(paths.simulations("small").rglob("*"))
    planned = snakemake("--dry-run", "--config", "study=small.yaml")
    told = planned.stdout + planned.stderr
    assert "8 finished simulations lie at former paths" in told
    assert jobs(told) == {"all": 1, "summarize": 1, "figures": 1, "report": 1, "view": 1, "total": 5}
    assert sorted(paths.simulations("small").rglob("*")) == before, "a dry run moves nothing"

    result = snakemake("--config", "study=small.yaml")
    assert result.returncode == 0, result.stderr
    assert "8 finished simulations were moved" in result.stdout + result.stderr
    assert not list(paths.log("small", "simulate_shard").parent.glob("simulate_shard/**/*.failed"))
    assert contents("small") == played
    planned_records = {simulation.record("small") for simulation in study.simulations()}
    assert set(paths.simulations("small").rglob("*.parquet")) == planned_records
    again = snakemake("--dry-run", "--config", "study=small.yaml")
    assert "Nothing to be done" in again.stdout + again.stderr


def test_a_record_that_is_named_and_moved_is_not_deleted(played: dict[str, bytes]) -> None:
    """Snakemake deletes the outputs of what it is about to run, and would have planned to play this one."""
    study = write(byzantine=["random"])
    record = next(study.simulations()).record("small")
    result = snakemake("--config", "study=small.yaml", "--", str(record))
    assert result.returncode == 0, result.stderr
    assert contents("small") == played


def test_a_renamed_study_plays_nothing_again(played: dict[str, bytes]) -> None:
    Path("small.yaml").rename("other.yaml")
    status = parley("status", "other.yaml")
    assert status.stdout.startswith("other: 0 of 8 simulations")
    renamed = parley("rename", "small.yaml", "other.yaml")
    assert renamed.returncode == 0, renamed.stderr
    assert "moved: results/small -> results/other" in renamed.stdout
    result = snakemake("--config", "study=other.yaml")
    assert result.returncode == 0, result.stderr
    assert "simulate" not in result.stdout + result.stderr
    assert contents("other") == played
    assert not paths.results("small").exists()


def test_nothing_is_renamed_beside_a_run(played: dict[str, bytes]) -> None:
    code = "from parley import paths; from parley import files as m; m.hold_lock(paths.lock('small')); input()"
    with subprocess.Popen(
        [sys.executable, "-c", f"{code.replace('input()', '')}print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline()
        refused = parley("rename", "small.yaml", "other.yaml")
        run.communicate(b"\n")
    assert refused.returncode == 1
    assert "another run of this study holds it" in refused.stderr
    assert Path("small.yaml").exists()
    assert contents("small") == played
