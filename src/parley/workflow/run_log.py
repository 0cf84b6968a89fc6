"""What a run of Snakemake shows: Parley's display instead of Snakemake's pages, and every error.

Snakemake hands its messages to a logger plugin, which hands them on to `RunLog`. Before a run really begins, and for
everything that plays nothing (-n, --lint, --summary, --report), they are shown as Snakemake shows them.
"""

import atexit
import logging
import os
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from logging import ERROR, INFO, WARNING, LogRecord
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snakemake_interface_logger_plugins.common import LogEvent

from parley import paths
from parley.files import open_regular
from parley.text import NAME, Hearing, counted, log_line, one_line
from parley.workflow.slurm import job_line, sbatch_line
from parley.workflow.stopping import STOPPED, leave_with, stopped_line

if TYPE_CHECKING:
    from parley.progress.screen import Screen
    from parley.study import Study

VARIABLE = "PARLEY_PROGRESS"
SNAKEMAKE = "snakemake"  # the value that brings Snakemake's own output back
_MAX_LOGS = 3  # of a failed group
_NUMBER = re.compile(r"\d+")
# What Snakemake says on the way that people want to know.
_KEPT = (
    "Nothing to be done",
    "Trying to restart job",
    "Will exit after finishing",
    "Shutting down",
    "Terminating processes",
    "Complete log(s)",
)
_SUBMITTED = re.compile(r"submitted with SLURM jobid (\d+)")  # of each cluster job; in a terminal they'd be a page
_SBATCH = re.compile(r"sbatch call: (.*)", re.DOTALL)  # before that, for whoever debugs
# Parley orders nothing to be made again by what Snakemake remembers of files: their paths name all that matters.
_REMEMBERS = re.compile(r"\d+ jobs have (missing|outdated) provenance/metadata")
_ALIKE = 3  # failures with the same words that are told one by one
_FAILED = (LogEvent.JOB_ERROR, LogEvent.GROUP_ERROR)
_SEE_LOGS = "For further error details see the cluster/cloud log and the log files of the involved rule(s)."
# What it says before a run, of every run.
_CHATTER = ("Assuming unrestricted shared filesystem usage", "host: ", "Building DAG of jobs")

_followed: "list[Study]" = []  # what the Snakefile says is run in this process
_stopping = threading.Event()  # Snakemake starts no more
_sent: set[int] = set()  # jobs that Snakemake started, locally or on a cluster, and that have not ended


def follow(study: "Study") -> None:
    """Say which study this run of Snakemake plays."""
    _followed[:] = [study]


def announce(study: "Study") -> None:
    """Have this process say of itself that it runs the study; what is left of former processes is removed."""
    from parley.progress.events import Events
    from parley.progress.follow import PLANNING
    from parley.progress.state import RUN, ProcessStates

    def told() -> dict[str, Any]:
        note = f"{counted(len(_sent), 'job')} sent, not playing yet" if _sent else PLANNING
        return {"note": note, "stopping": STOPPED.is_set() or _stopping.is_set()}

    folder = paths.processes(paths.results(study.name))
    ProcessStates(folder).remove(time.time())
    events = Events(folder, RUN, told)
    leave_with(lambda last_look: events.stop(keep=False))
    atexit.register(events.stop, keep=False)
    events.start()


def show_log() -> None:
    """Have Snakemake show what the library says in this process."""
    logger = logging.getLogger(NAME)
    logger.setLevel(INFO)
    logger.addHandler(Hearing(_to_snakemake))


def _to_snakemake(record: LogRecord) -> None:
    """Hand what the library says on to Snakemake: as warnings at least, since it says little, and only on purpose."""
    from snakemake.logging import logger

    logger.log(max(record.levelno, WARNING), log_line(record))


