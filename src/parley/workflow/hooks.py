"""What is done when a run of Snakemake starts, fails and succeeds."""

import logging
import os
import shutil
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from snakemake.logging import logger as snakemake_logger

from parley import paths
from parley.errors import BudgetError, ParleyError, RecordError
from parley.files import hold_lock
from parley.play.record_store import recall_left_out
from parley.play.relocate import relocate
from parley.play.spending import spent_line
from parley.study import Study
from parley.study.growing import decide
from parley.study.planned import changed_since
from parley.text import one_line
from parley.workflow.run import Run
from parley.workflow.run_log import announce
from parley.workflow.slurm import wait_for_former_jobs
from parley.workflow.stopping import leave, stop_run, stopped_line

_log = logging.getLogger(__name__)


def on_start(run: Run, workflow: Any) -> None:
    """Make a run ready to play: alone, with all records at their paths, and with what its jobs need.

    Ends this process with one line if it may not begin, and starts it anew if there is less to do than was planned.
    """
    if run.is_main:
        try:
            _prepare(run, workflow)
        except ParleyError as error:
            refuse(str(error))


def _prepare(run: Run, workflow: Any) -> None:
    if workflow.executor_plugin.name == "slurm":
        # With the plugin, which no run on one machine needs.
        from parley.workflow.slurm_plugin import check_plugin

        check_plugin(workflow.scheduler._executor)
    # Instead of Snakemake's own lock, which a killed run leaves behind: this one ends with the process.
    hold_lock(paths.lock(run.study.name))
    announce(run.study)
    if run.precision is not None:
        decide(run.study.name, run.precision.numbers)
    if wait_for_former_jobs(run.study.name, not workflow.local_exec):
        restart()  # to plan what is left
    if any(os.path.exists(record) for record in run.missing):
        restart()  # processes of a run that was killed have finished them since
    jobs = list(workflow.dag.needrun_jobs())
    alone = [record for job in jobs if job.rule.name == "simulate" for record in job.output]
    relocate(run.moves)
    if {str(new) for _, new in run.moves.files}.intersection(alone):
        restart()  # somebody named one: Snakemake would delete what is there now
    # As --forceall would.
    refuse_to_replace(alone)
    marks = {str(job.output[0]) for job in jobs if job.rule.name == "simulate_shard"}
    # Once, not once per job; a dry run needs neither.
    records = {*alone, *(record for record in run.unplayed if run.mark_of(record) in marks)}
    require_key_and_budget(run.study, records)
    if workflow.local_exec:
        warn_of_slow_engines(run.study, records)
    require_material(run.study, records)
    stop_run(workflow.scheduler, workflow.local_exec)
    if not workflow.local_exec:
        snakemake_logger.setLevel("DEBUG")  # which alone says how jobs are submitted; nothing else of it is shown


def on_error(run: Run) -> None:
    """Say as the last word why a run ended: its jobs have each said so, somewhere above."""
    if run.is_main:
        stopped = stopped_line()
        for line in [stopped] if stopped else [spent_line(run.study), changed_since(run.study, run.plan)]:
            if line:
                _log.error("%s", line)


def on_success(run: Run) -> None:
    """Remove the marks that only a killed run leaves, and name the damaged records that were left out.

    Where seeds grow and all that was missing is played now, the run begins anew with what that asks for.
    """
    if run.is_main:
        for marks in (paths.shard_marks(run.study.name), paths.played_marks(run.study.name)):
            shutil.rmtree(marks, ignore_errors=True)
        # The jobs that left them out have said so in their logs alone.
        if line := recall_left_out(run.study):
            _log.warning("%s", line)
        played = [*run.unplayed, *run.missing]
        if run.grows and played and all(Path(record).exists() for record in played):
            if line := changed_since(run.study, run.plan):
                _log.error("%s", line)
            else:
                restart()


def refuse_to_replace(records: Iterable[str]) -> None:
    """Raise RecordError if one of the `records` that are about to be played is there: Snakemake would delete it."""
    found = [record for record in records if Path(record).exists()]
    if found:
        raise RecordError(
            f"{found[0]}: exists already, and finished simulations are never played again; delete it to play it again"
            + (f" ({len(found)} records in all)" if len(found) > 1 else "")
        )


def require_key_and_budget(study: Study, records: Collection[str]) -> None:
    """Raise UsageError if a service that answers for one of the `records` has no key, BudgetError if none is left.

    For scripted simulations neither matters.
    """
    # With an HTTP client, which no other start of Snakemake needs.
    from parley.engine.service.service import service_of

    asked = _models_asked(study, records)
    for name in sorted(asked):
        if study.models[name].is_service:
            service_of(name, study.models[name])
    if asked and (line := spent_line(study)) is not None:
        raise BudgetError(line)


def warn_of_slow_engines(study: Study, records: Collection[str]) -> None:
    """Say which models that answer for one of the `records` are slow on this machine, and why."""
    # With all that a server needs, which no other start of Snakemake does.
    from parley.engine.server import slowness

    for name in sorted(_models_asked(study, records)):
        if line := slowness(name, study.models[name]):
            _log.warning("%s", line)


def _models_asked(study: Study, records: Collection[str]) -> set[str]:
    return {
        name
        for simulation in study.simulations()
        if str(simulation.record(study.name)) in records
        for name in simulation.condition.models
    }


def require_material(study: Study, records: Collection[str]) -> None:
    """Raise UsageError if what one of the `records` is to be about cannot be had, such as a file of problems."""
    seen = set()
    for simulation in study.simulations():
        if simulation.condition.name not in seen and str(simulation.record(study.name)) in records:
            seen.add(simulation.condition.name)
            _ = simulation.material


def refuse(line: str) -> None:
    """End a run that may not begin, with one line and an exit status of 1."""
    leave(last_look=False)
    sys.stderr.write(f"parley: {one_line(line)}\n")
    sys.stderr.flush()
    sys.exit(1)


def restart() -> None:
    """Start this program anew, with the same arguments, in the same process."""
    leave()
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
