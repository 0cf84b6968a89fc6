"""The `summarize` stage: all tables of a study, from its records.

Only the simulations of the study as it is now are read; records of a former configuration stay out.
"""

import json
import logging
import math
from dataclasses import asdict
from functools import partial
from operator import methodcaller
from typing import Any

import pandas as pd

from parley import paths
from parley.analysis.conditions import RATE, condition_table, impossible_outcomes, outcome_table
from parley.analysis.contrasts import REPEAT, contrast_table, noise_table
from parley.analysis.forks import fork_tables
from parley.analysis.made_by import made_by
from parley.analysis.paper import paper_table
from parley.analysis.questions import question_table
from parley.analysis.rates import quantity_table, rate_table
from parley.analysis.registration import with_registration
from parley.analysis.simulations import PlayedGame, simulation_table
from parley.analysis.tables import write_table
from parley.analysis.traces import TURNS, FromTraces, ImpossibleTracesError, turn_piece, write_turns
from parley.files import keep_only, remove_empty_below, write_atomically
from parley.games.base import Game
from parley.play.pausing import clear_pauses
from parley.play.record_store import UsableRecords, mark_tables, played_part, read_records, write_conditions
from parley.study import Study
from parley.text import counted

_LIMITS = ("rate", "low", "high")
_log = logging.getLogger(__name__)


def summarize(study: Study, processes: int = 1) -> pd.DataFrame:
    """Write the tables and metrics of what is played of a study, and return the table of its conditions.

    So many processes read the records. Damaged records are named and left out; the column `left_out` counts them, and
    `planned` all that the study asks for. Raises RecordError as `read_records`.
    """
    study = played_part(study)
    records, make = read_records(study, processes), partial(turn_piece, study.shown)
    while True:
        from_traces = FromTraces(records.shown.study, played_games(records.shown))
        try:
            write_turns(study.shown, from_traces.read(make, processes))
            break
        except ImpossibleTracesError as error:
            records = records.without(error.problems)
    tables = _tables(study, records, from_traces)
    conditions = tables["conditions"]
    for name, table in tables.items():
        write_table(table, study, name)
    write_metrics(records.shown.study, conditions, tables["rates"], study.whole.shown)
    write_conditions(study.whole)
    if study.part_of is None:  # nobody plays it
        remove_empty_below(paths.journals(study.name))
        clear_pauses(study)
    mark_tables(study, [*tables, TURNS], records.left_out, asdict(made_by(records)))
    number = counted(len(tables["simulations"]), "simulation")
    said = [f"{number} in {counted(len(conditions), 'condition')}", study.shortfall]
    _log.info("%s", "; ".join(filter(None, said)))
    return conditions


def played_games(records: UsableRecords) -> list[PlayedGame]:
    """Return the simulations whose records can be used, in the study's order."""
    return [PlayedGame(*both) for both in zip(records.simulations, records.summaries, strict=True)]


def _tables(study: Study, records: UsableRecords, from_traces: FromTraces) -> dict[str, pd.DataFrame]:
    """Return all tables but `turns`, by name."""
    played, by, game = records.shown.study, study.axes, study.game
    rows = simulation_table(played_games(records.shown))
    every = rows if records.shown is records else simulation_table(played_games(records))
    impossible = impossible_outcomes(played, rows)
    conditions = condition_table(rows, by, game, impossible)
    there, planned = ({each.name: len(each.seeds) for each in of.conditions} for of in (study, study.whole))
    conditions["left_out"] = [there[each.name] - len(each.seeds) for each in played.conditions]
    conditions["planned"] = [planned[each.name] for each in played.conditions]
    asked = known = from_traces.asked(rows)
    repeats = [simulation.condition.repeat or 0 for simulation in records.simulations]
    again = every.assign(**{REPEAT: repeats})
    if study.parents:  # their repeats are all of one recorded game
        asked = pd.concat([asked, again[again[REPEAT] > 0]])
    noise = noise_table(again if any(repeats) else again[:0], by, game)
    questions = with_registration(question_table(asked, study), rows, study)
    of_traces = from_traces.tables()
    return {
        "simulations": rows,
        "conditions": conditions,
        "outcomes": outcome_table(played, conditions),
        "rates": rate_table(rows, by, game),
        "quantities": quantity_table(known, by, game),
        "contrasts": contrast_table(rows, by, game, impossible, noise),
        **of_traces,
        "paper": paper_table(study, rows, {**of_traces, "questions": questions}, impossible),
        "noise": noise,
        **fork_tables(records.simulations, every, by, game),
        "questions": questions,
    }


# What DVC compares between commits. `dvc metrics show` prints a row per file: a file per condition makes a table.


def write_metrics(study: Study, conditions: pd.DataFrame, rates: pd.DataFrame, whole: Study) -> None:
    """Write a JSON file per condition of the `whole` study; those of former conditions go.

    `study` has the conditions that were played, `conditions` is the table of these, a row for each in the study's
    order, and `rates` that of the indicators, as many rows for each as the game has. Raises RecordError if the disk
    refuses.
    """
    number = len(study.game.evidence.indicators)
    texts = {condition.name: '{"simulations": 0}' for condition in whole.conditions}
    for place, (condition, (_, row)) in enumerate(zip(study.conditions, conditions.iterrows(), strict=True)):
        metrics = condition_metrics(row, study.game, rates.iloc[place * number : (place + 1) * number])
        texts[condition.name] = json.dumps(metrics, indent=1, allow_nan=False)
    written = {paths.metric(study.name, name): f"{text}\n".encode() for name, text in texts.items()}
    for path, text in written.items():
        write_atomically(path, methodcaller("write", text))
    folder = paths.metrics(study.name)
    # The list is not in their folder, all of which DVC shows, but in one that DVC keeps.
    keep_only(written, paths.listing(paths.table(study.name, "simulations", ".csv").parent), folder)
    remove_empty_below(folder)


def condition_metrics(row: Any, game: type[Game], rates: pd.DataFrame) -> dict[str, Any]:
    """Return the number of simulations of one condition, rates with limits, and the rates of replies that failed.

    Rates are those of each outcome, and under `indicators` of each indicator of the game, from its rows in `rates`.
    All are in [0, 1]; missing (None) are those of nothing: the condition cannot have the outcome, no simulation has an
    answer, or nothing was asked. Where models are asked, the rate of degenerate replies is there, too.
    """
    metrics: dict[str, Any] = {"simulations": int(row["simulations"])}
    metrics |= {o.name: {part: _number(row[f"{o.name}_{part}"]) for part in _LIMITS} for o in game.outcomes}
    metrics |= {name: _number(row[name]) for name in ("failed_reply_rate", RATE) if name in row}
    indicators = {each["indicator"]: {part: _number(each[part]) for part in _LIMITS} for _, each in rates.iterrows()}
    return metrics | ({"indicators": indicators} if indicators else {})


def _number(value: Any) -> float | None:
    return None if math.isnan(value) else float(value)
