# Parley's workflow: the table of contents. A study is chosen by --config study=NAME (default: demo) or a YAML path.
#
#   snakemake --cores all                      the demo, on this machine
#   snakemake -n --config study=paper          what the paper's study would run

from snakemake.utils import min_version

from parley.workflow.stopping import stop_while_planning

if workflow.is_main_process:
    stop_while_planning()  # what follows takes a second to import

from parley import paths
from parley.columns import table_names
from parley.workflow.jobs import Jobs
from parley.workflow.run import begin, braced, on_error, on_start, on_success

min_version("9.0")

RUN = begin(workflow, config)
STUDY = RUN.study
# Used with --software-deployment-method conda; else jobs run in the environment that Snakemake runs in.
ENVIRONMENT = braced(workflow.source_path("envs/cpu.yaml"))
CUDA_ENVIRONMENT = braced(workflow.source_path("envs/cuda.yaml"))
JOBS = Jobs(RUN, workflow, ENVIRONMENT, CUDA_ENVIRONMENT)


onstart:
    on_start(RUN, workflow)


onerror:
    on_error(RUN)


onsuccess:
    on_success(RUN)


# Used with --software-deployment-method apptainer.
container: "envs/parley.sif"


wildcard_constraints:
    study=r"[A-Za-z0-9._-]+",
    engine=r"[A-Za-z0-9._+-]+",
    model=r"[A-Za-z0-9._-]+",
    shard=r"\d+",
    condition=paths.CONDITION,
    seed=r"\d+",


include: "workflow/rules/fetch_model.smk"
include: "workflow/rules/serve.smk"
include: "workflow/rules/simulate.smk"
include: "workflow/rules/simulate_shard.smk"
include: "workflow/rules/summarize.smk"
include: "workflow/rules/ledger.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/view.smk"


MADE = rules.summarize.output + rules.figures.output + rules.report.output + rules.view.output
MADE += rules.ledger.output if STUDY.game.evidence.keeps_ledger else []


rule all:
    """Everything of the study, named file by file, so that what is missing is made again."""
    default_target: True
    input:
        # Nothing else orders them: that an input is missing makes nothing anew where all that is made of it is there.
        RUN.unfinished,
        expand(MADE, study=STUDY.name),
    localrule: True
