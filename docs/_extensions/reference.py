"""Writes what pages of the reference say of keys and commands, from the schemas and the commands: `make reference`."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import schema_tables

from parley import paths
from parley.cli import commands

ROOT = Path(__file__).parents[2]
BEGIN, END = "<!-- made by `make reference` -->\n", "<!-- end -->\n"
_LABEL = re.compile(r"^Examples?:\s+")


def pages() -> dict[Path, str]:
    """Return the pages with what is generated of now, between the lines that mark it."""
    schemas = {name: schema_tables.load(ROOT / paths.schema(name)) for name in ("study", "models")}
    made = {name: schema_tables.markdown(schema) for name, schema in schemas.items()}
    made["commands"] = "\n".join(_command(commands, "parley"))
    found = {}
    for name, text in made.items():
        page = ROOT / "docs" / "reference" / f"{name}.md"
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


if __name__ == "__main__":
    for file, text in pages().items():
        file.write_text(text, encoding="utf-8")
