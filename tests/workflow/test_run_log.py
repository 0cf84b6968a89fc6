"""What `RunLog` does with Snakemake's messages, one by one; `test_workflow_display.py` has real runs."""

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from snakemake.settings.enums import Quietness
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_interface_logger_plugins.registry import LoggerPluginRegistry

from parley.workflow import run_log as snakemake_log
from parley.workflow.run_log import RunLog, follow
from parley.workflow.stopping import leave
from snakemake_logger_plugin_parley import LogHandler
from support.studies import StudyFactory

DEFAULTS = {
    "printshellcmds": False,
    "nocolor": True,
    "quiet": {Quietness.RULES},
    "debug_dag": False,
    "verbose": False,
    "show_failed_logs": True,
    "stdout": False,
    "dryrun": False,
}
JOB = {"rule_name": "simulate", "rule_msg": None, "jobid": 4, "input": [], "output": [], "conda_env": None}
JOB |= {"shellcmd": "parley simulate", "aux": {}, "indent": False}


def record(
    text: str | None, event: LogEvent | None = None, level: int = logging.INFO, **more: object
) -> logging.LogRecord:
    made = logging.LogRecord("snakemake", level, "workflow.py", 1, text, (), None)
    vars(made).update(more | ({} if event is None else {"event": event}))
    return made


class Shown:
    """What was written to standard error so far."""

    def __init__(self, captured: pytest.CaptureFixture[str]) -> None:
        self._captured = captured
        self._text = ""

    def getvalue(self) -> str:
        self._text += self._captured.readouterr().err
        return self._text


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Shown]:
    monkeypatch.setattr(snakemake_log, "_followed", [])
    monkeypatch.delenv("PARLEY_PROGRESS", raising=False)
    yield Shown(capsys)
    leave()


def begun(study_factory: StudyFactory, **settings: object) -> RunLog:
    follow(study_factory(seeds=2))
    log = RunLog(SimpleNamespace(**DEFAULTS | settings))
    log.tell(record("Building DAG of jobs..."))
    log.tell(record("Workflow has started!", LogEvent.WORKFLOW_STARTED))
    return log


def test_snakemake_finds_the_plugin() -> None:
    plugin = LoggerPluginRegistry().get_plugin("parley")
    assert plugin.log_handler is LogHandler  # type: ignore[attr-defined]


def test_the_pages_of_a_run_are_not_shown_but_what_matters_is(study_factory: StudyFactory, shown: Shown) -> None:
    log = begun(study_factory)
    log.tell(record("Select jobs to execute..."))
    log.tell(record("Job stats:\n...", LogEvent.RUN_INFO))
    log.tell(record("Finished jobid: 4", LogEvent.JOB_FINISHED, job_id=4))
    log.tell(record("a warning", level=logging.WARNING))
    log.tell(record("Trying to restart job 4."))
    log.tell(record("MissingOutputException in rule x:\n  [red]file[/red]", LogEvent.ERROR, logging.ERROR))
    log.close()
    lines = shown.getvalue().splitlines()
    for text in ("a warning", "Trying to restart job 4.", "  [red]file[/red]"):
        assert text in lines
    assert not any(word in line for line in lines for word in ("DAG", "Select", "stats", "jobid"))
    assert lines[-1].startswith("small: 0 of 2 simulations")


def test_a_failed_job_is_told_with_its_log_and_its_last_words(study_factory: StudyFactory, shown: Shown) -> None:
    Path("job.log").write_text("parley: no \x1b[2Jspace [red]left[/red]\nended\n")
    log = begun(study_factory)
    page = 'RuleException:\nCalledProcessError in file "simulate.smk", line 20:\nCommand ...'
    log.tell(record(page, LogEvent.ERROR, logging.ERROR, exception="RuleException"))
    log.tell(record("Error in rule simulate", LogEvent.JOB_ERROR, logging.ERROR, **JOB, log=["job.log"]))
    Path("job.log").rename("job.log.failed")  # as the rule leaves it before another attempt
    log.tell(record("Error in rule simulate", LogEvent.JOB_ERROR, logging.ERROR, **JOB, log=["job.log"]))
    log.close()
    said = shown.getvalue()
    assert said.count("simulate failed (job 4)\n  job.log\n    parley: no [2Jspace [red]left[/red]\n") == 2
    assert "CalledProcessError" not in said


