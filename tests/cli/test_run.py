"""`parley run`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from parley.errors import UsageError
from parley.study import load_study
from parley.workflow.command import snakemake_command
from support.commands import Parley, one_line_error
from support.studies import StudyFactory
from support.workflows import jobs, write


@pytest.mark.promise("`parley run` is Snakemake: its options, its exit status, on all cores unless told otherwise.")
def test_options_go_to_snakemake_and_all_cores_are_taken_unless_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SNAKEMAKE_PROFILE", raising=False)
    command = snakemake_command("demo", ["-n"])
    assert command[:5] == [sys.executable, "-P", "-m", "snakemake", "--snakefile"]
    assert command[6:] == ["--cores", "all", "-n", "--config", "study=demo"]
    for options in (["--cores", "2"], ["-c2"], ["-j", "4"], ["--jobs=4"], ["--profile", "slurm"]):
        assert snakemake_command("demo", options)[6:] == [*options, "--config", "study=demo"]
    monkeypatch.setenv("SNAKEMAKE_PROFILE", "slurm")
    assert "--cores" not in snakemake_command("demo", [])
    for study, options in (("--cores", ["2", "demo"]), ("demo", ["--config", "study=paper"])):
        with pytest.raises(UsageError):
            snakemake_command(study, options)


@pytest.mark.slow
@pytest.mark.promise("`parley run` is Snakemake: its options, its exit status, on all cores unless told otherwise.")
def test_a_run_ends_as_snakemake_does(folder: Path) -> None:
    write(folder)
    command = [sys.executable, "-m", "parley.cli", "run"]
    planned = subprocess.run([*command, "small.yaml", "-n"], capture_output=True, text=True, check=True)
    assert jobs(planned.stdout)["simulate_shard"] == 1
    wrong = subprocess.run([*command, "smal.yaml"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stdout + wrong.stderr) == (
        2,
        "parley: smal.yaml: no such file; did you mean 'small'? choose one of: small\n",
    )


@pytest.mark.promise("`parley run STUDY --seeds 1 --rounds 3` plays a small copy of it, with results of its own.")
def test_a_study_is_tried_small_under_a_name_of_its_own(
    parley: Parley, study_factory: StudyFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda program, command: started.append(command))
    grids = [{"seeds": [5, 7, 9]}, {"n": 4, "seeds": 6}, {"n": 5, "vary": {"max_rounds": [2, 8, 9]}}]
    whole = study_factory(*grids, seeds=4)
    written = whole.file.read_text()
    for _ in range(2):  # the second time over the first
        assert parley("run", "small.yaml", "--profile", "slurm", "--seeds=2", "--rounds", "3", "-n").status == 0
    assert started[1][-5:] == ["--profile", "slurm", "-n", "--config", "study=small-seeds2-rounds3.yaml"]
    few = load_study(Path("small-seeds2-rounds3.yaml"))
    assert [list(condition.seeds) for condition in few.conditions][:2] == [[5, 7], [0, 1]]
    assert [condition.parameters.model_dump()["max_rounds"] for condition in few.conditions] == [3, 3, 2, 3]
    assert whole.file.read_text() == written
    few.file.write_text(f"# Mine.\n{few.file.read_text()}")
    told = one_line_error(parley("run", "small.yaml", "--seeds", "2", "--rounds", "3"), 2)
    assert "small-seeds2-rounds3.yaml: exists" in told
    assert len(started) == 2
