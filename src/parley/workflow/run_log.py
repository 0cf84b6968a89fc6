"""What a run of Snakemake shows: Parley's display instead of Snakemake's pages, and every error.

Snakemake hands its messages to a logger plugin, which hands them on to `RunLog`. Before a run really begins, and for
everything that plays nothing (-n, --lint, --summary, --report), they are shown as Snakemake shows them.
"""

import atexit
import logging
import os
import re
import sys
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
from parley.workflow.slurm import REMEDIES, advised, job_line, queue_line, sbatch_line
from parley.workflow.stopping import STOPPED, leave_with, stopped_line

if TYPE_CHECKING:
    from parley.progress.screen import Screen
    from parley.study import Study

VARIABLE = "PARLEY_PROGRESS"
SNAKEMAKE = "snakemake"  # the value that brings Snakemake's own output back
_MAX_LOGS = 3  # of a failed group
_NUMBER = re.compile(r"\d+")
# What Snakemake says on the way that people want to know.
_KEPT = ("Nothing to be done", "Trying to restart job", "Complete log(s)")
# What it says once more when it ends: jobs have each said why they failed, and the last line what is to do.
_SAID = re.compile(r"CalledProcessError in file|At least one job did not complete|Look above for error messages")
_SUBMITTED = re.compile(r"submitted with SLURM jobid (\d+)")  # of each cluster job; in a terminal they'd be a page
_SBATCH = re.compile(r"sbatch call: (.*)", re.DOTALL)  # before that, for whoever debugs
# Parley orders nothing to be made again by what Snakemake remembers of files: their paths name all that matters.
_REMEMBERS = re.compile(r"\d+ jobs have (missing|outdated) provenance/metadata")
_ALIKE = 3  # failures with the same words that are told one by one
_FAILED = (LogEvent.JOB_ERROR, LogEvent.GROUP_ERROR)
# Lines of a log that tell why its job failed, and how much they do: causes, the surest first; errors, any words.
_TELLING = [
    *((3, cause) for cause in (*REMEDIES, r"^parley: (?!warning: )|did not announce itself")),
    (2, r"(?:Error|Exception)\b|\berror\b"),
    (1, r"\S"),
]
# What Snakemake writes of every job that failed.
_OF_EVERY = re.compile(
    r"^(?:WorkflowError|RuleException|CalledProcessError)\b|Error in (?:rule|group)|Exited with exit code"
    r"|Look above for error|for error details"
)
# What it says before a run, of every run.
_CHATTER = ("Assuming unrestricted shared filesystem usage", "host: ", "Building DAG of jobs")

_followed: "list[Study]" = []  # what the Snakefile says is run in this process


def follow(study: "Study") -> None:
    """Say which study this run of Snakemake plays."""
    _followed[:] = [study]


def announce(study: "Study", scheduler: Any) -> None:
    """Have this process say that it runs the study, and what Snakemake's `scheduler` does."""
    from parley.progress.events import Events
    from parley.progress.follow import PLANNING
    from parley.progress.state import RUN, ProcessStates

    def told() -> dict[str, Any]:
        if STOPPED.is_set():
            return {"note": "stopping; jobs that run are ended", "always": True}
        stopping = ["stopping; jobs that were sent are waited for"] if scheduler._user_kill else []
        reasons = getattr(scheduler._executor, "waiting", None)  # what is held back keeps a run from ending, too
        if notes := stopping + ([queue_line(reasons)] if reasons else []):
            return {"note": "; ".join(notes), "always": True}
        jobs = len(scheduler.running)
        return {"note": f"{counted(jobs, 'job')} sent, not playing yet" if jobs else PLANNING, "always": False}

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
        self._less = {str(word).rpartition(".")[2].lower() for word in quiet} & {"progress", "all"}
        self._wanted = not plain and not self._less and os.environ.get(VARIABLE, "").lower() != SNAKEMAKE
        self._details = settings.verbose or settings.debug_dag
        self._calls: dict[int | None, str] = {}  # sbatch, by the thread that calls it
        self._sbatch: dict[str, str] = {}  # by SLURM's id of the job
        self._failures: Counter[str] = Counter()
        self._color = not settings.nocolor
        self._screen: Screen | None = None
        self._running = False

    def tell(self, record: LogRecord) -> None:
        """Show a message."""
        event, text = getattr(record, "event", None), str(record.msg)
        self._note_submission(record.thread, text)
        if not self._details and (record.levelno < INFO or _REMEMBERS.match(text)):
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

    def _note_submission(self, thread: int | None, text: str) -> None:
        if call := _SBATCH.search(text):
            self._calls[thread] = sbatch_line(call[1])
        elif (sent := _SUBMITTED.search(text)) and thread in self._calls:
            self._sbatch[sent[1]] = self._calls[thread]

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
        if "groupid" in failure:
            lines = [f"a job of {len(jobs)} parts failed: {one_line(str(failure['groupid']))}"]
        else:
            lines = [f"{failure['rule_name']} failed (job {failure['jobid']})"]
        on_cluster = [*self._of_cluster(failure)]
        logs = [*(failure.get("aux_logs") or []), *(log for job in jobs for log in job["log"])]
        words = [advised(line) if on_cluster else line for line in _of_logs([log for log in logs if log])]
        alike = _NUMBER.sub("#", " ".join([str(failure.get("rule_name")), *words[1::2]]))
        self._failures[alike] += 1
        if self._failures[alike] <= _ALIKE:
            self._say("\n".join([*lines, *on_cluster, *words]), "bold red")

    def _of_cluster(self, failure: dict[str, Any]) -> Iterator[str]:
        """Yield what is known of a cluster job that failed: SLURM's words or the plugin's, how it was submitted."""
        why, _, call = str(failure.get("why") or failure.get("rule_msg") or "").partition("sbatch call:")
        why = one_line(why.partition("For further error details")[0], 500)
        job = str(failure.get("external_jobid") or failure.get("aux", {}).get("external_jobid") or "")
        if line := (job_line(job) if job else "") or why:
            yield f"  {advised(line)}"
        if call := self._sbatch.get(job, sbatch_line(call)):
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
    """Yield the logs that tell most, and of those that tell the same one, each with its last words."""
    alike: dict[str, list[tuple[int, str, str]]] = {}
    for log in logs:
        # Snakemake may have moved it away for another attempt.
        worth, words = _last_words(Path(log)) or _last_words(Path(f"{log}.failed")) or (0, "")
        alike.setdefault(_NUMBER.sub("#", words), []).append((worth, log, words))
    most = max((group[0][0] for group in alike.values()), default=0)
    # Of a group most logs are of parts that were only ended.
    groups = [group for group in alike.values() if group[0][0] == most][:_MAX_LOGS]
    for (_, log, words), *others in groups:
        yield f"  {one_line(log)}" + (f" (and {len(others)} more like it)" if others else "")
        yield f"    {words or 'empty'}"
    if more := len(logs) - sum(map(len, groups)):
        yield f"  and {more} more logs"


def _last_words(path: Path) -> tuple[int, str] | None:
    """Return the last line of a job's log that tells most, and how much that is; None if nothing can be read."""
    try:
        with open_regular(path) as file:
            file.seek(max(file.seek(0, os.SEEK_END) - (1 << 18), 0))
            lines = [one_line(line, 300) for line in file.read().decode(errors="replace").splitlines()]
    except OSError:
        return None
    for worth, words in _TELLING:
        if found := [line for line in lines if re.search(words, line) and not _OF_EVERY.search(line)]:
            return worth, found[-1]
    return None
