"""The one pass over the traces of a study: each is read once, and all that is made of traces takes what it needs."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, BinaryIO, TypeVar

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from parley import paths
from parley.analysis.averages import Averages, Rounds, by_player, player_table, rounds_of
from parley.analysis.simulations import PlayedGame, cell
from parley.analysis.tables import columns_of, csv_text, in_study
from parley.columns import schema
from parley.errors import RecordError
from parley.files import write_atomically
from parley.forked import forked_map
from parley.games.evidence import Evidence, TableMaker, Trace
from parley.games.parameters import BYZANTINE
from parley.play.record import read_trace
from parley.play.record_content import IMPOSSIBLE
from parley.play.record_store import impossible_outcome_text
from parley.study import Study
from parley.text import one_line

TURNS = "turns"
Recorded = tuple[PlayedGame, Trace]
_ROWS = 50_000  # that are written at once


def write_turns(study: Study, pieces: Iterable[tuple[pa.Table, bytes]]) -> None:
    """Write the table from its pieces, as `turn_piece` makes them; raises RecordError if the disk refuses."""

    def write(parquet: BinaryIO) -> None:
        write_atomically(paths.table(study.name, TURNS, ".csv"), lambda csv: _write(study, pieces, parquet, csv))

    write_atomically(paths.table(study.name, TURNS, ".parquet"), write)


def turn_piece(study: Study, recorded: Iterable[Recorded]) -> tuple[pa.Table, bytes]:
    """Return the rows of some simulations, one per agent and round, as a table and as lines of CSV.

    Raises RecordError for another game's trace.
    """
    known = turn_schema(study)
    columns: dict[str, list[Any]] = {name: [] for name in known.names}
    numbers = {field.name for field in known if pa.types.is_integer(field.type) or pa.types.is_boolean(field.type)}
    for game, trace in recorded:
        _add(columns, numbers, game, trace)
    try:
        table = pa.table([pa.array(columns[field.name], field.type) for field in known], known)
    except pa.ArrowException as error:
        raise RecordError(f"{study.name}: {TURNS}: the game {study.game.name}: {one_line(str(error))}") from None
    return table, csv_text(table, header=False).encode()


def _write(study: Study, pieces: Iterable[tuple[pa.Table, bytes]], parquet: BinaryIO, csv: BinaryIO) -> None:
    left = turn_schema(study).empty_table()
    csv.write(csv_text(left).encode())
    with pq.ParquetWriter(parquet, left.schema) as writer:
        for table, lines in pieces:
            csv.write(lines)
            left = pa.concat_tables([left, table]).combine_chunks()
            while len(left) >= _ROWS:
                writer.write_table(left[:_ROWS])
                left = left[_ROWS:]
        if len(left):
            writer.write_table(left)


def turn_schema(study: Study) -> pa.Schema:
    """Return the schema of the table; it is the same for all studies of the built-in games with the same axes."""
    return schema(in_study(columns_of(TURNS, study.axes, study.game), study))


def _add(columns: Mapping[str, list[Any]], numbers: Collection[str], game: PlayedGame, trace: Trace) -> None:
    """Add the rows of one simulation, in the order of its game. No game can say what an agent is."""
    simulation = game.simulation
    try:
        rows = list(simulation.condition.game.evidence.columns.rows(game.summary.outcome, trace))
        seats = [game.seats[row["agent"]] for row in rows]
        names = dict.fromkeys(chain.from_iterable(rows))
        cells = {name: [row.get(name) for row in rows] for name in names}
        cells |= {name: list(map(cell, cells[name])) for name in names if name not in numbers}
    except (LookupError, TypeError, AttributeError) as error:
        raise RecordError(f"{simulation.id}: its trace tells of no turns: {one_line(repr(error), 150)}") from None
    same = {**simulation.condition.axes, "seed": simulation.seed, "id": simulation.id}
    cells |= {name: [value] * len(rows) for name, value in same.items()}
    cells |= {"role": [role for role, _ in seats], "player": [label for _, label in seats]}
    cells["is_byzantine"] = [role == BYZANTINE for role in cells["role"]]
    for name, column in columns.items():
        column += cells.get(name) or [None] * len(rows)


_PIECE = 200  # games that a process reads at once
Rows = Mapping[str, Sequence[Any]]
Found = tuple[Rounds, Rows]
Made = TypeVar("Made")


_IMPOSSIBLE = (RecordError, *IMPOSSIBLE)


class ImpossibleTracesError(Exception):
    """Some records have a trace that no game makes; `problems` says what is wrong with each."""

    def __init__(self, problems: dict[Path, str]) -> None:
        super().__init__(*problems.values())
        self.problems = problems


class FromTraces:
    """What the tables that need traces are made of, `turns` aside, once all traces were read."""

    def __init__(self, study: Study, games: Sequence[PlayedGame]) -> None:
        self._study, self._games = study, games
        specs = study.game.evidence.tables
        self._makers: dict[str, TableMaker] = {each.name: resolve_name(each.maker)(study, games) for each in specs}
        self._rounds = Averages(study)
        self._rows: dict[str, list[Any]] = defaultdict(list)

    def read(self, make: Callable[[Sequence[Recorded]], Made], processes: int = 1) -> Iterator[Made]:
        """Take what is needed of all traces, and yield what `make` makes of some at once, in order.

        So many processes read them, and make. Raises ImpossibleTracesError once all were read.
        """

        def read_piece(games: Sequence[PlayedGame]) -> tuple[list[Found], Made] | dict[Path, str]:
            try:
                those = list(self._recorded(games))
                return [self._found(game, trace) for game, trace in those], make(those)
            except _IMPOSSIBLE as error:
                if len(games) > 1:
                    alone = [read_piece([game]) for game in games]
                    return {path: why for found in alone if isinstance(found, dict) for path, why in found.items()}
                path = games[0].simulation.record(self._study.name)
                return {path: impossible_outcome_text(path, one_line(repr(error), 150))}

        pieces = [self._games[at : at + _PIECE] for at in range(0, len(self._games), _PIECE)]
        impossible: dict[Path, str] = {}
        for games, read in zip(pieces, forked_map(read_piece, pieces, processes), strict=True):
            if isinstance(read, dict):
                impossible |= read
                continue
            found, made = read
            for game, (rounds, rows) in zip(games, found, strict=False):
                self._rounds.add(game.simulation.condition.name, rounds)
                for name, found_rows in rows.items():
                    self._rows[name] += found_rows
            yield made
        if impossible:
            raise ImpossibleTracesError(impossible)

    def _recorded(self, games: Iterable[PlayedGame]) -> Iterator[Recorded]:
        """Yield each game with its trace; nothing is read for a game that makes nothing of traces.

        Raises RecordError as `read_trace`, and for a trace that has nothing of the game.
        """
        evidence = self._study.game.evidence
        columns = evidence.columns.turns or evidence.columns.measured
        by_agent = type(evidence).of_agents is not Evidence.of_agents
        for game in games if by_agent or evidence.measures or columns or evidence.tables else ():
            path = game.simulation.record(self._study.name)
            trace = read_trace(path)
            if not trace and game.summary.outcome["rounds"]:
                raise RecordError(f"{path}: its trace has no rounds; delete it and run the study again")
            yield game, trace

    def _found(self, game: PlayedGame, trace: Trace) -> Found:
        """Return the measures of a game by round, and by name the rows that `tables` makes of it."""
        rows: dict[str, Sequence[Any]] = {"players": by_player(game, trace)}
        rows |= {name: maker.rows(game, trace) for name, maker in self._makers.items()}
        return rounds_of(self._study, game.summary.outcome, trace), rows

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return the tables whose rows come from traces alone, by name; those of other games are empty."""
        study, evidence = self._study, self._study.game.evidence
        made: dict[str, pd.DataFrame] = {}
        for name, maker in self._makers.items():
            made |= maker.tables(self._rows[name])
        complete = {}
        for name in _BROUGHT:
            columns = [column.name for column in columns_of(name, study.axes, study.game)]
            of = {c: evidence.about(name) if "<measure>" in c else [None] for c in columns}
            names = [c.replace("<measure>", each.name) if each else c for c, several in of.items() for each in several]
            table = made.get(name, pd.DataFrame())
            complete[name] = table.reindex(columns=names) if len(table) else pd.DataFrame(columns=names)
        return {
            "rounds": self._rounds.table(),
            "players": player_table(study, self._rows["players"]),
            **complete,
        }

    def asked(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the table of simulations with what questions may ask about besides."""
        for name, maker in self._makers.items():
            if (more := maker.asked(self._rows[name])) is not None:
                rows = rows.join(more, on="id")
        return rows


# The tables that games bring.
_BROUGHT = (
    *("measures", "reactions", "behaviors", "regret", "achievable"),
    *("decisions", "decision_rates", "martingale", "equal_cost", "votes", "conformity"),
)
