"""Writes what pages say of keys, columns, commands and promises, and the schemas for editors: `make reference`."""

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from pprint import pformat
from typing import Any

import click
import column_lists
import promises
import schema_tables

from parley.card.content import Card
from parley.cli import commands
from parley.engine.models import ModelsFile
from parley.games.base import Game
from parley.games.registry import GAMES
from parley.study.prompt_sent import asked, default_study
from parley.study.study_file import StudyFile

ROOT = Path(__file__).parents[2]
BEGIN, END = "<!-- made by `make reference` -->\n", "<!-- end -->\n"
_LABEL = re.compile(r"^Examples?:\s+")


def made() -> dict[Path, str]:
    """Return the schemas, and the pages with what is generated of now between the lines that mark it."""
    schemas = {"study": _study(), "models": ModelsFile.model_json_schema()}
    of_docs = {f"reference/{name}": schema_tables.markdown(schema) for name, schema in schemas.items()}
    of_docs["reference/commands"] = "\n".join(_command(commands, "parley"))
    of_docs["own-policies"] = "\n".join(map(_view, GAMES.values()))
    of_docs["data"] = column_lists.markdown()
    of_docs["verification"] = promises.markdown()
    schemas |= {"card": Card.model_json_schema()}
    found = {
        ROOT / "config" / "schemas" / f"{name}.schema.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        for name, schema in schemas.items()
    }
    for name, text in of_docs.items():
        page = ROOT / "docs" / f"{name}.md"
        before, rest = page.read_text(encoding="utf-8").split(BEGIN)
        found[page] = f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}"
    return found


def _study() -> dict[str, Any]:
    """Return the schema of a study, with the parameters of each game."""
    study = StudyFile.model_json_schema()
    shipped = {"enum": sorted(GAMES)}
    # An editor offers these, and takes the user's own.
    study["properties"]["game"]["anyOf"] = [shipped, {"pattern": ":"}, {"description": "An installed entry point."}]
    parameters = [game.Parameters.model_json_schema(mode="validation") for _, game in sorted(GAMES.items())]
    for schema in parameters:
        study["$defs"] |= {**schema.pop("$defs", {}), schema["title"]: schema}
    fitting = {"anyOf": [{"$ref": f"#/$defs/{schema['title']}"} for schema in parameters]}
    study["if"] = {"properties": {"game": shipped}}
    study["then"] = {"properties": {"parameters": fitting}}
    return study


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
    for file, text in made().items():
        file.write_text(text, encoding="utf-8")
