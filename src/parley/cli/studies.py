"""The commands for what a study's results were made of before: what changed, another name, what is left over."""

from pathlib import Path

import click

from parley.cli.options import MODELS, STUDY, load, say


@click.command()
@STUDY
@MODELS
def diff(study: str, models: Path | None) -> None:
    """Show which keys of a study changed since its records were made, and what a run would do.

    Keys are parameters, those of model entries and policies, and prompts (by their hash). Simulations are kept, moved
    to the path that they have now, or played again; what is left over, `parley prune` removes.

    \b
    Example:  parley diff paper
    """
    from parley.play.changes import diff as run

    for line in run(load(study, models, needs_weights=False)):
        click.echo(line)


@click.command()
@click.argument("old")
@click.argument("new")
def rename(old: str, new: str) -> None:
    """Give a study, its results and its logs another name; OLD and NEW are names or paths of study files.

    The study file may have its new name already. Nothing is played again; tables and the report are made anew by the
    next run. Died in between, the same command goes on.

    \b
    Example:  parley rename paper paper-2026
    """
    from parley.workflow.rename import rename as run

    for line in run(old, new):
        say(line)


@click.command()
@STUDY
@MODELS
@click.option("--yes", is_flag=True, help="Delete them; without it they are only listed.")
def prune(study: str, models: Path | None, yes: bool) -> None:
    """List, or delete, the records of former configurations of a study.

    Only what can be read as a record or a journal of Parley is deleted; what is left is listed, with why. Records that
    only lie at a former path are none of these: a run moves them. Of two study files of one name, which share a folder
    of results, only the one under config/ is taken.

    \b
    Example:  parley prune demo --yes
    """
    from parley.workflow.prune import former
    from parley.workflow.prune import prune as run

    loaded = load(study, models)
    found = run(loaded) if yes else former(loaded)
    if not yes:
        for path in found.removable:
            say(str(path))
    for path, why in found.left:
        say(f"left: {path}: {why}")
    files = f"{len(found.removable)} files"
    if yes:
        click.echo(f"{files} deleted")
    else:
        click.echo(f"{files} are not of the study as it is now" + ("; --yes deletes them" if found.removable else ""))


COMMANDS = (diff, rename, prune)
