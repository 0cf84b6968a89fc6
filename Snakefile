# Parley's workflow: the table of contents. A study is chosen by --config study=NAME (default: demo) or a YAML path.
#
#   snakemake                                  the demo, on this machine
#   snakemake -n --config study=paper          what the paper's study would run
#   snakemake --report report.html             Snakemake's own report, after a run

import sys
from shlex import quote

from snakemake.utils import min_version

from parley import paths
from parley.engine.models import model_marker
from parley.errors import ParleyError
from parley.study import load_study

min_version("9.0")

try:
    STUDY = load_study(paths.study_file(str(config.get("study", "demo"))))
except ParleyError as error:
    # Nothing has started: one line, as from the command line.
    print(f"parley: {error}", file=sys.stderr)
    sys.exit(error.exit_code)

SHARDS = STUDY.shards()
# Part of the shell commands as text, not as params: see rerun-triggers in profiles/default.
MODELS_OPTION = f"--models {quote(str(STUDY.models_file))}".replace("{", "{{").replace("}", "}}")
STUDY_OPTIONS = f"{quote(str(STUDY.file))} ".replace("{", "{{").replace("}", "}}") + MODELS_OPTION
# Used with --software-deployment-method conda; else jobs run in the environment that Snakemake runs in.
ENVIRONMENT = workflow.source_path(f"envs/{config.get('environment', 'cpu')}.yaml")
TABLES = ("simulations", "conditions")


wildcard_constraints:
    study=r"[A-Za-z0-9._-]+",
    model=r"[A-Za-z0-9._-]+",
    shard=r"\d+",
    condition=r"[^/]+=[^/]+(/[^/]+=[^/]+)*",
    spec=r"[0-9a-f]{8}",
    seed=r"\d+",


include: "workflow/rules/common.smk"
include: "workflow/rules/fetch_model.smk"
include: "workflow/rules/serve.smk"
include: "workflow/rules/simulate.smk"
include: "workflow/rules/summarize.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/report.smk"


rule all:
    """Everything of the study."""
    default_target: True
    input:
        paths.stamp(STUDY.name, "report", STUDY.plan),
    localrule: True
