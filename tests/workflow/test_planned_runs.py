"""What is missing of a study when Snakemake starts, and the run that may not begin: without Snakemake."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry

from parley import paths
from parley.study import load_study
from parley.workflow import local_jobs, run
from parley.workflow.run import Run, begin
from support.studies import StudyFactory

SNAKEMAKE: Any = SimpleNamespace(is_main_process=True, workdir_init=".", dag=None)
ExecutorPluginRegistry()  # looks for SLURM with processes; Snakemake has it before a run begins


@pytest.fixture(autouse=True)
def unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the environment, the log and the threads of this process as they are."""
    monkeypatch.setenv("PARLEY_RUN", "")
    monkeypatch.setenv("PATH", os.environ["PATH"])
    monkeypatch.setattr(run, "show_log", lambda: None)
    monkeypatch.setattr(run, "follow", lambda study: None)
    monkeypatch.setattr(local_jobs, "Guard", lambda patience: SimpleNamespace(start=lambda: None))


def test_shell_commands_name_study_models_and_plan(study_factory: StudyFactory, folder: Path) -> None:
    study_factory()
    shutil.copytree(".", "a {b}")
    planned = Run(load_study(Path("a {b}/small.yaml")), is_main=True)
    options = f"'a {{b}}/small.yaml' --models 'a {{b}}/models.yaml' --plan {planned.plan}"
    assert planned.study_options.format() == options


def refused(capsys: pytest.CaptureFixture[str], config: dict[str, Any]) -> str:
    with pytest.raises(SystemExit) as ended:
        begin(SNAKEMAKE, config)
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


def test_a_run_that_cannot_be_planned_ends_with_one_line(
    study_factory: StudyFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    study_factory()
    small = {"study": "small.yaml"}
    assert refused(capsys, small | {"seed": 3}).startswith("parley: --config seed: unknown key")
    assert refused(capsys, {"study": "none.yaml"}).startswith("parley: none.yaml: ")
    for other in (Path("small.yml"), Path("config/small.yaml")):
        other.parent.mkdir(exist_ok=True)
        shutil.copy("small.yaml", other)
        assert refused(capsys, small).startswith(f"parley: small.yaml and {other}: two studies of one name")
        other.unlink()
    assert begin(SNAKEMAKE, small).study.name == "small"


def test_what_a_killed_run_still_finishes_while_a_run_is_planned_is_not_refused(
    study_factory: StudyFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = Run(study_factory({"model": "tiny"}, seeds=2), is_main=True)
    record = Path(planned.missing[1])
    record.parent.mkdir(parents=True)
    record.touch()
    monkeypatch.setattr(run, "restart", Mock(side_effect=InterruptedError))
    monkeypatch.setattr(run, "wait_for_former_jobs", lambda study, required: False)
    with pytest.raises(InterruptedError):
        run.on_start(planned, Mock(**{"local_exec": True, "scheduler._executor.waiting": {}}))


def test_a_finished_study_says_its_answers_wherever_it_is_run(
    study_factory: StudyFactory, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    study = study_factory()
    paths.report(study.name).parent.mkdir(parents=True)
    paths.report(study.name).touch()
    monkeypatch.setattr("parley.analysis.tables.read_table", lambda study, name: [])
    monkeypatch.setattr("parley.report.answers.answer_lines", lambda table, study: ["q: They differ"])
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    run._say_end(Mock(**{"dryrun": False, "dag.needrun_jobs.return_value": []}), study, folder)
    assert capsys.readouterr().err == "q: They differ\nReport: ../results/small/report/report.html\n"


@pytest.mark.parametrize(("stopped", "reports"), [("stopped; the same command goes on", 0), (None, 1)])
def test_a_run_that_was_stopped_makes_no_report(
    study_factory: StudyFactory, monkeypatch: pytest.MonkeyPatch, stopped: str | None, reports: int
) -> None:
    monkeypatch.setattr(run, "stopped_line", lambda: stopped)
    monkeypatch.setattr(run, "report_played", report := Mock())
    run.on_error(Run(study_factory(), is_main=True))
    assert report.call_count == reports
