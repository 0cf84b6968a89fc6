"""Cluster jobs that a killed run left behind are waited for: they do the study's work as well as new ones."""

import getpass
import re
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from parley.engine.hardware import output_of
from parley.errors import ParleyError
from parley.text import counted, every, limited_logger, one_line, table

_log = limited_logger(__name__)

_POLL_SECONDS = 15.0
_TELL_SECONDS = 300.0
_PATIENCE_POLLS = 8  # while SLURM's controller restarts, nothing answers
_SEPARATOR = "="  # no name of a study or an engine may hold it
_MEMORY = "mem_mb in the profile, memory_mb in the model's entry"
_TIME = "runtime in the profile, minutes in the model's entry"
# What SLURM, the kernel or a shell says of a job, the surest first, and what a person does about it.
_REMEDIES = {
    r"oom[-_ ]kill|Out Of Memory|OUT_OF_MEMORY": f"ask for more memory: {_MEMORY}",
    r"DUE TO TIME LIMIT|: TIMEOUT": f"what is left goes on in the next job; for longer ones: {_TIME}",
    r"\bKilled\b|\bsignal 9\b|exit status -9": f"if memory ran out: {_MEMORY}",
    r"PartitionTimeLimit": f"ask for less time: {_TIME}",
    r"JobHeld|requeued held": "scontrol release JOB",
}
# What sbatch refuses for good, and what asks for it: keys of the profile, and of a model's entry.
_REFUSALS = {
    r"\baccount\b": ("slurm_account", "account"),
    r"partition": ("slurm_partition", "partition"),
    r"(?i)\bqos\b": ("qos", "qos"),
    r"time limit": ("runtime", "minutes"),
    r"(?i)memory": ("mem_mb", "memory_mb"),
    r"feature": ("constraint", "constraint"),
    r"gres": ("gres", "gres or gpu_model"),
    r"node configuration|processors|Node count": ("cores, mem_mb or constraint", "gpus, gpu_model, gres or memory_mb"),
}
# Words of squeue, of sbatch and of what the plugin asks before it: SLURM is busy, or its controller restarts.
BUSY = re.compile(
    r"Socket timed out|temporarily un|Unable to contact slurm controller|Zero Bytes were transmitted"
    r"|Connection (?:refused|timed out|reset)"
)
_refusal: list[str] = []  # the last of this run, in words
_THERE = (
    "%d cluster jobs of an earlier run of this study are still there, and are waited for; to start anew, which loses "
    "no reply: scancel %s"
)


def group_name(study: str, engine: str, shard: int | str) -> str:
    """Return the name of a shard's group of jobs, by which its cluster job is found again."""
    return _SEPARATOR.join([study, engine, str(shard)])


def asked_lines(planned: Iterable[Any]) -> Iterator[str]:
    """Yield a table of what a cluster is asked for by planned jobs of Snakemake, those that ask alike in a row."""
    groups: dict[str, list[Any]] = defaultdict(list)
    for job in planned:
        if job.group:
            groups[job.group].append(job.resources)
    asked = Counter((name.split(_SEPARATOR)[1], *_asked(parts)) for name, parts in groups.items())
    if asked:
        yield from table(
            ("cluster jobs", "of", "GPUs", "MB", "minutes"), [[jobs, *each] for each, jobs in sorted(asked.items())]
        )
        hours = sum(jobs * gpus * minutes for (_, gpus, _, minutes), jobs in asked.items()) / 60
        yield f"in all {counted(len(groups), 'job')}, at most {hours:,.0f} GPU hours, unless one is sent again"


def _asked(parts: Iterable[Any]) -> tuple[int, int, int]:
    """Return the GPUs, MB and minutes of a cluster job, whose servers run at once."""
    # What stands in --gres is the whole job's, and ends in its number.
    gres = next((int(part.gres.rpartition(":")[2]) for part in parts if part.get("gres")), 0)
    gpus, memory, minutes = ([part.get(key) or 0 for part in parts] for key in ("gpu", "mem_mb", "runtime"))
    return gres or sum(gpus), sum(memory), max(minutes)


