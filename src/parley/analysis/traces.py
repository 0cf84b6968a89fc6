"""The one pass over the traces of a study: each is read once, and all that is made of traces takes what it needs.

The tables `regret` and `achievable` set each game beside what the best known protocol does in the same seats. The
protocol has the same names, initial values, network and deadline, and meets the same adversaries: scripted ones play
against it anew, with the random numbers that they had; of all others what they said is repeated. So regret is a paired
difference. What the theory promises there, and what not, the game says (`Game.best_known`).
"""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from parley import paths
from parley.analysis import talking
from parley.analysis.averages import Averages, Rounds, by_player, player_table, rounds_of
from parley.analysis.rates import by_condition
from parley.analysis.reactions import (
    Trace,
    behaved_rows,
    behavior_table,
    compared_games,
    reacted,
    reaction_table,
    sources_of,
)
from parley.analysis.simulations import PlayedGame
from parley.analysis.tables import columns_of, csv_text, in_study, names_of
from parley.errors import RecordError
from parley.files import write_atomically
from parley.forked import forked_map
from parley.games.base import BestKnown, Game, Outcome, split_material
from parley.games.evidence import Evidence
from parley.games.parameters import BYZANTINE, Seat
from parley.identity import request_seed, stream
from parley.play.record import read_trace
from parley.play.record_content import IMPOSSIBLE
from parley.play.record_store import impossible_outcome_text
from parley.policies import Ask, Reply
from parley.policies.kinds import IMPORTED, Rule, ScriptedPolicy
from parley.policies.reply_text import parse_reply
from parley.statistics.differences import NUMBER, RATE, SamplePair, compare, selected
from parley.study import Study
from parley.text import one_line

_LOST, _BEST, _REACHED = "_lost", "best_", "reached_"


def regret_row(study: Study, game: PlayedGame, trace: Trace) -> Mapping[str, Any]:
    """Return the row of a game in the table `regret`; empty for one that is compared with nothing.

    That is one whose honest agents follow rules, unless the study names the protocol (`achievable`), and one of a game
    that knows no protocols.
    """
    condition, table = game.simulation.condition, study.game.evidence.table("regret")
    if table is None or (condition.honest_by_rules and study.achievable is None):
        return {}
    if (achieved := achievable(study, game, trace)) is None:
        return {}
    best, best_reached = achieved
    reached = table.rows(condition.parameters, game.summary.outcome, trace)
    lost = {}
    for of in table.measures:
        best_one, own = best_reached[of.name], reached[of.name]
        lost[f"{of.name}{_LOST}"] = best_one - own if of.more else own - best_one
    sides = {f"{_REACHED}{name}": value for name, value in reached.items()}
    sides |= {f"{_BEST}{name}": value for name, value in best_reached.items()}
    promises = [of.name for of in table.measures if of.name in best.promises]
    told = {"protocol": best.policy.label, "promised": ", ".join(promises), "theory": best.why}
    return {**condition.axes, "seed": game.simulation.seed, "id": game.simulation.id, **told, **sides, **lost}


def achievable(study: Study, game: PlayedGame, trace: Trace) -> tuple[BestKnown, Mapping[str, float]] | None:
    """Play the best known protocol in the seats of a game; return it with what it reached, None if there is none."""
    recorded = game.summary.simulation.get("material")
    simulation = replace(game.simulation, recorded=recorded)
    own = simulation.game()
    table, best = own.evidence.table("regret"), own.best_known(study.achievable)
    if table is None or best is None:
        return None
    rules: dict[str, ScriptedPolicy] = {}
    seats = []
    for seat in own.seats:
        honest = seat.role == own.roles[0]
        seats.append(replace(seat, policy=best.policy) if honest else seat)
        rule = rule_of(seats[-1])
        rules[seat.name] = ScriptedPolicy(rule or own.as_recorded(seat.name, trace))
    outcome = _played(
        type(own)(
            own.parameters.model_copy(update=dict(best.changes)),
            tuple(seats),
            simulation.condition.prompt,
            stream("game", own.name, simulation.seed),
            own.network,
            split_material(recorded)[1] if recorded is not None else own.material,
        ),
        rules,
        simulation.id,
    )
    told = {"rounds": outcome.rounds, "finished_early": outcome.finished_early, "metrics": outcome.metrics}
    told |= {"name": outcome.name, "detail": outcome.detail}
    return best, table.rows(own.parameters, told, outcome.trace)


def rule_of(seat: Seat) -> Rule | None:
    """Return the rule that answers for a seat; None where a model, own code, or somebody else's did."""
    return None if seat.policy.kind.name == IMPORTED.name else seat.policy.rule


def _played(game: Game, rules: Mapping[str, ScriptedPolicy], simulation: str) -> Outcome:
    """Play a game by rules alone, without any engine or record; their random numbers are those of the simulation."""

    def reply(ask: Ask) -> Reply:
        seed = request_seed(simulation, ask.round, ask.phase, ask.agent, 0)
        return parse_reply(rules[ask.agent].text(ask, seed), "stop", ask.reply_model)

    playing = game.play()
    asks = next(playing)
    while True:
        try:
            asks = playing.send([reply(ask) for ask in asks])
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome


def regret_table(rows: Sequence[Mapping[str, Any]], study: Study) -> pd.DataFrame:
    """Return the rows of `regret_row` as a table."""
    of_game = [of.name for of in study.game.evidence.about("regret")]
    measured = [f"{_REACHED}{name}" for name in of_game] + [f"{_BEST}{name}" for name in of_game]
    names = [*names_of("regret", study.axes, study.game), *measured, *(f"{name}{_LOST}" for name in of_game)]
    return pd.DataFrame(rows, columns=names)


