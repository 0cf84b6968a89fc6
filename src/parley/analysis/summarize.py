"""The `summarize` stage: all tables of a study, from its records.

Only the simulations of the study as it is now are read; records of a former configuration stay out.
"""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from parley import paths
from parley.analysis.averages import Averages, player_table, round_table, threshold_table
from parley.analysis.behaviors import behavior_table
from parley.analysis.conditions import condition_table, impossible_outcomes
from parley.analysis.contrasts import contrast_table
from parley.analysis.degenerate_rates import with_counts
from parley.analysis.effects import effect_table
from parley.analysis.endings import ending_table, times_table
from parley.analysis.margins import margin_table
from parley.analysis.metrics import outcome_table, write_empty_metrics, write_metrics
from parley.analysis.noise import REPEAT, noise_table
from parley.analysis.quality import quality_table
from parley.analysis.questions import question_table
from parley.analysis.rates import quantity_table, rate_table
from parley.analysis.reactions import reaction_table
from parley.analysis.simulations import simulation_row
from parley.analysis.tables import write_table
from parley.analysis.turns import Recorded, write_turns
from parley.play.journal import release
from parley.play.record import Summary, read_trace
from parley.play.record_store import Records, mark_tables, read_records, write_conditions
from parley.play.unfinished import forget_unfinished
from parley.study import Study
from parley.study.condition import Simulation

_log = logging.getLogger(__name__)


def summarize(study: Study, strict: bool = False) -> pd.DataFrame:
    """Write the tables and metrics of a study and return the table of its conditions.

    Damaged records are named and left out; the column `left_out` counts them. Raises RecordError naming the records
    that are missing, and as `read_records` if none can be used, or, with `strict`, any cannot. What an earlier look at
    the study before it was finished had left goes.
    """
    every = read_records(study, strict)
    records = every.first_repeat
    by_round = Averages(records.study)
    write_turns(study.first_repeat, recorded(records, by_round))
    tables = make_tables(study, every, by_round)
    conditions = tables["conditions"]
    for name, table in tables.items():
        write_table(table, study, name)
    write_metrics(records.study, conditions, tables["rates"])
    write_empty_metrics(study.first_repeat, records.study)
    if study.unfinished is None:
        for simulation in every.simulations:
            release(simulation.record(study.name))
        write_conditions(study)
        forget_unfinished(study.name)
    mark_tables(study, every.left_out)
    _log.info("%d simulations in %d conditions", len(tables["simulations"]), len(conditions))
    return conditions


def make_tables(study: Study, records: Records, by_round: Averages | None = None) -> dict[str, pd.DataFrame]:
    """Return all tables of a study but `turns`, by name, from those of its records that can be used.

    `by_round` has its measures where the traces were read already. Nothing is written.
    """
    every, records = records, records.first_repeat
    played, simulations, summaries = records.study, records.simulations, records.summaries
    if by_round is None:
        by_round = Averages(played)
        for _ in recorded(records, by_round):
            pass
    rows = simulation_table(records)
    by = study.axes
    impossible = impossible_outcomes(played, rows)
    conditions = condition_table(rows, by, study.game, impossible)
    conditions["left_out"] = _left_out(study, played)
    if study.unfinished is not None:
        conditions["planned"] = [study.unfinished.planned(condition.name) for condition in played.conditions]
    noise = noise_table(_again(every), by, study.game)
    return {
        "simulations": rows,
        "conditions": conditions,
        "outcomes": outcome_table(played, conditions),
        "rounds": round_table(played, by_round),
        "thresholds": threshold_table(played, simulations, summaries),
        "rates": rate_table(rows, by, study.game),
        "quantities": quantity_table(rows, by, study.game),
        "players": player_table(played, simulations, summaries),
        "contrasts": contrast_table(rows, by, study.game, impossible, noise),
        "endings": ending_table(rows, by, study.game, impossible),
        "times": times_table(rows, by, study.game),
        "quality": quality_table(rows, by, study.game),
        "reactions": reaction_table(records),
        "behaviors": behavior_table(records),
        "margins": margin_table(rows, by, study.game, impossible, study.paper),
        "effects": effect_table(rows, by, study.game, study.effects, impossible),
        "noise": noise,
        "questions": question_table(rows, study),
        "manifest": manifest_table(study.name, every.simulations, every.summaries),
    }


def simulation_table(records: Records) -> pd.DataFrame:
    """Return a row per simulation whose record can be used: see `simulation_row`."""
    both = zip(records.simulations, records.summaries, strict=True)
    return with_counts(pd.DataFrame([simulation_row(simulation, summary) for simulation, summary in both]))


def _again(records: Records) -> pd.DataFrame:
    """Return the table of simulations with a column that says which repeat; no rows if nothing was played again."""
    rows = simulation_table(records).assign(**{REPEAT: [s.condition.repeat or 0 for s in records.simulations]})
    return rows if (rows[REPEAT] > 0).any() else rows.iloc[:0]


def recorded(records: Records, by_round: Averages) -> Iterator[Recorded]:
    """Yield each simulation with its trace, which is read once, and add the game's measures to `by_round`.

    Nothing is read for a game that makes nothing of traces.
    """
    study, game = records.study, records.study.game
    if not game.evidence.measures and not game.evidence.columns.turns:
        return
    for simulation, summary in zip(records.simulations, records.summaries, strict=True):
        trace = read_trace(simulation.record(study.name))
        by_round.add_rounds(simulation.condition.name, summary.outcome, trace)
        yield simulation, summary, trace


def _left_out(study: Study, played: Study) -> list[int]:
    """Return how many simulations each condition of `played` has less than it has in `study`."""
    planned = {condition.name: len(condition.seeds) for condition in study.conditions}
    return [planned[condition.name] - len(condition.seeds) for condition in played.conditions]


def manifest_table(study: str, simulations: Sequence[Simulation], summaries: Sequence[Summary]) -> pd.DataFrame:
    """Return a row per record that the tables are made from: its path, the simulation's id, the content digest."""
    both = zip(simulations, summaries, strict=True)
    with paths.rooted(Path()):  # as seen from the folder that holds results/
        rows = [(str(simulation.record(study)), simulation.id, summary.digest) for simulation, summary in both]
    return pd.DataFrame(rows, columns=["path", "id", "digest"])
