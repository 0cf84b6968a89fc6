"""Every column of every table, declared once: the tables are written by it, and docs/data.md is generated from it.

What games have of their own they declare themselves (`parley.games.<game>.columns`), and so do records
(`parley.play.record`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from parley.analysis.compared_columns import COMPARED
from parley.analysis.counted_columns import COUNTED, UTTERANCES
from parley.analysis.shared_columns import AXES, AXIS, GAME_TURN, METRIC, Table
from parley.columns import Column, find
from parley.games.base import Game
from parley.games.registry import GAMES

__all__ = ["AXES", "TABLES", "UTTERANCES", "Table", "columns_of", "declared", "describe", "names_of"]
TABLES = (*COUNTED, *COMPARED)


def declared(name: str) -> Table:
    """Return the table called `name`; raises KeyError for an unknown one."""
    return {each.name: each for each in TABLES}[name]


def columns_of(name: str, axes: Iterable[str], game: type[Game]) -> list[Column]:
    """Return the columns of a table in a study of `game` with these axes, in their order.

    Names that stand for several columns, such as `<outcome>_rate`, stay as they are. An axis takes the place of any
    other column of its name.
    """
    found: dict[str, Column] = {}
    for column in _filled(declared(name), list(axes), game):
        found.setdefault(column.name, column)
    return list(found.values())


def _filled(of: Table, axes: list[str], game: type[Game]) -> Iterator[Column]:
    for column in of.columns:
        if column.name == AXIS:
            texts = {axis.name: axis.text for axis in AXES}
            yield from (replace(column, name=axis, text=texts.get(axis, AXES[-1].text)) for axis in axes)
        elif column.name == METRIC:
            yield from game.evidence.columns.metrics
            yield from (Column(i.name, "bool", i.label) for i in game.evidence.indicators)
            yield from (Column(q.name, "double", q.label, q.unit) for q in game.evidence.quantities)
        elif column.name == GAME_TURN:
            games = [*GAMES.values(), *([] if game in GAMES.values() else [game])]
            yield from dict.fromkeys(each for of_game in games for each in of_game.evidence.columns.turns)
        else:
            yield column


def names_of(name: str, axes: Iterable[str], game: type[Game]) -> list[str]:
    """Return the names of the columns of a table that every study of `game` with these axes has, in their order."""
    return [column.name for column in columns_of(name, axes, game) if "<" not in column.name]


def describe(name: str, column: str, axes: Iterable[str], game: type[Game]) -> Column | None:
    """Return what is declared of a column of the table `name`; None for a column that nobody declared."""
    return find(columns_of(name, axes, game), column, {"outcome": [outcome.name for outcome in game.outcomes]})
