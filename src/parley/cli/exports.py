"""The command that writes results for other tools."""

from pathlib import Path
from typing import Any

import click

from parley import paths
from parley.cli.options import MODELS, STUDY, log_to_stderr


@click.command()
@STUDY
@click.option(
    "--to",
    "form",
    required=True,
    type=click.Choice(("inspect", "croissant", "ro-crate")),
    help="inspect: logs of inspect_ai. croissant: the data set with its description. ro-crate: the whole run.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Folder; default: results/STUDY/exports/FORMAT.")
@click.option("--license", "license_note", default="", help="License of the results: an SPDX identifier or a URL.")
@click.option("--author", default="", help="Who made them; default: nobody is named.")
@MODELS
def export(study: str, form: Any, out: Path | None, license_note: str, author: str, models: Path | None) -> None:
    """Write the results of a study for another tool, into a folder that must not exist.

    A damaged record is named and left out. --license and --author are for croissant and ro-crate.

    \b
    Examples:  parley export demo --to inspect
               parley export demo --to croissant --license CC-BY-4.0 --author "Jo Doe" --out demo-croissant
    """
    from parley.api.studies import load_to_read
    from parley.export.write import Terms
    from parley.export.write import export as run

    log_to_stderr("parley: ")  # what is on stdout is the folder
    click.echo(str(run(load_to_read(study, paths.root(), models), form, out, Terms(license_note, author))))


COMMANDS = (export,)
