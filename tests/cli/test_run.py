"""`parley run`, completion in a shell, and help."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from parley import paths
from parley.cli import commands
from parley.errors import UsageError
from parley.workflow.command import snakemake_command
from support.commands import Parley
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


@pytest.mark.promise("A shell completes the names of studies, models and games.")
def test_names_are_completed(study_factory: StudyFactory) -> None:
    study_factory()
    paths.CONFIG.mkdir()
    for name in ("small.yaml", "models.yaml"):
        Path(name).rename(paths.CONFIG / name)

    def completed(*arguments: str, word: str) -> list[str]:
        found = BashComplete(commands, {}, "parley", "_PARLEY_COMPLETE").get_completions([*arguments], word)
        return [item.value for item in found if item.type == "plain"]

    assert completed(word="su") == ["summarize"]
    assert completed("run", word="s") == completed("ledger", "show", word="") == ["small"]
    assert completed("prompts", word="st") == ["stag_hunt"]
    assert completed("fetch-model", word="") == completed("new", "--model", word="") == ["other", "tiny"]
    (paths.CONFIG / "models.yaml").write_text("models: {")
    assert completed("serve", word="t") == []


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.promise("Help is as wide as the terminal, up to 140 columns; there nothing in it is cut.")
def test_help_fits_its_terminal(parley: Parley, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setitem(os.environ, "COLUMNS", str(columns))
    for name in ("", "ledger", *commands.commands):
        text = parley(*name.split(), "--help").out
        assert columns == 80 or "..." not in text.partition("Commands:")[2], name