def test_a_failed_group_is_told_once_with_the_logs_that_say_something(
    study_factory: StudyFactory, shown: Shown
) -> None:
    names = [f"seed={number}.log" for number in range(6)]
    for name in names:
        Path(name).write_text(f"{name.replace('=', '')[4]} replies\n")
    for name in ("seed=4.log", "seed=5.log"):
        Path(name).write_text("parley: the engine for tiny died\n")
    jobs = [{**JOB, "jobid": number, "log": [name]} for number, name in enumerate(names)]
    log = begun(study_factory)
    group = {"groupid": "small=tiny=0", "aux_logs": [], "job_error_info": jobs}
    log.tell(record("Error in group", LogEvent.GROUP_ERROR, logging.ERROR, **group))
    for job in jobs:
        log.tell(record("Error in rule", LogEvent.JOB_ERROR, logging.ERROR, **{**job, "indent": True}))
    log.close()
    said = shown.getvalue()
    assert "a job of 6 parts failed: small=tiny=0\n  seed=4.log (and 1 more like it)\n" in said
    assert "    parley: the engine for tiny died\n  seed=0.log (and 3 more like it)\n    0 replies\n" in said
    assert "simulate failed" not in said


@pytest.mark.parametrize(
    "settings",
    [{"dryrun": True}, {"verbose": True}, {"printshellcmds": True}, {"debug_dag": True}],
)
def test_whoever_asks_for_details_gets_what_snakemake_says(
    study_factory: StudyFactory, shown: Shown, settings: dict[str, bool]
) -> None:
    log = begun(study_factory, **settings)
    log.tell(record("Select jobs to execute..."))
    log.close()
    assert "Building DAG of jobs...\n" in shown.getvalue()
    assert "Select jobs to execute...\n" in shown.getvalue()
    assert "simulations" not in shown.getvalue()


