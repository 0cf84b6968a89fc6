"""The `summarize` stage: tables of simulations and conditions, and of what follows from them, from the records.

Only the simulations of the study as it is now are read; records of a former configuration stay out.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from parley import paths
from parley.analysis.contrasts import NONE_IMPOSSIBLE, Impossible, contrast_table
from parley.analysis.degenerate_rates import condition_cells, simulation_cells, with_counts
from parley.analysis.metrics import outcome_table, write_empty_metrics, write_metrics
from parley.analysis.players import player_table
from parley.analysis.rates import SECONDS, by_condition, quantity_table, rate_table
from parley.analysis.rounds import round_table
from parley.analysis.stats import censored_median, wilson_interval
from parley.analysis.thresholds import threshold_table
from parley.errors import RecordError
from parley.files import write_atomically
from parley.games.base import Game
from parley.games.evidence import OutcomeClass
from parley.identity import digest
from parley.play.journal import release
from parley.play.record import Summary
from parley.play.usable import mark_tables, read_records
from parley.policies import FAILURE_CLASSES
from parley.study import Study
from parley.study.condition import Simulation

_TELEMETRY = (
    "calls",
    "failed_replies",
    *FAILURE_CLASSES,
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "request_seconds",
)
_PARTS = ("count", "rate", "low", "high")  # of each outcome in the table of conditions


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
    by = axes(study)
    impossible = impossible_outcomes(played, rows)
    conditions = condition_table(rows, by, study.game, impossible)
    conditions["left_out"] = _left_out(study, played)
    rates = rate_table(rows, by, study.game)
    tables = {
        "simulations": rows,
        "conditions": conditions,
        "outcomes": outcome_table(played, conditions),
        "rounds": round_table(played, simulations, summaries),
        "thresholds": threshold_table(played, simulations, summaries),
        "rates": rates,
        "quantities": quantity_table(rows, by, study.game),
        "players": player_table(played, simulations, summaries),
        "contrasts": contrast_table(rows, by, study.game, impossible),
        "manifest": manifest_table(study.name, simulations, summaries),
    }
    for name, table in tables.items():
        write_table(table, study.name, name)
    write_metrics(played, conditions, rates)
    write_empty_metrics(study, played)
    for simulation in simulations:
        release(simulation.record(study.name))
    mark_tables(study, records.left_out)
    say(f"{len(rows)} simulations in {len(conditions)} conditions")
    return conditions


def _left_out(study: Study, played: Study) -> list[int]:
    """Return how many simulations each condition of `played` has less than it has in `study`."""
    planned = {condition.path: len(condition.seeds) for condition in study.conditions}
    return [planned[condition.path] - len(condition.seeds) for condition in played.conditions]


def manifest_table(study: str, simulations: Sequence[Simulation], summaries: Sequence[Summary]) -> pd.DataFrame:
    """Return a row per record that the tables are made from: its path, the simulation's id, the content digest."""
    rows = [(str(s.record(study)), s.id, summary.digest) for s, summary in zip(simulations, summaries, strict=True)]
    return pd.DataFrame(rows, columns=["path", "id", "digest"])


def axes(study: Study) -> list[str]:
    """Return the axes of a study, in the order of the paths."""
    return list(study.conditions[0].axes)


def simulation_row(simulation: Simulation, summary: Summary) -> dict[str, Any]:
    """Return one row of the simulations table: axes, seed, outcome, the game's metrics, telemetry, digest."""
    outcome, axes_of = summary.outcome, simulation.condition.axes
    row = {
        **axes_of,
        "threat_model": simulation.condition.threat_model,
        "seed": simulation.seed,
        "outcome": outcome["name"],
        "detail": outcome["detail"],
        "diagnosis": outcome["diagnosis"],
        "rounds": outcome["rounds"],
        "finished_early": outcome["finished_early"],
        **{key: _cell(value) for key, value in outcome["metrics"].items()},
        **{key: summary.telemetry[key] for key in _TELEMETRY},
        **simulation_cells(summary.telemetry, bool(simulation.condition.models)),
        **_seconds(summary.telemetry),
        "engine": engine_label(summary.provenance),
        "spec": simulation.condition.spec,
        "id": simulation.id,
        "digest": summary.digest,
    }
    return row | dict(axes_of)  # conditions are told apart by their axes, whatever a game calls its metrics


def _seconds(telemetry: Mapping[str, Any]) -> dict[str, float]:
    """Return how long the simulation and each of its phases took; older records do not tell it."""
    phases = telemetry.get("phase_seconds", {})
    whole = {SECONDS: telemetry.get("wall_seconds", math.nan)}
    return whole | {f"{SECONDS}_{phase}": seconds for phase, seconds in phases.items()}


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict | list) else value


def engine_label(provenance: Mapping[str, Any]) -> str:
    """Return what answered, in a few words: results of one condition should not mix engines."""
    engines = provenance.get("engines", {})
    labels = []
    for name in sorted(engines):
        engine = engines[name]
        if engine.get("engine") == "service":  # it tells no arguments, weights or device
            versions = [f", {package} {version}" for package, version in engine.get("versions", {}).items()]
            labels.append(f"service of {engine.get('served', 'unknown')}{''.join(versions)}")
            continue
        package = engine.get("engine", "unknown")
        version = engine.get("versions", {}).get(package, "")
        fingerprint = digest([engine.get("arguments"), engine.get("weights_sha256")])[:6]
        labels.append(f"{package} {version}, {engine.get('device', 'unknown')}, {fingerprint}")
    return "; ".join(labels) or "scripted"