def former_jobs(study: str) -> list[str] | str:
    """Return the ids of the cluster jobs that runs of `study` sent from this folder, or what squeue says if it fails.

    They are told by the comment of Snakemake's plugin.
    """
    if isinstance(listed := listed_jobs(f"--user={getpass.getuser()}"), str):
        return listed
    begins, here = f"rule_{study}{_SEPARATOR}", str(Path.cwd())
    return [number for number, comment, folder in listed if comment.startswith(begins) and folder.strip() == here]


def wait_for_former_jobs(study: str, required: bool, seconds: float = _POLL_SECONDS) -> bool:
    """Return when no job of another run of `study` is left, and whether there was one.

    Raises ParleyError if SLURM is `required` and squeue does not answer for a while, or will not.
    """
    waited, silent = False, 0
    while (jobs := former_jobs(study)) != []:
        if not isinstance(jobs, str):
            waited = True
            _log.info(_THERE, len(jobs), " ".join(jobs[:20]) + " ..." * (len(jobs) > 20), extra=every(_TELL_SECONDS))
        elif not waited and not required:
            return False
        elif not waited and (silent := silent + 1) >= (_PATIENCE_POLLS if not jobs or BUSY.search(jobs) else 1):
            said = f" ({one_line(jobs, 200)})" if jobs else ""
            raise ParleyError(
                f"squeue does not answer{said}, so jobs of an earlier run are unknown; is SLURM here, and up?"
            )
        else:
            _log.info("squeue does not answer, and is asked again", extra=every(_TELL_SECONDS))
        time.sleep(seconds)
    return waited


def listed_jobs(*options: str) -> list[list[str]] | str:
    """Return the jobs of whom `options` of squeue say: id, comment and folder; or its last words if it fails."""
    command = ["squeue", "--noheader", *options, "--format=%i\t%k\t%Z"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except FileNotFoundError:
        return []
    except subprocess.CalledProcessError as error:
        return (error.stderr or "").strip().rpartition("\n")[2]
    except (OSError, subprocess.SubprocessError):
        return ""
    return [cells for line in listed.splitlines() if len(cells := line.split("\t")) == 3]


def queue_line(reasons: Mapping[str, int]) -> str:
    """Return how many jobs wait for what, in SLURM's words, and what helps."""
    # SLURM names none for what it has not looked at yet, and may explain itself after a comma.
    words = {reason: "not looked at" if reason == "None" else reason.partition(",")[0] for reason in reasons}
    return "in the queue: " + ", ".join(f"{number:,} {advised(words[reason])}" for reason, number in reasons.items())


def advised(line: str) -> str:
    """Return what was said of a job, with what a person does about it, if that is known."""
    return next((f"{line} ({advice})" for words, advice in _REMEDIES.items() if re.search(words, line)), line)


def job_line(job: str) -> str:
    """Return what SLURM says of a job that ended: its state, node and exit code; "" if it says nothing any more."""
    facts = dict(re.findall(r"(\w+)=(\S+)", output_of("scontrol", "show", "job", "--oneliner", job)))
    names = ("JobState", "NodeList", "ExitCode", "Reason")
    state, node, code, reason = (facts.get(name, "") for name in names)
    if not state:  # forgotten after some minutes, unless there is accounting
        line = output_of("sacct", "-j", job, "-X", "-n", "-P", "-o", "State,NodeList,ExitCode,Reason").splitlines()[:1]
        state, node, code, reason = (line[0].split("|") + [""] * 4)[:4] if line else ("", "", "", "")
    if not state:
        return ""
    # Of a job that was canceled it says what that waited for.
    why = f" ({reason})" if reason not in ("", "None", "NonZeroExitCode") and not state.startswith("CANCELLED") else ""
    return one_line(f"SLURM job {job}: {state}{why} on {node or 'no node'}, exit code {code}", 300)


def note_refusal(answer: str) -> bool:
    """Return whether sbatch refused a job for good by its answer; `refusal_line` then says what to change."""
    if "sbatch" not in answer:
        return False
    words = one_line(answer.strip().rstrip("'.").rpartition("failed: ")[2], 200)
    others = ("what jobs ask for", "cluster")
    ours, models = next((keys for pattern, keys in _REFUSALS.items() if re.search(pattern, words)), others)
    _refusal[:] = [f"SLURM refuses a job: {words}; change {ours} in the profile, or {models} in the model's entry"]
    return True


def refusal_line() -> str | None:
    """Return what SLURM refused last in this run, and what to change; None if it refused nothing for good."""
    return _refusal[0] if _refusal else None
