"""The one pass over the traces of a study: each is read once, and all that is made of traces takes what it needs."""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from parley import paths
from parley.analysis.averages import Averages, Rounds, by_player, player_table, rounds_of
from parley.analysis.reactions import Reacted, Reactions, Trace, behaved_rows, behavior_table
from parley.analysis.regret import achievable_table, regret_row, regret_table
from parley.analysis.simulations import PlayedGame
from parley.analysis.tables import columns_of, csv_text, in_study, marked, names_of
from parley.analysis.talking import (
    decision_rate_table,
    decision_rows,
    equal_cost_table,
    martingale_table,
    paid_rows,
    steps_of,
    what_counts,
)
from parley.errors import RecordError
from parley.files import write_atomically
from parley.forked import forked_map
from parley.games.evidence import Evidence
from parley.games.parameters import BYZANTINE
from parley.play.record import read_trace
from parley.play.record_content import IMPOSSIBLE
from parley.play.record_store import of_no_game
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
    """Return the rows of some simulations as a table and as lines of CSV; raises as `turn_table`."""
    table = marked(turn_table(study, recorded), study)
    return table, csv_text(table, header=False).encode()


def _write(study: Study, pieces: Iterable[tuple[pa.Table, bytes]], parquet: BinaryIO, csv: BinaryIO) -> None:
    left = marked(turn_schema(study).empty_table(), study)
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
    fields = []
    for column in in_study(columns_of(TURNS, study.axes, study.game), study):
        values = [condition.axes[column.name] for condition in study.conditions] if column.arrow is None else []
        fields.append(pa.field(column.name, column.arrow or pa.array(values).type))
    return pa.schema(fields)


def turn_table(study: Study, recorded: Iterable[Recorded]) -> pa.Table:
    """Return the rows of some simulations, one per agent and round; raises RecordError for another game's trace."""
    schema = turn_schema(study)
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    numbers = {field.name for field in schema if pa.types.is_integer(field.type) or pa.types.is_boolean(field.type)}
    for game, trace in recorded:
        _add(columns, numbers, game, trace)
    try:
        return pa.table([pa.array(columns[field.name], field.type) for field in schema], schema)
    except pa.ArrowException as error:
        raise RecordError(f"{study.name}: {TURNS}: the game {study.game.name}: {one_line(str(error))}") from None


def _add(columns: Mapping[str, list[Any]], numbers: Collection[str], game: PlayedGame, trace: Trace) -> None:
    """Add the rows of one simulation, in the order of its game. No game can say what an agent is."""
    simulation = game.simulation
    try:
        rows = list(simulation.condition.game.evidence.columns.rows(game.summary.outcome, trace))
        seats = [game.seats[row["agent"]] for row in rows]
        names = dict.fromkeys(chain.from_iterable(rows))
        cells = {name: [row.get(name) for row in rows] for name in names}
        cells |= {name: list(map(_cell, cells[name])) for name in names if name not in numbers}
    except (LookupError, TypeError, AttributeError) as error:
        raise RecordError(f"{simulation.id}: its trace tells of no turns: {one_line(repr(error), 150)}") from None
    same = {**simulation.condition.axes, "seed": simulation.seed, "id": simulation.id}
    cells |= {name: [value] * len(rows) for name, value in same.items()}
    cells |= {"role": [role for role, _ in seats], "player": [label for _, label in seats]}
    cells["is_byzantine"] = [role == BYZANTINE for role in cells["role"]]
    for name, column in columns.items():
        column += cells.get(name) or [None] * len(rows)


_shown = lru_cache(maxsize=10_000)(one_line)  # names and votes are the same in every row


def _cell(value: Any) -> Any:
    """Return a value as it stands in the table: texts on one line, as they may be a model's; lists as JSON."""
    if isinstance(value, str):
        return _shown(value)
    return json.dumps(value) if isinstance(value, dict | list | tuple) else value


_PIECE = 200  # games that a process reads at once
Rows = Mapping[str, list[Any]]
Found = tuple[Rounds, list[Reacted], Rows]
Made = TypeVar("Made")


