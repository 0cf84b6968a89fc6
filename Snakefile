# Parley's workflow: the table of contents. A study is chosen by --config study=NAME (default: demo) or a YAML path.
#
#   snakemake --cores all                      the demo, on this machine
#   snakemake -n --config study=paper          what the paper's study would run
#   snakemake --report report.html             Snakemake's own report, after a run

import shutil
import sys
from shlex import quote

from snakemake.exceptions import WorkflowError
from snakemake.utils import min_version

from parley import paths
from parley.engine.weights import model_marker
from parley.errors import ParleyError, UsageError
from parley.slurm import group_name, wait_for_former_jobs
from parley.snakemake_log import follow
from parley.spending import spent_line
from parley.study import SCRIPTED, load_study
from parley.workflow import (
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
except ParleyError as error:
    # Nothing has started: one line, as from the command line.
    print(f"parley: {error}", file=sys.stderr)
    sys.exit(error.exit_code)

follow(STUDY)  # in the display
SHARDS = STUDY.shards()
find_own_programs()
RUN = run_token(new=workflow.is_main_process)


include: "workflow/rules/common.smk"


# The process of one job plans that job alone: it need not know all records, and K such processes share a node.
RECORDS = [str(record) for record in SHARDS if not played_by_shard(record)] if workflow.is_main_process else []
# Of many scripted simulations, those of a shard that are missing are played by one job: its mark stands for them.
PLAYED = sorted(
    {
        str(paths.played_mark(STUDY.name, RUN, shard))
        for record, (_, shard) in SHARDS.items()
        if workflow.is_main_process and played_by_shard(record) and not record.exists()
    }
)
# What the ledger rule marks; nothing for a game that keeps none.
LEDGER = [str(paths.stamp(STUDY.name, "ledger", STUDY.ledger_plan))] if STUDY.game.keeps_ledger else []
# Part of the shell commands as text, not as params: see rerun-triggers in profiles/default.
MODELS_OPTION = f"--models {quote(str(STUDY.models_file))}".replace("{", "{{").replace("}", "}}")
STUDY_OPTIONS = f"{quote(str(STUDY.file))} ".replace("{", "{{").replace("}", "}}") + MODELS_OPTION
# Used with --software-deployment-method conda; else jobs run in the environment that Snakemake runs in.
ENVIRONMENT = workflow.source_path("envs/cpu.yaml")
CUDA_ENVIRONMENT = workflow.source_path("envs/cuda.yaml")


onstart:
    if workflow.is_main_process:
        try:
            # Instead of Snakemake's own lock, which a killed run leaves behind: this one ends with the process.
            hold_lock(paths.lock(STUDY.name))
            if wait_for_former_jobs(STUDY.name, not workflow.local_exec, logger.warning):
                restart()  # to plan what is left
            # As --forceall would.
            planned = [job for job in workflow.dag.needrun_jobs() if job.rule.name == "simulate"]
            refuse_to_replace(record for job in planned for record in job.output)
            # Once, not once per job; a dry run needs neither.
            records = {record for job in planned for record in job.output}
            require_key_and_budget(STUDY, records)
            require_material(
                STUDY,
                records | {str(record) for record in SHARDS if played_by_shard(record) and not record.exists()},
            )
        except ParleyError as error:
            raise WorkflowError(str(error)) from None


onerror:
    # The last word: the jobs that found the budget spent have each said so, somewhere above.
    if workflow.is_main_process and (line := spent_line(STUDY)):
        logger.error(line)


onsuccess:
    # Only a killed run leaves marks here.
    if workflow.is_main_process:
        for marks in (paths.shard_marks(STUDY.name), paths.played_marks(STUDY.name)):
            shutil.rmtree(marks, ignore_errors=True)


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
        RECORDS,
        PLAYED,
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