class RunLog:
    """Shows one run."""

    def __init__(self, settings: Any) -> None:
        """`settings` are Snakemake's `OutputSettings`."""
        from snakemake.logging import ColorizingTextHandler, DefaultFilter, DefaultFormatter

        quiet = settings.quiet or set()
        self._own = ColorizingTextHandler(
            nocolor=settings.nocolor,
            stream=sys.stdout if settings.stdout else sys.stderr,
            formatter=DefaultFormatter(quiet, settings.show_failed_logs),
        )
        details = (quiet, settings.debug_dag, settings.verbose, settings.dryrun, settings.printshellcmds)
        self._filter = DefaultFilter(*details)
        # Whoever asks for less, or for Snakemake's details, gets what Snakemake has.
        plain = settings.dryrun or settings.verbose or settings.debug_dag or settings.printshellcmds
        less = {str(word).rpartition(".")[2].lower() for word in quiet} & {"progress", "all"}
        self._wanted = not plain and not less and os.environ.get(VARIABLE, "").lower() != SNAKEMAKE
        self._details = settings.verbose or settings.debug_dag
        self._silent = "all" in less
        self._calls: dict[int | None, str] = {}  # sbatch, by the thread that calls it
        self._sbatch: dict[str, str] = {}  # by SLURM's id of the job
        self._failures: Counter[str] = Counter()
        self._color = not settings.nocolor
        self._screen: Screen | None = None
        self._running = False

    def tell(self, record: LogRecord) -> None:
        """Show a message."""
        event = getattr(record, "event", None)
        self._note_submission(record)
        if event == LogEvent.JOB_STARTED:
            _sent.update(record.jobs)  # type: ignore[attr-defined]
        elif event == LogEvent.JOB_FINISHED:
            _sent.discard(record.job_id)  # type: ignore[attr-defined]
        if not self._details and (record.levelno < INFO or _REMEMBERS.match(str(record.msg))):
            return
        chatter = record.levelno == INFO and str(record.msg).startswith(_CHATTER)
        if not self._wanted or not (self._running or event == LogEvent.WORKFLOW_STARTED or chatter):
            if self._filter.filter(record):
                self._own.emit(record)
            if event in _FAILED and _followed and not self._silent:  # their pages are long, or are not shown
                self._tell_failure(record.__dict__)
            return
        if STOPPED.is_set():  # jobs that are ended are no failures: nothing but the last line is shown
            if str(record.msg) == stopped_line():
                self.close()
                self._say(str(record.msg))
        elif event == LogEvent.WORKFLOW_STARTED:
            self._begin()
        elif event in _FAILED:
            self._tell_failure(record.__dict__)
        elif record.levelno >= WARNING:
            if not _is_failed_command(record):  # the job's failure says more
                self._say(str(record.msg), "red" if record.levelno >= ERROR else "yellow")
        elif record.levelno == INFO and event is None:
            self._tell_on_the_way(str(record.msg))

    def _tell_on_the_way(self, text: str) -> None:
        """Show what is no problem, if people want to know it."""
        if text.startswith(("Will exit", "Terminating")):
            _stopping.set()
        if text.startswith(_KEPT) or (_SUBMITTED.search(text) and not (self._screen and self._screen.live)):
            self._say(text, "dim")

    def _note_submission(self, record: LogRecord) -> None:
        text = str(record.msg)
        if call := _SBATCH.search(text):
            self._calls[record.thread] = sbatch_line(call[1])
        elif (sent := _SUBMITTED.search(text)) and record.thread in self._calls:
            self._sbatch[sent[1]] = self._calls[record.thread]

    def close(self) -> None:
        """Draw for the last time, and leave the terminal clean."""
        if untold := sum(max(count - _ALIKE, 0) for count in self._failures.values()):
            self._say(f"and {untold} more failures like these")
        self._failures.clear()
        if self._screen is not None:
            self._screen.stop()
            self._screen = None

    def _begin(self) -> None:
        self._running = True
        if not _followed:  # the Snakefile is another one
            self._wanted = False
            return
        from parley.progress.follow import Progress
        from parley.progress.screen import Screen

        self._screen = Screen(Progress(_followed[-1], since=time.time()), self._own.stream, self._color)
        leave_with(self._screen.stop)
        self._screen.start()

    def _tell_failure(self, failure: dict[str, Any]) -> None:
        if failure.get("indent"):  # of a group, which was shown as a whole
            return
        jobs = failure.get("job_error_info") or [failure]
        for job in jobs:
            _sent.discard(job.get("jobid", -1))
        if _stopping.is_set():
            return
        if "groupid" in failure:
            lines = [f"a job of {len(jobs)} parts failed: {one_line(str(failure['groupid']))}"]
        else:
            lines = [f"{failure['rule_name']} failed (job {failure['jobid']})"]
        lines += self._of_cluster(failure)
        logs = [*(failure.get("aux_logs") or []), *(log for job in jobs for log in job["log"])]
        words = list(_of_logs([log for log in logs if log]))
        alike = _NUMBER.sub("#", " ".join([str(failure.get("rule_name")), *words[1::2]]))
        self._failures[alike] += 1
        if self._failures[alike] <= _ALIKE:
            self._say("\n".join([*lines, *words]), "bold red")

    def _of_cluster(self, failure: dict[str, Any]) -> Iterator[str]:
        """Yield what is known of a cluster job that failed: SLURM's words or the plugin's, how it was submitted."""
        why = one_line(str(failure.get("why") or failure.get("rule_msg") or "").partition("sbatch call:")[0], 500)
        why = why.removesuffix(_SEE_LOGS).strip()
        job = str(failure.get("external_jobid") or failure.get("aux", {}).get("external_jobid") or "")
        if line := (job_line(job) if job else "") or why:
            yield f"  {line}"
        if call := self._sbatch.get(job, "" if job or not why else next(reversed(self._calls.values()), "")):
            yield f"  {call}"

    def _say(self, text: str, style: str = "") -> None:
        if not text or text == "None":
            return
        if self._screen is not None:
            self._screen.say(text, style)
        else:
            self._own.stream.write(f"{text}\n")
            self._own.stream.flush()