def impossible_outcomes(study: Study, rows: pd.DataFrame) -> Impossible:
    """Return, by the values of each condition's axes, the names of the outcomes that it cannot have.

    `rows` is the table of simulations. What a simulation ended with can be, whatever the game says: nothing is hidden.
    """
    ended = {key: set(group["outcome"]) for key, group in by_condition(rows, axes(study))}
    every = {outcome.name for outcome in study.game.outcomes}
    found = {}
    for condition in study.conditions:
        key = tuple(condition.axes.values())
        found[key] = frozenset(every - condition.possible_outcomes - ended.get(key, set()))
    return found


def outcomes_of(conditions: pd.DataFrame, game: type[Game]) -> list[OutcomeClass]:
    """Return the outcomes that some of these conditions can have; `conditions` are rows of the table of conditions."""
    return [outcome for outcome in game.outcomes if conditions[f"{outcome.name}_rate"].notna().any()]


def condition_table(
    rows: pd.DataFrame, by: Sequence[str], game: type[Game], impossible: Impossible = NONE_IMPOSSIBLE
) -> pd.DataFrame:
    """Return a row per condition: axes, `simulations` (the n of every rate), per outcome count, rate, limits.

    An outcome that is `impossible` in a condition has none of the four there: they are missing, not 0.

    `threat_model` says whether the paper allows its adversaries ("none", "paper", "beyond: ...", "unknown: ...").

    `median_rounds` is the Kaplan-Meier median of the rounds until the game stopped, missing where fewer than half
    did. Tokens and calls are means per simulation; failed replies are a share of all calls, degenerate ones of what
    was asked of models.
    """
    table = []
    for values, group in by_condition(rows, by):
        n, never = len(group), impossible.get(values, frozenset())
        row: dict[str, Any] = dict(zip(by, values, strict=True))
        row["threat_model"] = group["threat_model"].iloc[0]
        row["simulations"] = n
        for outcome in game.outcomes:
            count = int((group["outcome"] == outcome.name).sum())
            found = (count, count / n, *wilson_interval(count, n))
            values_of = (pd.NA, math.nan, math.nan, math.nan) if outcome.name in never else found
            row |= {f"{outcome.name}_{part}": v for part, v in zip(_PARTS, values_of, strict=True)}
        row["median_rounds"] = censored_median(
            group["rounds"].to_list(), group["finished_early"].astype(bool).to_list()
        )
        row["mean_calls"] = group["calls"].mean()
        row["mean_prompt_tokens"] = group["prompt_tokens"].mean()
        row["mean_completion_tokens"] = group["completion_tokens"].mean()
        row["failed_replies"] = int(group["failed_replies"].sum())
        for failure in FAILURE_CLASSES:
            row[failure] = int(group[failure].sum())
        row["failed_reply_rate"] = row["failed_replies"] / group["calls"].sum()
        row |= condition_cells(group)
        row["engines"] = group["engine"].nunique()
        table.append(row)
    counts = [f"{outcome.name}_count" for outcome in game.outcomes if table]
    return with_counts(pd.DataFrame(table)).astype(dict.fromkeys(counts, "Int64"))


def write_table(table: pd.DataFrame, study: str, name: str) -> None:
    """Write a table as Parquet and as CSV."""
    write_atomically(paths.table(study, name, ".parquet"), lambda file: table.to_parquet(file, index=False))
    write_atomically(paths.table(study, name, ".csv"), lambda file: table.to_csv(file, index=False))


def read_table(study: str, name: str) -> pd.DataFrame:
    """Return a table that `summarize` wrote; raises RecordError if it is not there, or not whole."""
    path: Path = paths.table(study, name, ".parquet")
    if not path.is_file():
        made_by = "parley ledger build" if name == "ledger" else "parley summarize"
        raise RecordError(f"{path}: no such table; run: {made_by}")
    try:
        return pd.read_parquet(path)
    except (OSError, ValueError) as error:  # pyarrow's are both
        raise RecordError(f"{path}: cut short or no table; run: parley summarize") from error


def print_conditions(table: pd.DataFrame, by: Sequence[str], game: type[Game]) -> str:
    """Return the table of conditions as text: axes, n, and each outcome's rate with its interval in percent.

    Outcomes that no condition can have are left out. Each value of the first axis has a table of its own, so that it
    fits a terminal; what is the same in all of its rows stands above them.
    """
    if table[by[0]].nunique() > 1:
        parts = [part for _, part in table.groupby(by[0], sort=False, dropna=False)]
        return "\n\n".join(print_conditions(part, by, game) for part in parts)
    shown = table[list(by)].copy()
    if (table["threat_model"] != "none").any():
        shown["threat model"] = table["threat_model"]
    shown["simulations"] = table["simulations"]
    labels = {outcome.label for outcome in outcomes_of(table, game)}
    for outcome in outcomes_of(table, game):
        cells = []
        for _, row in table.iterrows():
            rate, low, high = (row[f"{outcome.name}_{part}"] for part in ("rate", "low", "high"))
            cells.append("-" if pd.isna(rate) else f"{rate:4.0%} [{100 * low:.0f}, {100 * high:.0f}]")
        shown[outcome.label] = cells
    shown["median rounds"] = ["-" if pd.isna(m) else f"{m:g}" for m in table["median_rounds"]]
    shown["unusable replies"] = [f"{rate:.1%}" for rate in table["failed_reply_rate"]]
    kept = [name for name in shown if len(shown) == 1 or shown[name].nunique() > 1 or name in labels]
    alike = ", ".join(f"{name} {shown[name].iloc[0]}" for name in shown if name not in kept)
    return (f"In all rows: {alike}\n" if alike else "") + shown[kept].to_string(index=False)
