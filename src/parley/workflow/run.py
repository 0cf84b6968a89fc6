"""A run of Snakemake: what is to be made, as the Snakefile and its rule files name it; how it starts and ends."""

import atexit
import logging
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Collection, Iterable, Mapping
from contextlib import chdir, suppress
from pathlib import Path
from shlex import quote
from typing import Any

from parley import paths
from parley.errors import ParleyError, RecordError, UsageError
from parley.files import hold_lock, refuse_links, remove_leftovers
from parley.play.forks import check_parents
from parley.play.pausing import clear_pauses
from parley.play.record_store import recall_left_out
from parley.study import Study, load_study
from parley.study.frozen import report_plan
from parley.study.load import RunPlan, changed_since, check_alone, plan_of, require_plan, run_plan
from parley.text import one_line
from parley.workflow.run_log import announce, follow, show_log
from parley.workflow.slurm import asked_lines, refusal_line, wait_for_former_jobs
from parley.workflow.stopping import leave, stop_run, stopped_line

_log = logging.getLogger(__name__)


class Run:
    """A study as it is when Snakemake starts: what is missing of it, and what made files are called.

    Only the process that a person started (`is_main`) looks for what is missing: a job's plans that job alone.
    """

    def __init__(self, study: Study, is_main: bool, started_in: str = ".") -> None:
        """Plan a run; raises ParleyError if the study changed since the run of this job began."""
        self.started_in = started_in  # the folder, before any --directory
        self.study = study
        self.is_main = is_main
        run = None if is_main else run_plan()
        if run is None:
            run = RunPlan(uuid.uuid4().hex[:8], plan_of(study), report_plan(study))
            run.give_to_jobs()
        require_plan(study, run.study)
        self.plan, self.token, self.report_plan = run.study, run.token, run.report
        # By the paths as Snakemake has them: texts.
        self.shards = {str(record): shard for record, shard in study.shards().items()}
        self.missing = missing_records(study, by_shard=False) if is_main else []
        # What plays by shard is made by one job: its mark stands for the records.
        self.unplayed = missing_records(study, by_shard=True) if is_main else []
        # Only what is missing can order anything to be made, and each file that a rule names takes Snakemake
        # milliseconds.
        self.unfinished = self.missing + sorted({self.mark_of(record) for record in self.unplayed})
        # What the ledger rule marks; nothing for a game that keeps none.
        keeps_ledger = study.game.evidence.keeps_ledger
        self.ledger_stamps = [str(paths.stamp(study.name, "ledger", study.ledger_plan))] if keeps_ledger else []
        # Options are part of the shell commands as text, not as params: see rerun-triggers in profiles/default.
        self.models_option = braced(f"--models {quote(str(study.models_file))}")
        self.study_options = f"{braced(quote(str(study.file)))} {self.models_option} --plan {self.plan}"

    def mark_of(self, record: str) -> str:
        """Return the mark of the job that plays what is missing of a record's shard."""
        engine, shard = self.shards[record]
        return str(paths.mark(self.study.name, "played", engine, self.token, shard))


def begin(workflow: Any, config: Mapping[str, Any]) -> Run:
    """Return what the Snakefile is to make; ends this process with one line if that cannot be told."""
    file = paths.study_file(str(config.get("study") or "demo"))
    if workflow.is_main_process:
        go_home(file, workflow.workdir_init)
    show_log()
    try:
        if unknown := set(config) - {"study"}:
            raise UsageError(f"--config {sorted(unknown)[0]}: unknown key; the only one is study")
        study = load_study(file, needs_weights=False)
        find_own_programs()
        if workflow.is_main_process:
            check_alone(study.file)
            check_parents(study)
            if line := recall_left_out(study):
                print(f"parley: warning: {line}", file=sys.stderr)
            atexit.register(_say_end, workflow, study, Path.cwd())  # below all else
        run = Run(study, workflow.is_main_process, workflow.workdir_init)
        if run.missing:
            load_study(file)  # which says what is missing to play them
        follow(run.study)  # in the display
    except ParleyError as error:
        # Nothing has started: one line, as from the command line.
        print(f"parley: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    # Snakemake's executors, which start a process when imported.
    from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry

    from parley.workflow.local_jobs import Guard, give_groups_room, keep_records

    give_groups_room()
    keep_records()
    if ExecutorPluginRegistry().is_installed("slurm"):
        from parley.workflow.slurm_plugin import mend_slurm

        mend_slurm()
    # Here or on a cluster's node: Snakemake waits for servers that hang.
    Guard(lambda: workflow.execution_settings.latency_wait).start()
    return run


def is_local(workflow: Any) -> bool:
    """Whether jobs run on the machine of the command; those of a dry run (-n) would."""
    # A dry run has an executor of its own; of the one that was meant, Snakemake keeps that it needs threads.
    return bool(workflow.local_exec and not (workflow.dryrun and workflow.execution_settings.use_threads))


def _say_end(workflow: Any, study: Study, home: Path) -> None:
    """Say what a dry run would ask a cluster for, or what a study that is done answers; `home` has its results."""
    if workflow.dag is None:
        return
    if workflow.dryrun and not is_local(workflow):
        for line in asked_lines(workflow.dag.needrun_jobs(exclude_finished=False)):
            print(line)
    if workflow.dryrun or any(workflow.dag.needrun_jobs()):
        return
    from parley.analysis.tables import read_table
    from parley.report.answers import answer_lines

    with suppress(ParleyError):
        with chdir(home):  # Snakemake has gone back to where it was started
            report = paths.report(study.name).absolute()
            answers = list(answer_lines(read_table(study.name, "questions"), study))
        if report.is_file():
            for line in [*answers, f"Report: {os.path.relpath(report)}"]:
                sys.stderr.write(f"{one_line(line)}\n")


def go_home(study: Path, started_in: str) -> None:
    """Start this program anew in the folder of the study's results, if that is not the working directory."""
    if (home := paths.home(study)) != Path() and study.exists():
        there = study.parent.resolve().relative_to(home) / study.name
        os.environ[paths.STARTED_IN] = os.path.abspath(started_in)
        restart(started_in, "--directory", str(home), "--config", f"study={there}")


def braced(text: str) -> str:
    """Return a text of which Snakemake, which formats it, makes the text itself."""
    return text.replace("{", "{{").replace("}", "}}")


def find_own_programs() -> None:
    """Let jobs find `parley` beside the Python that runs Snakemake."""
    os.environ["PYTHONSAFEPATH"] = "1"  # no job's Python looks for libraries in the folder of the study
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)])


