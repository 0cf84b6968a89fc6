"""The command that runs a study: Snakemake, with the Snakefile of this checkout; and DVC's stage that calls it."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from parley import paths
from parley.errors import UsageError
from parley.text import one_line

if TYPE_CHECKING:
    from parley.study import Study

# Options that say how many jobs run at once, or name a profile that does.
_JOBS = re.compile(r"--(cores|jobs|profile)(=.*)?|-[cj].*")
_CONFIG = re.compile(r"--config(=.*)?|-C.*")


def snakemake_command(study: str, options: Sequence[str]) -> list[str]:
    """Return the command with which Snakemake runs a study, on all cores by default; may raise UsageError."""
    snakefile = paths.CHECKOUT / paths.SNAKEFILE
    if not snakefile.is_file():
        raise UsageError(f"no Snakefile of Parley in {snakefile.parent}; install Parley again (make setup)")
    if study.startswith("-"):
        raise UsageError(f"{study}: name the study first, then options: parley run STUDY {study}")
    if any(map(_CONFIG.fullmatch, options)):
        raise UsageError("--config: its only key is the study, which is named already; leave it out")
    given = "SNAKEMAKE_PROFILE" in os.environ or any(map(_JOBS.fullmatch, options))
    if "--go-on" in options:  # its jobs have the environment, on whatever node
        from parley.play.pausing import GO_ON  # slow to import

        os.environ[GO_ON] = "1"
        options = [option for option in options if option != "--go-on"]
    cores = [] if given else ["--cores", "all"]
    command = [sys.executable, "-P", "-m", "snakemake", "--snakefile", str(snakefile), *cores, *options]
    return [*command, "--config", f"study={study}"]


# `parley stage`: the stage of DVC that plays a study, which `dvc stage add` writes into dvc.yaml

# What a study in Parley's folder depends on, too. By content, down to a comment: to start Snakemake in vain costs
# seconds, not to start it would be wrong. Which simulations are played is decided inside.
_CODE = ("envs", "profiles/default", "Snakefile", "src/parley", "workflow")
# Made from the simulations: deleted before the stage runs, so that the code as it is makes them anew.
_MADE = ("conditions.parquet", "figures", "report", "tables", "view")


def write_stage(study: "Study", profile: str | None) -> Iterator[str]:
    """Write the stage of a study; yield what was written, and what it cannot depend on. May raise UsageError."""
    import yaml  # slow to import

    root = paths.root().resolve()
    results = paths.results(study.name).resolve().relative_to(root)
    made = [*_MADE, *(["ledger"] if study.game.evidence.keeps_ledger else [])]
    needed = {os.path.relpath(os.path.realpath(path), root) for path in _needed(study, root == paths.CHECKOUT)}
    outside = {place for place in needed if place.startswith(os.pardir)}
    options = [f"--outs-persist={results}/simulations", *(f"--outs={results}/{each}" for each in made)]
    options += [f"--metrics={results}/metrics", *(f"--deps={place}" for place in sorted(needed - outside))]
    command = ["parley", "run", paths.study_argument(study.file), *(["--profile", profile] if profile else [])]
    call_dvc("stage", "add", "--force", f"--name={study.name}", *options, shlex.join(command))
    file = root / "dvc.yaml"
    yield f"wrote the stage {study.name} into {file}:"
    yield yaml.safe_dump(yaml.safe_load(file.read_text())["stages"][study.name], sort_keys=False).rstrip()
    for place in sorted(outside):
        yield f"warning: {place}: outside of {root}, so the stage does not depend on it"


def _needed(study: "Study", in_checkout: bool) -> Iterator[str | Path]:
    """Yield what can change the results of a study: files and folders of its own, and the code that plays it."""
    from parley.policies.own_code import source_of
    from parley.trust import names_own_code

    yield study.file
    yield from (paths.root() / each for each in _CODE if in_checkout)
    if study.models_file.exists() and (in_checkout or study.models_file != paths.OWN_MODELS):
        yield study.models_file
    if (frozen := paths.frozen(study.file)).exists():  # its report compares the study with it
        yield frozen
    yield from study.own_prompts.folders if study.own_prompts else []
    if names_own_code(study.game.name):
        yield from source_of(study.game.name, study.file.parent, whole_package=True).files
    for condition in study.conditions:
        for parent in condition.fork.parents.values() if condition.fork else ():  # the games that were recorded
            yield next((each for each in parent.record.parents if each.name == "simulations"), parent.record)
        for kind in (group.player.policy.kind for group in condition.groups):
            yield from source_of(kind.name, study.file.parent).files if kind.is_plugin else []
        for _, parameter in condition.parameters:
            if path := getattr(parameter, "path", None):  # of files of problems
                yield paths.root() / os.path.expanduser(path)


def call_dvc(*arguments: str) -> None:
    """Run DVC in the folder of a study's results; raises UsageError with what it says if it refuses."""
    command = [sys.executable, "-P", "-m", "dvc", *arguments]
    ran = subprocess.run(command, cwd=paths.root(), capture_output=True, text=True, check=False)
    if ran.returncode:
        said = one_line(ran.stderr.strip().rpartition("ERROR: ")[2], 300)
        remedy = f"; run in {paths.root().absolute()}: git init && dvc init" if "not inside of a DVC" in said else ""
        raise UsageError(f"dvc {arguments[0]}: {said}{remedy}")
