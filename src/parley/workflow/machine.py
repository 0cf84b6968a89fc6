"""What the Snakefile needs of the machine: one run at a time per study, a name for it, and Parley's own programs."""

import os
import sys
import time
import uuid
from collections.abc import Collection, Iterable
from pathlib import Path

from parley.errors import BudgetError, JournalError, RecordError
from parley.files import try_lock
from parley.study import Study
from parley.workflow.run_log import leave

_RUN = "PARLEY_RUN"
_LOCK_SECONDS = 0.5  # `parley status` has the lock for an instant, to see whether it is held

_held: list[int] = []  # file descriptors; a lock lasts as long as its descriptor


def hold_lock(path: Path) -> None:
    """Lock a file until this process ends, however it ends.

    Raises JournalError if another process holds it, or if it cannot be made or locked.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise JournalError(f"{path}: cannot be opened: {error.strerror}") from error
    try:
        end = time.monotonic() + _LOCK_SECONDS
        while not try_lock(fd, path):
            if time.monotonic() < end:
                time.sleep(0.05)
                continue
            raise JournalError(f"{path}: another run of this study holds it; wait for that run or stop it")
    except JournalError:
        os.close(fd)
        raise
    _held.append(fd)


def find_own_programs() -> None:
    """Let jobs find `parley` beside the Python that runs Snakemake, even if its environment is not activated."""
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)])


def run_token(new: bool) -> str:
    """Return a name for this run of the workflow: the same in all its jobs, on whatever node, and in no other run."""
    if new or _RUN not in os.environ:
        os.environ[_RUN] = uuid.uuid4().hex[:8]
    return os.environ[_RUN]


def refuse_to_replace(records: Iterable[str]) -> None:
    """Raise RecordError if one of the `records` that are about to be played is there: Snakemake would delete it."""
    found = [record for record in records if Path(record).exists()]
    if found:
        raise RecordError(
            f"{found[0]}: is there, and finished records are never played again; delete it if you want that"
            + (f" ({len(found)} records in all)" if len(found) > 1 else "")
        )


def require_key_and_budget(study: Study, records: Collection[str]) -> None:
    """Raise UsageError if a service that answers for one of the `records` has no key, BudgetError if none is left.

    For scripted simulations neither matters.
    """
    from parley.engine.service.service import (
        service_of,
    )  # with an HTTP client, which no other start of Snakemake needs
    from parley.play.spending import spent_line

    asked = {
        name
        for simulation in study.simulations()
        if str(simulation.record(study.name)) in records
        for name in simulation.condition.models
    }
    for name in sorted(asked):
        if study.models[name].is_service:
            service_of(name, study.models[name])
    if asked and (line := spent_line(study)) is not None:
        raise BudgetError(line)


def require_material(study: Study, records: Collection[str]) -> None:
    """Raise UsageError if what one of the `records` is to be about cannot be had, such as a file of problems."""
    seen = set()
    for simulation in study.simulations():
        if simulation.condition.path not in seen and str(simulation.record(study.name)) in records:
            seen.add(simulation.condition.path)
            _ = simulation.material


def restart() -> None:
    """Start this program anew, with the same arguments, in the same process."""
    leave()
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