# What is done when it starts, fails and succeeds


def on_start(run: Run, workflow: Any) -> None:
    """Make a run ready to play: alone, and with what its jobs need.

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
    stages = [paths.stamp(run.study.name, stage, "").parent for stage in ("tables", "figures", "report", "view")]
    for top in (paths.results(run.study.name), paths.log(run.study.name, "run").parent):
        for folder, folders, _ in os.walk(top):  # Snakemake, too, would write and delete through links
            for name in folders:
                refuse_links(Path(folder, name))
    for written in (paths.conditions(run.study.name), *stages):
        remove_leftovers(written)  # of processes that were killed
    clear_pauses(run.study)
    announce(run.study, workflow.scheduler)
    if wait_for_former_jobs(run.study.name, not workflow.local_exec):
        restart(run.started_in)  # to plan what is left
    if any(os.path.exists(record) for record in run.missing):
        restart(run.started_in)  # processes of a run that was killed have finished them since
    jobs = list(workflow.dag.needrun_jobs())
    alone = [record for job in jobs if job.rule.name == "simulate" for record in job.output]
    # As --forceall would.
    refuse_to_replace(alone)
    marks = {str(job.output[0]) for job in jobs if job.rule.name == "simulate_shard"}
    # Once, not once per job; a dry run needs none of it.
    records = {*alone, *(record for record in run.unplayed if run.mark_of(record) in marks)}
    require_means(run.study, records)
    stop_run(workflow.scheduler, workflow.local_exec)


def on_error(run: Run) -> None:
    """Report what was played, and say last why the run ended: its jobs have each said so, somewhere above."""
    if run.is_main:
        stopped, changed = stopped_line(), changed_since(run.study, run.plan)
        if not stopped and not changed:
            report_played(run.study)
        for line in [stopped] if stopped else [refusal_line(), changed]:
            if line:
                _log.error("%s", line)


def report_played(study: Study) -> None:
    """Make tables, figures and the report of what could be played, if that is not all: a model may have failed."""
    there = [os.path.exists(record) for by_shard in (True, False) for record in study.records(by_shard=by_shard)]
    if all(there) or not any(there):
        return
    _log.warning("%s of %s simulations were played; their report is made ...", f"{sum(there):,}", f"{len(there):,}")
    for stage in ("summarize", "figures", "report"):
        command = [sys.executable, "-Pm", "parley.cli", stage, paths.study_argument(study.file)]
        ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if ran.returncode:
            _log.error("%s: %s", stage, one_line(ran.stderr.strip().rpartition("\n")[2], 300))
            return
    _log.warning("the report of what was played: %s", paths.report(study.name))


def on_success(run: Run) -> None:
    """Remove marks, and name the records that were left out."""
    if run.is_main:
        for kind in ("shards", "played"):
            shutil.rmtree(paths.marks(run.study.name, kind), ignore_errors=True)
        # The jobs that left them out have said so in their logs alone.
        if line := recall_left_out(run.study):
            _log.warning("%s", line)


def missing_records(study: Study, by_shard: bool) -> list[str]:
    """Return the records of a study, of those played a shard in a process or of all others, that are not there."""
    return [str(record) for record in study.records(by_shard=by_shard) if not os.path.exists(record)]


def refuse_to_replace(records: Iterable[str]) -> None:
    """Raise RecordError if one of the `records` that are about to be played is there: Snakemake would delete it."""
    there = [record for record in records if Path(record).exists()]
    if there:
        raise RecordError(
            f"{there[0]}: exists already, and finished simulations are never played again; delete it to play it again"
            + (f" ({len(there)} records in all)" if len(there) > 1 else "")
        )


def require_means(study: Study, records: Collection[str]) -> None:
    """Raise UsageError if `records` cannot be played."""
    simulations = [s for s in study.simulations() if str(s.record(study.name)) in records]
    models = {model for simulation in simulations for model in simulation.condition.models}
    if services := sorted(model for model in models if study.models[model].is_service):
        from parley.engine.service.service import service_of  # with an HTTP client

        for name in services:
            service_of(name, study.models[name])
    for simulation in {simulation.condition.name: simulation for simulation in simulations}.values():
        _ = simulation.material


def refuse(line: str) -> None:
    """End a run that may not begin, with one line and an exit status of 1."""
    leave(last_look=False)
    sys.stderr.write(f"parley: {one_line(line)}\n")
    sys.stderr.flush()
    sys.exit(1)


def restart(started_in: str, *more: str) -> None:
    """Start this program anew, with the same arguments and `more`, in the same process and folder."""
    leave(last_look=False)  # what is shown goes on
    sys.stdout.flush()
    sys.stderr.flush()
    os.chdir(started_in)
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:], *more])