def recorded(study: Study, games: Iterable[PlayedGame]) -> Iterator[Recorded]:
    """Yield each game with its trace; nothing is read for a game that makes nothing of traces.

    Raises RecordError as `read_trace`, and for a trace that has nothing of the game.
    """
    evidence = study.game.evidence
    by_agent = type(evidence).of_agents is not Evidence.of_agents
    columns = evidence.columns.turns or evidence.columns.measured
    if by_agent or evidence.measures or columns or evidence.reactions or evidence.behaviors:
        for game in games:
            path = game.simulation.record(study.name)
            trace = read_trace(path)
            if not trace and game.summary.outcome["rounds"]:
                raise RecordError(f"{path}: its trace has no rounds; delete it and run the study again")
            yield game, trace


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
        self.rounds = Averages(study)
        self.reactions = Reactions(study, games)
        self._rows: dict[str, list[Any]] = defaultdict(list)

    def read(self, make: Callable[[Sequence[Recorded]], Made], processes: int = 1) -> Iterator[Made]:
        """Take what is needed of all traces, and yield what `make` makes of some at once, in order.

        So many processes read them, and make. Raises ImpossibleTracesError once all were read.
        """

        def taken(games: Sequence[PlayedGame]) -> tuple[list[Found], Made]:
            those = list(recorded(self._study, games))
            found = [
                (
                    rounds_of(self._study, game.summary.outcome, trace),
                    self.reactions.found(game, trace),
                    _rows_of(self._study, game, trace),
                )
                for game, trace in those
            ]
            return found, make(those)

        def read_piece(games: Sequence[PlayedGame]) -> tuple[list[Found], Made] | dict[Path, str]:
            try:
                return taken(games)
            except _IMPOSSIBLE as error:
                if len(games) > 1:
                    alone = [read_piece([game]) for game in games]
                    return {path: why for found in alone if isinstance(found, dict) for path, why in found.items()}
                path = games[0].simulation.record(self._study.name)
                return {path: of_no_game(path, one_line(repr(error), 150))}

        pieces = [self._games[at : at + _PIECE] for at in range(0, len(self._games), _PIECE)]
        impossible: dict[Path, str] = {}
        for games, read in zip(pieces, forked_map(read_piece, pieces, processes), strict=True):
            if isinstance(read, dict):
                impossible |= read
                continue
            found, made = read
            for game, (rounds, reactions, rows) in zip(games, found, strict=False):
                self.rounds.add_rounds(game.simulation.condition.name, rounds)
                self.reactions.add(game, reactions)
                for name, found_rows in rows.items():
                    self._rows[name] += found_rows
            yield made
        if impossible:
            raise ImpossibleTracesError(impossible)

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return the tables whose rows come from traces alone, by name."""
        study, rows = self._study, self._rows
        decided = pd.DataFrame(rows["decisions"], columns=names_of("decisions", study.axes, study.game))
        decided = decided.astype({"right": "boolean"})
        regret = regret_table(rows["regret"], study)
        measures = [measure.name for measure in study.game.evidence.measures]
        return {
            "rounds": self.rounds.table(measures, "measure", "round"),
            "players": player_table(study, rows["players"]),
            "reactions": self.reactions.table(),
            "behaviors": behavior_table(rows["behaviors"], study),
            "measures": pd.DataFrame(rows["measures"], columns=names_of("measures", study.axes, study.game)),
            "regret": regret,
            "achievable": achievable_table(regret, study),
            "decisions": decided,
            "decision_rates": decision_rate_table(decided, study),
            "martingale": martingale_table(rows["martingale"], study),
            "equal_cost": equal_cost_table(self.counts, study),
        }

    @cached_property
    def counts(self) -> pd.DataFrame:
        """What counts of the games of arms (`what_counts`)."""
        return what_counts(self._rows["equal_cost"], self._study)


def _rows_of(study: Study, game: PlayedGame, trace: Trace) -> Rows:
    """Return the rows that a game adds to each of `FromTraces.tables`, or what these are made of."""
    measured, regret = _measured(game, trace), regret_row(study, game, trace)
    return {
        "measures": [measured] if measured else [],
        "players": by_player(game, trace),
        "behaviors": behaved_rows(study, game, trace),
        "regret": [regret] if regret else [],
        "decisions": decision_rows(game, trace),
        "martingale": steps_of(game, trace),
        "equal_cost": paid_rows(study, game, trace),
    }


def _measured(game: PlayedGame, trace: Trace) -> Mapping[str, Any]:
    condition = game.simulation.condition
    if not condition.game.evidence.columns.measured:
        return {}
    found = condition.game.evidence.measured(condition.parameters, game.summary.outcome, game.honest, trace)
    return {**found, **condition.axes, "seed": game.simulation.seed, "id": game.simulation.id}
