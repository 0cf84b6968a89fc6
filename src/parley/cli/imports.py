"""The command that brings in games that were played elsewhere."""

from pathlib import Path

import click

from parley.cli.options import say


@click.command("import")
@click.argument("form", metavar="FORMAT")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--study", required=True, help="Name of the study that is made; nothing is overwritten.")
@click.option("--keep-damaged", is_flag=True, help="Import damaged games too; their records name the damage.")
@click.option("--source", default="", help="Where the games are from; default: what the format says.")
@click.option("--license", "license_note", default="", help="A note on their license; default: what the format says.")
def import_games(form: str, path: Path, study: str, keep_damaged: bool, source: str, license_note: str) -> None:
    """Make a study and records of games that somebody else's code played, so that tables and figures show them.

    FORMAT is byzantine-cheap-talk, jsonl (JSON lines, one a reply), or an installed entry point of the group
    parley.formats. The rules play each game from its replies, and payoffs must follow from its actions. What is
    damaged is listed, counted by kind, and left out. Nothing is asked of any model.

    \b
    Examples:  parley import byzantine-cheap-talk ../byzantine-cheap-talk/results --study published-games
               parley import jsonl games.jsonl --study theirs --source "their paper" --license CC-BY-4.0
    """
    from parley.imports.write import import_games as run

    for line in run(form, path, study, keep_damaged, source, license_note).lines():
        say(line)


COMMANDS = (import_games,)
