"""Lists every column of every table, and of records, in Markdown: its type, its unit, and what it means."""

from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import attrgetter
from typing import Any

from parley.columns import Column, described
from parley.games.registry import GAMES
from parley.play.record_content import COLUMNS

# Of tables with columns of games.
_OF_GAMES = {
    "simulations": ("Metrics of", attrgetter("metrics")),
    "measures": ("Measures of", attrgetter("measured")),
    "turns": ("Turns of", attrgetter("turns")),
}


def markdown() -> str:
    """Return a section for each kind of table and for records."""
    content = described()
    parts = ["### Axes\n", *_rows(_columns(content["axes"])), "### Shared columns\n"]
    parts += ["The tables below name these (`a` to `b`: all from one to the other), and describe only their own.\n"]
    parts += _rows(_columns(content["shared"]))
    for name, table in (content["tables"] | content["documents"]).items():
        shared = _listed([column for column, spec in table["columns"].items() if not spec])
        row = f"One row per {table['row']}." + (f" Shared: {shared}." if shared else "")
        parts += [f"### {name}\n", f"{row}\n", *_rows(_columns(table["columns"]))]
        if name in _OF_GAMES:
            heading, columns = _OF_GAMES[name]
            parts += _by_game(heading, {game.name: columns(game.evidence.columns) for game in GAMES.values()})
    parts += ["### records\n", "One row per attempt: `simulations/model=<name>/.../seed=<seed>.parquet`.\n"]
    return "\n".join([*parts, *_rows(COLUMNS)])


def _columns(specs: Mapping[str, Any]) -> list[Column]:
    return [Column(name, *spec) for name, spec in specs.items() if spec]


def _listed(names: list[str]) -> str:
    """Return names of shared columns; four or more that follow one another among these are the first `to` the last."""
    order = list(described()["shared"])
    runs = [
        [name for _, name in run]
        for _, run in groupby(enumerate(names), key=lambda placed: order.index(placed[1]) - placed[0])
    ]
    return ", ".join(
        f"`{run[0]}` to `{run[-1]}`" if len(run) > 3 else ", ".join(f"`{name}`" for name in run) for run in runs
    )


def _by_game(heading: str, columns: Mapping[str, Iterable[Column]]) -> list[str]:
    """Return a list for each game, and one for each set of games that share columns."""
    parts: dict[str, list[Column]] = {}
    for column in dict.fromkeys(column for found in columns.values() for column in found):
        games = [game for game, found in columns.items() if column in found]
        parts.setdefault(" and ".join(games), []).append(column)
    return [line for games, found in parts.items() for line in (f"#### {heading} {games}\n", *_rows(found))]


def _rows(columns: Iterable[Column]) -> list[str]:
    """Return a list; columns that differ in nothing but their names share a line."""
    rows: dict[tuple[str, str], list[str]] = {}
    for column in columns:
        rows.setdefault((", ".join(filter(None, (column.kind, column.unit))), column.text), []).append(column.name)
    lines = [f"- {', '.join(f'`{name}`' for name in names)} ({kind}): {text}" for (kind, text), names in rows.items()]
    return [*lines, ""]
