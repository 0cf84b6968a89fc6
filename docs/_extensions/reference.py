"""Writes what pages of the reference say of keys and commands, from the schemas and the commands: `make reference`."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from pprint import pformat

import click
import schema_tables

from parley import paths
from parley.cli import commands
from parley.games.base import Game
from parley.games.registry import GAMES
from parley.study.prompt_sent import asked, default_study

ROOT = Path(__file__).parents[2]
BEGIN, END = "<!-- made by `make reference` -->\n", "<!-- end -->\n"
_LABEL = re.compile(r"^Examples?:\s+")


def pages() -> dict[Path, str]:
    """Return the pages with what is generated of now, between the lines that mark it."""
    schemas = {name: schema_tables.load(ROOT / paths.schema(name)) for name in ("study", "models")}
    made = {name: schema_tables.markdown(schema) for name, schema in schemas.items()}
    made["commands"] = "\n".join(_command(commands, "parley"))
    by_page = {ROOT / "docs" / "reference" / f"{name}.md": text for name, text in made.items()}
    by_page[ROOT / "docs" / "own-policies.md"] = "\n".join(map(_view, GAMES.values()))
    found = {}
    for page, text in by_page.items():
        before, rest = page.read_text(encoding="utf-8").split(BEGIN)
        found[page] = f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}"
    return found


def _command(command: click.Command, name: str) -> Iterator[str]:
    """Yield the lines about a command and those below it: usage, what it does, examples, options."""
    context = click.Context(command, info_name=name)
    own = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
    records = [record for option in own if (record := option.get_help_record(context))]
    yield f"## {name}\n"
    yield f"`{name} {' '.join(command.collect_usage_pieces(context))}`\n"
    for paragraph in (command.help or "").strip().split("\n\n"):
        first, *lines = (line.strip() for line in paragraph.splitlines())
        if first == "\b":  # click keeps the lines after it as they are
            yield "\n".join(["```text", *(_LABEL.sub("", line) for line in lines), "```\n"])
        else:
            yield " ".join([first, *lines]) + "\n"
    if records:
        cells = [tuple(text.replace("|", "\\|").replace("\n", " ") for text in record) for record in records]
        yield "\n".join(["| option | meaning |", "|---|---|", *(f"| `{a}` | {b} |" for a, b in cells), ""])
    if isinstance(command, click.Group):
        for below, inner in command.commands.items():
            yield from _command(inner, f"{name} {below}")


def _view(game: type[Game]) -> str:
    """Return what a policy sees of a game: what its fields are, and as an example the view of an honest agent."""
    [simulation] = default_study(game, next(iter(game.prompts)), {}).simulations()
    *_, ask = (ask for ask in asked(simulation.game(), 0, 2) if ask.role == game.roles[0])
    of = type(ask.view)
    example = pformat(ask.view, width=110, compact=True).replace(f"{of.__module__}.", "")
    return f"### {game.name}: {of.__name__}\n\n{inspect.cleandoc(of.__doc__ or '')}\n\n```text\n{example}\n```\n"


if __name__ == "__main__":
    for file, text in pages().items():
        file.write_text(text, encoding="utf-8")
