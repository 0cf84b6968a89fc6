"""The command that runs a study: Snakemake, with the Snakefile of this checkout."""

import os
import re
import sys
from collections.abc import Sequence

from parley import paths
from parley.errors import UsageError
from parley.play.pausing import GO_ON

# Options that say how many jobs run at once, or name a profile that does.
_JOBS = re.compile(r"--(cores|jobs|profile)(=.*)?|-[cj].*")
_CONFIG = re.compile(r"--config(=.*)?|-C.*")


def snakemake_command(study: str, options: Sequence[str]) -> list[str]:
    """Return the command with which Snakemake runs a study, on all cores by default; may raise UsageError."""
    snakefile = paths.CHECKOUT / paths.SNAKEFILE
    if not snakefile.is_file():
        raise UsageError(f"no Snakefile of Parley in {snakefile.parent}; install Parley from a clone (make setup)")
    if study.startswith("-"):
        raise UsageError(f"{study}: name the study first, then options: parley run STUDY {study}")
    if any(map(_CONFIG.fullmatch, options)):
        raise UsageError("--config: its only key is the study, which is named already; leave it out")
    given = "SNAKEMAKE_PROFILE" in os.environ or any(map(_JOBS.fullmatch, options))
    if "--go-on" in options:  # its jobs have the environment, on whatever node
        os.environ[GO_ON] = "1"
        options = [option for option in options if option != "--go-on"]
    cores = [] if given else ["--cores", "all"]
    command = [sys.executable, "-P", "-m", "snakemake", "--snakefile", str(snakefile), *cores, *options]
    return [*command, "--config", f"study={study}"]
