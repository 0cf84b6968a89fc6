"""Cluster jobs that a killed run left behind are waited for: they do the study's work as well as new ones."""

import subprocess
import time
from collections.abc import Callable, Collection
from pathlib import Path

_POLL_SECONDS = 15.0
_TELL_SECONDS = 300.0


def former_jobs(groups: Collection[str]) -> list[str] | None:
    """Return the ids of this user's jobs, started in this folder, that play one of the `groups` of Snakemake.

    None if `squeue` does not answer, as while SLURM's controller restarts; no jobs where there is no `squeue`.
    """
    command = ["squeue", "--me", "--noheader", "--format=%i\t%k\t%Z"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except FileNotFoundError:
        return []
    except (OSError, subprocess.SubprocessError):
        return None
    return jobs_of(listed, groups, Path.cwd())


def jobs_of(listed: str, groups: Collection[str], folder: Path) -> list[str]:
    """Return the ids of the jobs of `groups` in `folder`; `listed` has id, comment and folder, by tabs, a job a line.

    Snakemake's plugin writes `rule_<group>_<rules>` into the comment.
    """
    found = []
    for line in listed.splitlines():
        job, comment, where = line.split("\t", 2)
        if where.strip() == str(folder) and any(comment.startswith(f"rule_{group}_") for group in groups):
            found.append(job)
    return found


def wait_for_former_jobs(groups: Collection[str], say: Callable[[str], None], seconds: float = _POLL_SECONDS) -> bool:
    """Return when no former job is left, and whether there was one."""
    jobs = former_jobs(groups)
    waited = bool(jobs)
    told: float | None = None
    while jobs or (waited and jobs is None):
        if jobs and (told is None or time.monotonic() - told >= _TELL_SECONDS):
            told = time.monotonic()
            say(
                f"{len(jobs)} cluster jobs of an earlier run of this study are still there, and are waited for; to "
                f"start anew, which loses no reply: scancel {' '.join(jobs[:20])}{' ...' if len(jobs) > 20 else ''}"
            )
        time.sleep(seconds)
        jobs = former_jobs(groups)
    return waited
