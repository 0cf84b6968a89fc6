"""What a run of Snakemake shows: Parley's display instead of Snakemake's pages, and every error.

Snakemake hands its messages to a logger plugin, which hands them on to `RunLog`. Before a run really begins, and for
everything that plays nothing (-n, --lint, --summary), they are shown as Snakemake shows them.
"""

import atexit
import logging
import os
import re
import sys
import time
from contextlib import suppress
from logging import ERROR, INFO, WARNING, LogRecord
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snakemake_interface_logger_plugins.common import LogEvent

from parley import paths
from parley.files import open_regular
from parley.text import NAME, Hearing, counted, log_line, one_line
from parley.workflow.slurm import advised, job_line, queue_line
from parley.workflow.stopping import STOPPED, leave_with, stopped_line

if TYPE_CHECKING:
    from parley.progress.display import Screen
    from parley.study import Study

_MAX_LOGS = 3  # of a failed group
# What Snakemake says on the way that people want to know.
_KEPT = ("Nothing to be done", "Trying to restart job", "Complete log(s)")
# What it says once more when it ends: jobs have each said why they failed, and the last line what is to do.
_SAID = re.compile(r"CalledProcessError in file|At least one job did not complete|Look above for error messages")
_SUBMITTED = re.compile(r"submitted with SLURM jobid \d+")  # of each cluster job; in a terminal they'd be a page
# Parley orders nothing to be made again by what Snakemake remembers of files: their paths name all that matters.
_REMEMBERS = re.compile(r"\d+ jobs have (missing|outdated) provenance/metadata")
_FAILED = (LogEvent.JOB_ERROR, LogEvent.GROUP_ERROR)
# What it says before a run, of every run.
_CHATTER = ("Assuming unrestricted shared filesystem usage", "host: ", "Building DAG of jobs")

_followed: "list[Study]" = []  # what the Snakefile says is run in this process


def follow(study: "Study") -> None:
    """Say which study this run of Snakemake plays."""
    _followed[:] = [study]


def announce(study: "Study", scheduler: Any) -> None:
    """Have this process say that it runs the study, and what Snakemake's `scheduler` does."""
    from parley.progress.events import Events
    from parley.progress.follow import processes_of
    from parley.progress.state import RUN

    def told() -> dict[str, Any]:
        if STOPPED.is_set():
            return {"note": "stopping; jobs that run are ended", "always": True}
        stopping = ["stopping; jobs that were sent are waited for"] if scheduler._user_kill else []
        reasons = getattr(scheduler._executor, "waiting", None)  # what is held back keeps a run from ending, too
        if notes := stopping + ([queue_line(reasons)] if reasons else []):
            return {"note": "; ".join(notes), "always": True}
        jobs = len(scheduler.running)
        return {"note": f"{counted(jobs, 'job')} sent, not playing yet" if jobs else "", "always": False}

    processes_of(study).remove_dead(time.time())
    events = Events(paths.processes(paths.results(study.name)), RUN, told)
    leave_with(lambda last_look: events.stop())
    atexit.register(events.stop)


