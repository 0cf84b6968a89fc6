"""The `summarize` stage: all tables of a study, from its records.

Only the simulations of the study as it is now are read; records of a former configuration stay out.
"""

from collections.abc import Callable, Iterator, Sequence

import pandas as pd

from parley.analysis.averages import Averages, player_table, round_table, threshold_table
from parley.analysis.conditions import condition_table, impossible_outcomes
from parley.analysis.contrasts import contrast_table
from parley.analysis.degenerate_rates import with_counts
from parley.analysis.metrics import outcome_table, write_empty_metrics, write_metrics
from parley.analysis.rates import quantity_table, rate_table
from parley.analysis.simulations import simulation_row
from parley.analysis.tables import write_table
from parley.analysis.turns import Recorded, write_turns
from parley.play.journal import release
from parley.play.record import Summary, read_trace
from parley.play.usable import mark_tables, read_records
from parley.study import Study
from parley.study.condition import Simulation


def summarize(study: Study, say: Callable[[str], None], strict: bool = False) -> pd.DataFrame:
    """Write the tables and metrics of a study and return the table of its conditions.

    Damaged records are named and left out; the column `left_out` counts them. Raises RecordError naming the records
    that are missing, and as `read_records` if none can be used, or, with `strict`, any cannot.
    """
    records = read_records(study, strict)
    played, simulations, summaries = records.study, records.simulations, records.summaries
    rows = with_counts(
        pd.DataFrame([simulation_row(s, summary) for s, summary in zip(simulations, summaries, strict=True)])
    )
    by = study.axes
    impossible = impossible_outcomes(played, rows)
    conditions = condition_table(rows, by, study.game, impossible)
    conditions["left_out"] = _left_out(study, played)
    rates = rate_table(rows, by, study.game)
    by_round = Averages(played)
    write_turns(study, _recorded(played, simulations, summaries, by_round))
    tables = {
        "simulations": rows,
        "conditions": conditions,
        "outcomes": outcome_table(played, conditions),
        "rounds": round_table(played, by_round),
        "thresholds": threshold_table(played, simulations, summaries),
        "rates": rates,
        "quantities": quantity_table(rows, by, study.game),
        "players": player_table(played, simulations, summaries),
        "contrasts": contrast_table(rows, by, study.game, impossible),
        "manifest": manifest_table(study.name, simulations, summaries),
    }
    for name, table in tables.items():
        write_table(table, study, name)
    write_metrics(played, conditions, rates)
    write_empty_metrics(study, played)
    for simulation in simulations:
        release(simulation.record(study.name))
    mark_tables(study, records.left_out)
    say(f"{len(rows)} simulations in {len(conditions)} conditions")
    return conditions


def _recorded(
    study: Study, simulations: Sequence[Simulation], summaries: Sequence[Summary], by_round: Averages
) -> Iterator[Recorded]:
    """Yield each simulation with its trace, which is read once, and add the game's measures to `by_round`.

    Nothing is read for a game that makes nothing of traces.
    """
    game = study.game
    if not game.evidence.measures and not game.evidence.columns.turns:
        return
    for simulation, summary in zip(simulations, summaries, strict=True):
        trace = read_trace(simulation.record(study.name))
        by_round.add(simulation.condition.path, game.evidence.series(summary.outcome, trace))
        yield simulation, summary, trace


def _left_out(study: Study, played: Study) -> list[int]:
    """Return how many simulations each condition of `played` has less than it has in `study`."""
    planned = {condition.path: len(condition.seeds) for condition in study.conditions}
    return [planned[condition.path] - len(condition.seeds) for condition in played.conditions]


def manifest_table(study: str, simulations: Sequence[Simulation], summaries: Sequence[Summary]) -> pd.DataFrame:
    """Return a row per record that the tables are made from: its path, the simulation's id, the content digest."""
    rows = [(str(s.record(study)), s.id, summary.digest) for s, summary in zip(simulations, summaries, strict=True)]
    return pd.DataFrame(rows, columns=["path", "id", "digest"])
