"""What is to be made in a run of Snakemake, as the Snakefile and its rule files name it."""

import logging
import os
import shutil
import sys
import uuid
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import Any

from parley import paths
from parley.analysis.precision import grown, precision, unreachable
from parley.calibration.results import planned_report
from parley.errors import ParleyError, UsageError
from parley.play.record_store import recall_left_out
from parley.play.relocate import Moves, find_moves, missing_records
from parley.study import Study, load_study
from parley.study.companions import companions
from parley.study.planned import run_plan
from parley.study.study import check_alone
from parley.workflow.run_log import follow, show_log
from parley.workflow.server_guard import Guard

_log = logging.getLogger(__name__)
_RUN = "PARLEY_RUN"


class Run:
    """A study as it is when Snakemake starts: what is missing of it, and what made files are called.

    The process of one job plans that job alone: it need not know all records, and many such processes share a node.
    So only the process that a person started (`is_main`) looks for what is missing.
    """

    def __init__(self, study: Study, is_main: bool) -> None:
        """Plan a run; raises ParleyError if the study changed since the run of this job began."""
        # How many seeds the study has by now, where they grow: its jobs are told by a file.
        self.precision = precision(study) if is_main and any(c.growing for c in study.conditions) else None
        self.study = study = grown(study, self.precision) if self.precision else study
        self.is_main = is_main
        self.plan = run_plan(study, new=is_main)
        self.token = run_token(new=is_main)
        # By the paths as Snakemake has them: texts.
        self.shards = {str(record): shard for record, shard in study.shards().items()}
        # What lies at a path that the study had before is there: it is moved when a run starts, not by a dry run.
        self.moves = find_moves(study) if is_main else Moves()
        self.missing = missing_records(study, self.moves, by_shard=False) if is_main else []
        # What plays by shard is made by one job: its mark stands for the records.
        self.unplayed = missing_records(study, self.moves, by_shard=True) if is_main else []
        # Only what is missing can order anything to be made, and each file that a rule names takes Snakemake
        # milliseconds.
        self.unfinished = self.missing + sorted({self.mark_of(record) for record in self.unplayed})
        # The report shows the calibrations of the study's models, too: another one makes another plan.
        self.report_plan = planned_report(study, new=is_main)

    def mark_of(self, record: str) -> str:
        """Return the mark of the job that plays what is missing of a record's shard."""
        engine, shard = self.shards[record]
        return str(paths.played_mark(self.study.name, engine, self.token, shard))

    @property
    def grows(self) -> bool:
        """Whether more simulations may follow what is played now: then nothing is made of them yet."""
        return self.precision is not None and self.precision.may_grow

    @cached_property
    def ledger_stamps(self) -> list[str]:
        """What the ledger rule marks; nothing for a game that keeps none."""
        study = self.study
        return [str(paths.stamp(study.name, "ledger", study.ledger_plan))] if study.game.evidence.keeps_ledger else []

    # Options are part of the shell commands as text, not as params: see rerun-triggers in profiles/default.
    @cached_property
    def models_option(self) -> str:
        """The option of a shell command that names the models file."""
        return braced(f"--models {quote(str(self.study.models_file))}")

    @cached_property
    def study_options(self) -> str:
        """The study and the options of a shell command of one of its stages."""
        return f"{braced(quote(str(self.study.file)))} {self.models_option} --plan {self.plan}"


def begin(workflow: Any, config: Mapping[str, Any]) -> Run:
    """Return what the Snakefile is to make; ends this process with one line if that cannot be told."""
    show_log()
    try:
        if unknown := set(config) - {"study"}:
            raise UsageError(f"--config {sorted(unknown)[0]}: unknown key; the only one is study")
        file = paths.study_file(str(config.get("study") or "demo"))
        study = load_study(file, needs_weights=False)
        find_own_programs()
        if workflow.is_main_process:
            check_alone(study.file)
            companions(study)  # one that does not fit is told before anything is played
            if line := recall_left_out(study):
                print(f"parley: warning: {line}", file=sys.stderr)
        run = Run(study, workflow.is_main_process)
        if run.missing:
            load_study(file)  # which says what is missing to play them
        follow(run.study)  # in the display
    except ParleyError as error:
        # Nothing has started: one line, as from the command line.
        print(f"parley: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    for line in run.moves.lines():
        _log.info("%s", line)
    if run.precision is not None:
        _log.info("%s", run.precision.line(study))
        for line in unreachable(study):
            _log.warning("%s", line)
    # Snakemake's executors, which start a process when imported.
    from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry

    from parley.workflow.workers import give_groups_room

    give_groups_room()
    if ExecutorPluginRegistry().is_installed("slurm"):
        from parley.workflow.slurm_plugin import mend_slurm

        mend_slurm()
    # Here or on a cluster's node: Snakemake waits for servers that hang.
    Guard(lambda: workflow.execution_settings.latency_wait).start()
    return run


def braced(text: str) -> str:
    """Return a text of which Snakemake, which formats it, makes the text itself."""
    return text.replace("{", "{{").replace("}", "}}")


def find_own_programs() -> None:
    """Let jobs find `parley` beside the Python that runs Snakemake, even if its environment is not activated.

    Raises UsageError if it is not there either: all jobs would fail.
    """
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)])
    if shutil.which("parley") is None:
        raise UsageError(
            "no command `parley` on PATH, which every job runs; activate the environment that has it (source "
            ".venv/bin/activate), and run the same command again"
        )


def run_token(new: bool) -> str:
    """Return a name for this run of the workflow: the same in all its jobs, on whatever node, and in no other run."""
    if new or _RUN not in os.environ:
        os.environ[_RUN] = uuid.uuid4().hex[:8]
    return os.environ[_RUN]