def achievable_table(regret: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Return a row per condition and measure: what was reached, what was achievable, and the paired difference.

    `regret` is the table of that name. Limits and p are those of McNemar's pairs, and Student's paired t for rounds.
    """
    samples = []
    for key, rows in by_condition(regret, study.axes):
        for of in study.game.evidence.about("regret"):
            names = (f"{_REACHED}{of.name}", f"{_BEST}{of.name}")
            own, best = (rows[name].to_numpy(dtype=np.float64) for name in names)
            promised = float(rows["promised"].str.split(", ").map(lambda said, name=of.name: name in said).mean())
            keys = {**dict(zip(study.axes, key, strict=True)), "measure": of.name, "promised": promised}
            keys |= {"simulations": len(rows), "reached": float(own.mean()), "achievable": float(best.mean())}
            x, y = (own, best) if of.more else (best, own)
            samples.append(SamplePair(keys, x, y, RATE if of.share else NUMBER))
    found = compare(samples).rename(columns={"difference": "lost"})
    return selected(found, names_of("achievable", study.axes, study.game))


def with_lost(rows: pd.DataFrame, regret: pd.DataFrame) -> pd.DataFrame:
    """Return the table of simulations with what each game lost, which questions may ask about."""
    lost = [name for name in map(str, regret.columns) if name.endswith(_LOST)]
    return rows.merge(regret[["id", *lost]], how="left", on="id") if len(regret) else rows


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
    table = turn_table(study, recorded)
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
Found = tuple[Rounds, Rows]
Made = TypeVar("Made")


def recorded(study: Study, games: Iterable[PlayedGame]) -> Iterator[Recorded]:
    """Yield each game with its trace; nothing is read for a game that makes nothing of traces.

    Raises RecordError as `read_trace`, and for a trace that has nothing of the game.
    """
    evidence = study.game.evidence
    by_agent = type(evidence).of_agents is not Evidence.of_agents
    columns = evidence.columns.turns or evidence.columns.measured
    if by_agent or evidence.measures or columns or evidence.tables:
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
        self._compared = compared_games(study, games)
        self._sources: dict[str, dict[str, PlayedGame]] = defaultdict(dict)  # by id, see `sources_of`
        for _, _, own, calm in self._compared:
            for game, sources in sources_of(own, calm):
                self._sources[game.simulation.id] |= {source.simulation.id: source for source in sources}
        self._rounds = Averages(study)
        self._rows: dict[str, list[Any]] = defaultdict(list)

    def read(self, make: Callable[[Sequence[Recorded]], Made], processes: int = 1) -> Iterator[Made]:
        """Take what is needed of all traces, and yield what `make` makes of some at once, in order.

        So many processes read them, and make. Raises ImpossibleTracesError once all were read.
        """

        def read_piece(games: Sequence[PlayedGame]) -> tuple[list[Found], Made] | dict[Path, str]:
            try:
                those = list(recorded(self._study, games))
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
                self._rounds.add_rounds(game.simulation.condition.name, rounds)
                for name, found_rows in rows.items():
                    self._rows[name] += found_rows
            yield made
        if impossible:
            raise ImpossibleTracesError(impossible)

    def _found(self, game: PlayedGame, trace: Trace) -> Found:
        """Return the measures of a game by round, and by name the rows that `tables` makes of it."""
        study, sources = self._study, self._sources.get(game.simulation.id, {})
        measured, regret = _measured(game, trace), regret_row(study, game, trace)
        return rounds_of(study, game.summary.outcome, trace), {
            "measures": [measured] if measured else [],
            "players": by_player(game, trace),
            "reactions": list(reacted(game, sources.values(), trace).items()),
            "behaviors": behaved_rows(study, game, trace),
            "regret": [regret] if regret else [],
            "decisions": talking.decision_rows(game, trace),
            "martingale": talking.steps_of(game, trace),
            "equal_cost": talking.paid_rows(study, game, trace),
        }

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return the tables whose rows come from traces alone, by name."""
        study, rows = self._study, self._rows
        decided = pd.DataFrame(rows["decisions"], columns=names_of("decisions", study.axes, study.game))
        decided = decided.astype({"right": "boolean"})
        regret = regret_table(rows["regret"], study)
        measures = [measure.name for measure in study.game.evidence.measures]
        return {
            "rounds": self._rounds.table(measures, "measure", "round"),
            "players": player_table(study, rows["players"]),
            "reactions": reaction_table(study, self._compared, dict(rows["reactions"])),
            "behaviors": behavior_table(rows["behaviors"], study),
            "measures": pd.DataFrame(rows["measures"], columns=names_of("measures", study.axes, study.game)),
            "regret": regret,
            "achievable": achievable_table(regret, study),
            "decisions": decided,
            "decision_rates": talking.decision_rate_table(decided, study),
            "martingale": talking.martingale_table(rows["martingale"], study),
            "equal_cost": talking.equal_cost_table(self.counts, study),
        }

    @cached_property
    def counts(self) -> pd.DataFrame:
        """What counts of the games of arms (`what_counts`)."""
        return talking.what_counts(self._rows["equal_cost"], self._study)


def _measured(game: PlayedGame, trace: Trace) -> Mapping[str, Any]:
    condition = game.simulation.condition
    if not condition.game.evidence.columns.measured:
        return {}
    found = condition.game.evidence.measured(condition.parameters, game.summary.outcome, game.honest, trace)
    return {**found, **condition.axes, "seed": game.simulation.seed, "id": game.simulation.id}