def test_the_variable_brings_snakemakes_own_output_back(
    study_factory: StudyFactory, shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARLEY_PROGRESS", "snakemake")
    log = begun(study_factory)
    log.tell(record("Select jobs to execute..."))
    log.close()
    assert "Select jobs to execute...\n" in shown.getvalue()
    assert "simulations" not in shown.getvalue()


@pytest.mark.parametrize("quiet", [{Quietness.PROGRESS, Quietness.RULES}, {Quietness.ALL}])
def test_quiet_is_quiet(study_factory: StudyFactory, shown: Shown, quiet: set[Quietness]) -> None:
    Path("job.log").write_text("parley: no space left\n")
    log = begun(study_factory, quiet=quiet)
    log.tell(record("Select jobs to execute..."))
    log.tell(record("Finished jobid: 4", LogEvent.JOB_FINISHED, job_id=4))
    log.tell(record("Error in rule simulate", LogEvent.JOB_ERROR, logging.ERROR, **JOB, log=["job.log"]))
    log.tell(record("it broke", LogEvent.ERROR, logging.ERROR))
    log.tell(record("Complete log(s): here"))
    log.close()
    failure = ["simulate failed (job 4)", "  job.log", "    parley: no space left"]
    assert shown.getvalue().splitlines() == ([] if Quietness.ALL in quiet else [*failure, "it broke"])


def test_before_a_run_begins_all_is_snakemakes(study_factory: StudyFactory, shown: Shown) -> None:
    log = RunLog(SimpleNamespace(**DEFAULTS))
    log.tell(record("Congratulations, your workflow is in a good condition!"))
    log.tell(record("SyntaxError in file Snakefile", LogEvent.ERROR, logging.ERROR))
    log.close()
    assert shown.getvalue().splitlines() == [
        "Congratulations, your workflow is in a good condition!",
        "SyntaxError in file Snakefile",
    ]


def test_a_workflow_that_is_not_parleys_keeps_snakemakes_output(shown: Shown) -> None:
    log = RunLog(SimpleNamespace(**DEFAULTS))
    log.tell(record("Workflow has started!", LogEvent.WORKFLOW_STARTED, quietness=Quietness.HOST))
    log.tell(record("Select jobs to execute..."))
    log.close()
    assert "Select jobs to execute...\n" in shown.getvalue()


def test_a_failed_job_is_told_where_snakemakes_own_output_is_shown(
    study_factory: StudyFactory, shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("job.log").write_text("parley: no space left\n")
    monkeypatch.setenv("PARLEY_PROGRESS", "snakemake")
    log = begun(study_factory)
    log.tell(record("Error in rule simulate", LogEvent.JOB_ERROR, logging.ERROR, **JOB, log=["job.log"]))
    log.close()
    assert "simulate failed (job 4)\n  job.log\n    parley: no space left\n" in shown.getvalue()


def test_failures_with_the_same_words_are_counted_from_the_fourth(study_factory: StudyFactory, shown: Shown) -> None:
    log = begun(study_factory)
    for number in range(20):
        Path(f"{number}.log").write_text(f"parley: no space left for seed={number}\n")
        job = {**JOB, "jobid": number, "log": [f"{number}.log"]}
        log.tell(record("Error in rule simulate", LogEvent.JOB_ERROR, logging.ERROR, **job))
    Path("other.log").write_text("parley: the engine died\n")
    log.tell(record("Error in rule simulate", LogEvent.JOB_ERROR, logging.ERROR, **JOB, log=["other.log"]))
    log.close()
    said = shown.getvalue()
    assert said.count("no space left") == 3
    assert said.count("the engine died") == 1
    assert "and 17 more failures like these" in said


def test_a_failed_cluster_job_has_its_state_its_node_and_its_sbatch_line(
    study_factory: StudyFactory, shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snakemake_log, "job_line", lambda job: f"SLURM job {job}: TIMEOUT on node7, exit code 0:0")
    Path("job.log").write_text("parley: the engine for tiny died\n")
    log = begun(study_factory)
    call = 'sbatch --parsable -p gpu --mem 100 --wrap="python -m snakemake --target-jobs x"'
    log.tell(record(f"sbatch call: {call}", level=logging.DEBUG))
    log.tell(record("Job 4 has been submitted with SLURM jobid 17 (log: logs/slurm/17.log)."))
    job = {**JOB, "log": ["job.log"]}
    group = {"groupid": "small=tiny=0", "aux_logs": [None], "job_error_info": [job], "external_jobid": "17"}
    why = "SLURM-job '17' failed, SLURM status is: 'TIMEOUT'. " + snakemake_log._SEE_LOGS
    log.tell(record("Error in group", LogEvent.GROUP_ERROR, logging.ERROR, **group, why=why))
    log.close()
    assert (
        "a job of 1 parts failed: small=tiny=0\n"
        "  SLURM job 17: TIMEOUT on node7, exit code 0:0\n"
        "  sbatch --parsable -p gpu --mem 100 --wrap=...\n"
        "  job.log\n    parley: the engine for tiny died\n"
    ) in shown.getvalue()
    # Where SLURM has forgotten the job, the plugin's words are left.
    monkeypatch.setattr(snakemake_log, "job_line", lambda job: "")
    log.tell(record("Error in group", LogEvent.GROUP_ERROR, logging.ERROR, **group, why=why))
    assert "small=tiny=0\n  SLURM-job '17' failed, SLURM status is: 'TIMEOUT'.\n  sbatch" in shown.getvalue()


def test_a_job_that_sbatch_refuses_says_why(study_factory: StudyFactory, shown: Shown) -> None:
    log = begun(study_factory)
    log.tell(record('sbatch call: sbatch -p nowhere --wrap="x"', level=logging.DEBUG))
    why = "SLURM sbatch failed. The error message was 'invalid partition'.\n    sbatch call:\n        sbatch -p ..."
    group = {"groupid": "small=tiny=0", "aux_logs": [], "job_error_info": [{**JOB, "log": []}], "why": why}
    log.tell(record("Error in group", LogEvent.GROUP_ERROR, logging.ERROR, **group))
    log.close()
    assert (
        "failed: small=tiny=0\n  SLURM sbatch failed. The error message was 'invalid partition'.\n"
        "  sbatch -p nowhere --wrap=...\n"
    ) in shown.getvalue()


@pytest.mark.parametrize("settings", [{}, {"dryrun": True}])
def test_what_snakemake_remembers_of_files_is_no_news(
    study_factory: StudyFactory, shown: Shown, settings: dict[str, bool]
) -> None:
    log = begun(study_factory, **settings)
    text = "12 jobs have missing provenance/metadata so that it in part cannot be used to trigger re-runs.\nRules ..."
    log.tell(record(text))
    log.tell(record(text.replace("missing", "outdated"), level=logging.WARNING))
    log.close()
    assert "provenance" not in shown.getvalue()
    log = RunLog(SimpleNamespace(**DEFAULTS | {"verbose": True}))
    log.tell(record(text))
    assert "provenance" in shown.getvalue()


def test_a_run_that_is_stopped_says_only_how_to_go_on(
    study_factory: StudyFactory, shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = begun(study_factory)
    stopped = threading.Event()
    stopped.set()
    monkeypatch.setattr(snakemake_log, "STOPPED", stopped)
    log.tell(record("Error in rule simulate", LogEvent.JOB_ERROR, logging.ERROR, **JOB, log=["job.log"]))
    log.tell(record("Shutting down, this might take some time."))
    log.tell(record("stopped; go on", level=logging.ERROR))
    log.tell(record("At least one job did not complete successfully.", LogEvent.ERROR, logging.ERROR))
    log.close()
    lines = shown.getvalue().splitlines()
    assert lines[-1] == "stopped; go on"
    assert not any("failed (job" in line or "Shutting" in line or "At least" in line for line in lines)