def _of_logs(logs: list[str]) -> Iterator[str]:
    """Yield the logs that say something else than the others, each with its last words."""
    alike: dict[str, list[tuple[str, str]]] = {}
    for log in logs:
        # Snakemake may have moved it away for another attempt.
        words = _last_words(Path(log)) or _last_words(Path(f"{log}.failed"))
        alike.setdefault(_NUMBER.sub("#", words), []).append((log, words))
    # Of a group most logs are of parts that were only ended.
    groups = sorted(alike.values(), key=lambda group: not group[0][1].startswith("parley: "))
    for (log, words), *others in groups[:_MAX_LOGS]:
        yield f"  {one_line(log)}" + (f" (and {len(others)} more like it)" if others else "")
        yield f"    {words or 'empty'}"
    if len(groups) > _MAX_LOGS:
        yield f"  and {sum(map(len, groups[_MAX_LOGS:]))} more logs"


def _last_words(path: Path) -> str:
    """Return the last meaningful line of a job's log; "" if it cannot be read."""
    try:
        with open_regular(path) as file:
            file.seek(max(file.seek(0, os.SEEK_END) - (1 << 14), 0))
            lines = [one_line(line, 300) for line in file.read().decode(errors="replace").splitlines()]
    except OSError:
        return ""
    ours = [line for line in lines if line.startswith("parley: ") and not line.startswith("parley: warning: ")]
    errors = [line for line in lines if re.search(r"\w*(?:Error|Exception)\b|\berror\b", line)]
    return (ours or errors or [line for line in lines if line] or [""])[-1]


def _is_failed_command(record: LogRecord) -> bool:
    """Whether an error says that the command of a rule failed, with the command and nothing else."""
    return getattr(record, "exception", "") == "RuleException" and "CalledProcessError in file" in str(record.msg)
