# Parley's workflow: the table of contents. A study is chosen by --config study=NAME (default: demo) or a YAML path.
#
#   snakemake --cores all                      the demo, on this machine
#   snakemake -n --config study=paper          what the paper's study would run
#   snakemake --report report.html             Snakemake's own report, after a run

import os
import shutil
import sys
from shlex import quote

from snakemake.exceptions import WorkflowError
from snakemake.utils import min_version

from parley.workflow.stopping_run import stop_run, stop_while_planning, stopped_line

if workflow.is_main_process:
    stop_while_planning()  # what follows takes a second to import

from parley import paths
from parley.calibration.results import planned_report
from parley.study.condition import OWN_CODE, SCRIPTED
from parley.engine.weights import model_marker
from parley.errors import ParleyError, UsageError
from parley.workflow.guard import Guard
from parley.study.planned import changed_since, run_plan
from parley.play.relocate import Moves, find_moves, missing_records, relocate
from parley.workflow.slurm import group_name, tell_why_groups_fail, wait_for_former_jobs
from parley.workflow.run_log import follow, refuse
from parley.play.spending import spent_line
from parley.study import load_study
from parley.play.usable import recall_left_out
from parley.workflow.machine import (
    find_own_programs,
    hold_lock,
    refuse_to_replace,
    require_key_and_budget,
    require_material,
    restart,
    run_token,
)

min_version("9.0")

try:
    if unknown := set(config) - {"study"}:
        raise UsageError(f"--config {sorted(unknown)[0]}: unknown key; the only one is study")
    STUDY = load_study(paths.study_file(str(config.get("study") or "demo")))
    PLAN = run_plan(STUDY, new=workflow.is_main_process)
except ParleyError as error:
    # Nothing has started: one line, as from the command line.
    print(f"parley: {error}", file=sys.stderr)
    sys.exit(error.exit_code)

follow(STUDY)  # in the display
if workflow.is_main_process and (line := recall_left_out(STUDY)):
    print(f"parley: warning: {line}", file=sys.stderr)
# By the paths as Snakemake has them: texts.
SHARDS = {str(record): shard for record, shard in STUDY.shards().items()}
find_own_programs()
RUN = run_token(new=workflow.is_main_process)
# Here or on a cluster's node: Snakemake waits for servers that hang.
Guard(lambda: workflow.execution_settings.latency_wait, logger.error).start()


include: "workflow/rules/common.smk"


# What lies at a path that the study had before is there: it is moved when a run starts, and not by a dry run.
# The process of one job plans that job alone: it need not know all records, and K such processes share a node.
MOVES = find_moves(STUDY) if workflow.is_main_process else Moves()
for line in MOVES.lines():
    logger.warning(line)
MISSING = missing_records(STUDY, MOVES, by_shard=False) if workflow.is_main_process else []
# What plays by shard is made by one job: its mark stands for the records.
UNPLAYED = missing_records(STUDY, MOVES, by_shard=True) if workflow.is_main_process else []
PLAYED = sorted({mark_of(record) for record in UNPLAYED})
# Only what is missing can order anything to be made, and each file that a rule names takes Snakemake milliseconds.
UNFINISHED = MISSING + PLAYED
# What the ledger rule marks; nothing for a game that keeps none.
LEDGER = [str(paths.stamp(STUDY.name, "ledger", STUDY.ledger_plan))] if STUDY.game.evidence.keeps_ledger else []
# The report shows the calibrations of the study's models, too: another one makes another plan.
try:
    REPORT_PLAN = planned_report(STUDY, new=workflow.is_main_process)
except ParleyError as error:
    print(f"parley: {error}", file=sys.stderr)
    sys.exit(error.exit_code)
# Part of the shell commands as text, not as params: see rerun-triggers in profiles/default.
MODELS_OPTION = f"--models {quote(str(STUDY.models_file))}".replace("{", "{{").replace("}", "}}")
STUDY_OPTIONS = f"{quote(str(STUDY.file))} ".replace("{", "{{").replace("}", "}}") + f"{MODELS_OPTION} --plan {PLAN}"
# Used with --software-deployment-method conda; else jobs run in the environment that Snakemake runs in.
# Snakemake formats these paths, too.
ENVIRONMENT = workflow.source_path("envs/cpu.yaml").replace("{", "{{").replace("}", "}}")
CUDA_ENVIRONMENT = workflow.source_path("envs/cuda.yaml").replace("{", "{{").replace("}", "}}")


onstart:
    if workflow.is_main_process:
        try:
            # Instead of Snakemake's own lock, which a killed run leaves behind: this one ends with the process.
            hold_lock(paths.lock(STUDY.name))
            if wait_for_former_jobs(STUDY.name, not workflow.local_exec, logger.warning):
                restart()  # to plan what is left
            jobs = list(workflow.dag.needrun_jobs())
            alone = [record for job in jobs if job.rule.name == "simulate" for record in job.output]
            relocate(MOVES, logger.warning)
            if {str(new) for _, new in MOVES.files}.intersection(alone):
                restart()  # somebody named one: Snakemake would delete what is there now
            # As --forceall would.
            refuse_to_replace(alone)
            marks = {str(job.output[0]) for job in jobs if job.rule.name == "simulate_shard"}
            # Once, not once per job; a dry run needs neither.
            records = {*alone, *(record for record in UNPLAYED if mark_of(record) in marks)}
            require_key_and_budget(STUDY, records)
            require_material(STUDY, records)
            stop_run(workflow.scheduler, workflow.local_exec)
            if not workflow.local_exec:
                tell_why_groups_fail(workflow.scheduler._executor)
                logger.setLevel("DEBUG")  # which alone says how jobs are submitted; nothing else of it is shown
        except ParleyError as error:
            refuse(str(error))


onerror:
    # The last word: the jobs that found the budget spent, or the study changed, have each said so, somewhere above.
    if workflow.is_main_process:
        for line in [stopped_line()] if stopped_line() else [spent_line(STUDY), changed_since(STUDY, PLAN)]:
            if line:
                logger.error(line)


onsuccess:
    # Only a killed run leaves marks here.
    if workflow.is_main_process:
        for marks in (paths.shard_marks(STUDY.name), paths.played_marks(STUDY.name)):
            shutil.rmtree(marks, ignore_errors=True)
        # The jobs that left out damaged records have said so in their logs alone.
        if line := recall_left_out(STUDY):
            logger.warning(f"warning: {line}")


# Used with --software-deployment-method apptainer.
container: "envs/parley.sif"


wildcard_constraints:
    study=r"[A-Za-z0-9._-]+",
    engine=r"[A-Za-z0-9._+-]+",
    model=r"[A-Za-z0-9._-]+",
    shard=r"\d+",
    condition=r"[^/]+=[^/]+(/[^/]+=[^/]+)*",
    spec=r"[0-9a-f]{8}",
    seed=r"\d+",


include: "workflow/rules/fetch_model.smk"
include: "workflow/rules/serve.smk"
include: "workflow/rules/simulate.smk"
include: "workflow/rules/simulate_shard.smk"
include: "workflow/rules/summarize.smk"
include: "workflow/rules/ledger.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/report.smk"


rule all:
    """Everything of the study, named file by file, so that what is missing is made again."""
    default_target: True
    input:
        # Nothing else orders them: that an input is missing makes nothing anew where all that is made of it is there.
        UNFINISHED,
        expand(
            [
                *rules.summarize.output,
                *(rules.ledger.output if LEDGER else []),
                *rules.figures.output,
                *rules.report.output,
            ],
            study=STUDY.name,
        ),
    localrule: True