def show_log() -> None:
    """Have Snakemake show what the library says in this process: as warnings at least, since it says little."""
    from snakemake.logging import logger as snakemake_logger

    logger = logging.getLogger(NAME)
    logger.setLevel(INFO)
    logger.addHandler(Hearing(lambda record: snakemake_logger.log(max(record.levelno, WARNING), log_line(record))))


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
        self._less = {str(word).rpartition(".")[2].lower() for word in quiet} & {"progress", "all"}
        self._wanted = not plain and not self._less and os.environ.get("PARLEY_PROGRESS", "").lower() != "snakemake"
        self._color = not settings.nocolor
        self._screen: Screen | None = None
        self._running = False

    def tell(self, record: LogRecord) -> None:
        """Show a message."""
        event, text = getattr(record, "event", None), str(record.msg)
        if _REMEMBERS.match(text):
            return
        chatter = record.levelno == INFO and text.startswith(_CHATTER)
        if not self._wanted or not (self._running or event == LogEvent.WORKFLOW_STARTED or chatter):
            if self._filter.filter(record):
                self._own.emit(record)
            if event in _FAILED and _followed and "all" not in self._less:  # their pages are long, or are not shown
                self._tell_failure(record.__dict__)
            return
        is_kept, is_sent = text.startswith(_KEPT), _SUBMITTED.search(text) and not (self._screen and self._screen.live)
        if STOPPED.is_set():  # jobs that are ended are no failures: nothing but the last line is shown
            if text == stopped_line():
                self.close()
                self._say(text)
        elif event == LogEvent.WORKFLOW_STARTED:
            self._begin()
        elif event in _FAILED:
            self._tell_failure(record.__dict__)
        elif record.levelno >= WARNING:
            if not _SAID.search(text):
                self._say(text, "red" if record.levelno >= ERROR else "yellow")
        elif record.levelno == INFO and event is None and (is_kept or is_sent):
            self._say(text, "dim")

    def close(self) -> None:
        """Draw for the last time, and leave the terminal clean."""
        if self._screen is not None:
            self._screen.stop()
            self._screen = None

    def _begin(self) -> None:
        self._running = True
        if not _followed:  # the Snakefile is another one
            self._wanted = False
            return
        from parley.progress.display import Screen
        from parley.progress.follow import Progress

        self._screen = Screen(Progress(_followed[-1], is_own=True), self._own.stream, self._color)
        leave_with(self._screen.stop)
        self._screen.start()

    def _tell_failure(self, failure: dict[str, Any]) -> None:
        """Say which job failed, what SLURM says of it, and the last words of its logs."""
        if failure.get("indent"):  # of a group, which was shown as a whole
            return
        jobs = failure.get("job_error_info") or [failure]
        if "groupid" in failure:
            lines = [f"a job of {len(jobs)} parts failed: {one_line(str(failure['groupid']))}"]
        else:
            lines = [f"{failure['rule_name']} failed (job {failure['jobid']})"]
        job = failure.get("external_jobid") or failure.get("aux", {}).get("external_jobid")
        # The plugin's words, without its call of sbatch and where to look.
        why = str(failure.get("why") or failure.get("rule_msg") or "")
        why = one_line(re.split("sbatch call:|For further error details", why)[0], 500)
        if of_cluster := (job_line(str(job)) if job else "") or why:
            lines.append(f"  {advised(of_cluster)}")
        logs = [*filter(None, [*(failure.get("aux_logs") or []), *(log for each in jobs for log in each["log"])])]
        told = {log: words for log in logs if (words := _last_words(log))} or dict.fromkeys(logs, "")
        shown = [*told.items()][:_MAX_LOGS]
        for log, words in shown:
            lines.append(f"  {one_line(log)}")
            if words:
                lines.append(f"    {advised(words) if of_cluster else words}")
        if more := len(logs) - len(shown):
            lines.append(f"  and {more} more logs")
        self._say("\n".join(lines), "bold red")

    def _say(self, text: str, style: str = "") -> None:
        if not text or text == "None":
            return
        if self._screen is not None:
            self._screen.say(text, style)
        else:
            self._own.stream.write(f"{text}\n")
            self._own.stream.flush()


def _last_words(log: str) -> str:
    """Return the last line of a job's log that is Parley's error; "" if there is none."""
    for path in (Path(log), Path(f"{log}.failed")):  # Snakemake may have moved it away for another attempt
        with suppress(OSError), open_regular(path) as file:
            file.seek(max(file.seek(0, os.SEEK_END) - (1 << 18), 0))
            lines = file.read().decode(errors="replace").splitlines()
            if errors := [line for line in lines if re.match("parley: (?!warning: )", line)]:
                return one_line(errors[-1], 300)
    return ""
