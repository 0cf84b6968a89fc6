"""What `RunLog` does with Snakemake's messages, one by one; `test_workflow_display.py` has real runs."""

import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from snakemake.settings.enums import Quietness
from snakemake_interface_logger_plugins.common import LogEvent

from parley.workflow import run_log as snakemake_log
from parley.workflow.run_log import RunLog, announce, follow
from parley.workflow.stopping import leave
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
JOB |= {"shellcmd": "parley simulate", "aux": {}, "indent": False, "log": ["job.log"]}
GROUP = {"groupid": "small=tiny=0", "aux_logs": [None], "job_error_info": [JOB]}
SELECT = "Select jobs to execute..."
ERROR = logging.ERROR


def tell(log: RunLog, text: str, /, event: LogEvent | None = None, level: int = logging.INFO, **more: object) -> None:
    made = logging.LogRecord("snakemake", level, "workflow.py", 1, text, (), None)
    vars(made).update(more | ({} if event is None else {"event": event}))
    log.tell(made)


def fail(log: RunLog, /, **changes: object) -> None:
    tell(log, "Error in rule simulate", LogEvent.JOB_ERROR, ERROR, **JOB | changes)


def fail_group(log: RunLog, /, **changes: object) -> None:
    tell(log, "Error in group", LogEvent.GROUP_ERROR, ERROR, **GROUP | changes)


Shown = Callable[[RunLog], str]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Shown]:
    """Close a log; return what it wrote to standard error."""
    monkeypatch.setattr(snakemake_log, "_followed", [])
    monkeypatch.delenv("PARLEY_PROGRESS", raising=False)

    def closed(log: RunLog) -> str:
        log.close()
        return capsys.readouterr().err

    yield closed
    leave()


def begun(study_factory: StudyFactory, **settings: object) -> RunLog:
    follow(study_factory(seeds=2))
    log = RunLog(SimpleNamespace(**DEFAULTS | settings))
    tell(log, "Building DAG of jobs...")
    tell(log, "Workflow has started!", LogEvent.WORKFLOW_STARTED)
    return log


def test_the_pages_of_a_run_are_not_shown_but_what_matters_is(study_factory: StudyFactory, shown: Shown) -> None:
    log = begun(study_factory)
    tell(log, SELECT)
    tell(log, "Job stats:\n...", LogEvent.RUN_INFO)
    tell(log, "Finished jobid: 4", LogEvent.JOB_FINISHED, job_id=4)
    tell(log, "a warning", level=logging.WARNING)
    tell(log, "Trying to restart job 4.")
    tell(log, "MissingOutputException in rule x:\n  [red]file[/red]", LogEvent.ERROR, ERROR)
    lines = shown(log).splitlines()
    for text in ("a warning", "Trying to restart job 4.", "  [red]file[/red]"):
        assert text in lines
    assert not any(word in line for line in lines for word in ("DAG", "Select", "stats", "jobid"))
    assert lines[-1].startswith("small: 0 of 2 simulations")


def test_a_failed_job_is_told_with_its_log_and_its_last_words(study_factory: StudyFactory, shown: Shown) -> None:
    failure = "simulate failed (job 4)\n  job.log\n    parley: no [2Jspace [red]left[/red]\n"
    Path("job.log").write_text("parley: no \x1b[2Jspace [red]left[/red]\nended\n")
    log = begun(study_factory)
    page = 'RuleException:\nCalledProcessError in file "simulate.smk", line 20:\nCommand ...'
    tell(log, page, LogEvent.ERROR, ERROR, exception="RuleException")
    fail(log)
    Path("job.log").rename("job.log.failed")  # as the rule leaves it before another attempt
    fail(log)
    said = shown(log)
    assert said.count(failure) == 2
    assert "CalledProcessError" not in said


def test_a_failed_group_is_told_once_with_logs_that_say_an_error(study_factory: StudyFactory, shown: Shown) -> None:
    words = [f"{number} replies\n" for number in range(2)] + ["parley: the engine for tiny died\n"] * 4
    jobs = []
    for number, text in enumerate(words):
        Path(f"seed={number}.log").write_text(text)
        jobs.append({**JOB, "jobid": number, "log": [f"seed={number}.log"]})
    log = begun(study_factory)
    fail_group(log, aux_logs=[], job_error_info=jobs)
    for job in jobs:
        fail(log, **job | {"indent": True})
    said = shown(log)
    told = [f"  seed={number}.log\n    parley: the engine for tiny died\n" for number in (2, 3, 4)]
    assert f"a job of 6 parts failed: small=tiny=0\n{''.join(told)}  and 3 more logs\n" in said
    assert "simulate failed" not in said


# The end of what Snakemake writes into the log of a job, whatever made it fail.
PAGES = """Error in rule simulate:
    log: job.log (check log file(s) for error details)
Exiting because a job execution failed. Look above for error messages
WorkflowError:
At least one job did not complete successfully.
srun: error: node7: task 0: Exited with exit code 1
"""
STATES = {
    "OUT_OF_MEMORY": "mem_mb",
    "TIMEOUT": "runtime",
    "FAILED": "if memory ran out",
}


@pytest.mark.parametrize("state", STATES)
def test_a_failed_cluster_job_has_its_state_and_its_last_words_with_a_remedy(
    state: str, study_factory: StudyFactory, shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snakemake_log, "job_line", lambda job: f"SLURM job {job}: {state} on node7, exit code 1:0")
    killed = "parley: the engine for tiny died: killed by signal 9"
    Path("job.log").write_text(f"{killed}\n{PAGES}")
    log = begun(study_factory)
    fail_group(log, external_jobid="17", why="SLURM-job '17' failed, SLURM status is: 'FAILED'.")
    first, second, *_, last = shown(log).partition("a job of 1 parts failed: small=tiny=0\n")[2].splitlines()[:3]
    assert second == "  job.log"
    assert first.startswith(f"  SLURM job 17: {state} on node7, exit code 1:0")
    assert last.startswith(f"    {killed} (if memory ran out")
    assert STATES[state] in first + last


def test_a_run_that_stops_says_what_still_holds_its_jobs_back(
    study_factory: StudyFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Callable[[], dict[str, object]]] = []
    monkeypatch.setattr("parley.progress.events.Events.__init__", lambda self, folder, stage, tell: told.append(tell))
    monkeypatch.setattr("parley.progress.events.Events.stop", lambda self, error="": None)
    executor = SimpleNamespace(waiting={"JobHeldUser": 1})
    announce(study_factory(seeds=2), SimpleNamespace(_user_kill="graceful", _executor=executor, running=[]))
    assert re.search("stopping.*waited for.*scontrol release", str(told[0]()["note"]))
