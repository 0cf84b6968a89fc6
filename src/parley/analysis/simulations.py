"""The table `simulations`: a row per record, with how it ended, what it took, and what answered."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import pandas as pd

from parley.analysis.rates import SECONDS
from parley.games.parameters import BYZANTINE
from parley.identity import digest
from parley.play.degenerate import ASKED, DEGENERATE_CLASSES
from parley.play.record import Summary, read_attempts
from parley.policies import FAILURE_CLASSES
from parley.study.condition import Simulation
from parley.text import by_number, one_line

_TELEMETRY = (
    "calls",
    "failed_replies",
    *FAILURE_CLASSES,  # records of the findings lack some
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "request_seconds",
)


# Degenerate replies, of those asked of models.
ALL = "degenerate"
COLUMNS = {name: f"{ALL}_{name}" for name in DEGENERATE_CLASSES}
IMPORTED = "imported from "  # begins what answered in games that somebody else's code played
DEGENERATE_COUNTS = (ASKED, ALL, *COLUMNS.values())


@dataclass(frozen=True)
class PlayedGame:
    """A simulation with the summary of its record, and who sat where in it."""

    simulation: Simulation
    summary: Summary

    @cached_property
    def seats(self) -> dict[str, tuple[str, str]]:
        """By the name of each agent: its role, and the label of what plays it."""
        # What the game is about, and who sat where in one that was imported, is in the record.
        own = replace(self.simulation, recorded=self.summary.simulation.get("material"))
        players = own.players
        labels = {id(player): player.label for player in players.values()}
        return {seat.name: (seat.role, labels[id(players[seat.name])]) for seat in own.seats}

    @property
    def players(self) -> dict[str, str]:
        """The label of what plays each agent, by the agent's name."""
        return {name: label for name, (_, label) in self.seats.items()}

    @cached_property
    def honest(self) -> dict[str, str]:
        """Those of the agents that are not the adversary's, by number."""
        honest = [name for name, (role, _) in self.seats.items() if role != BYZANTINE]
        return {name: self.seats[name][1] for name in sorted(honest, key=by_number)}

    def attempts(self, study: str, columns: Sequence[str]) -> pd.DataFrame:
        """Return some columns of the attempts of its record in a study, by name; raises RecordError as they do."""
        _, rows = read_attempts(self.simulation.record(study), columns)
        found: pd.DataFrame = rows.to_pandas()
        return found


def simulation_table(games: Sequence[PlayedGame]) -> pd.DataFrame:
    """Return a row per simulation whose record can be used: see `simulation_row`."""
    return with_counts(pd.DataFrame([simulation_row(game.simulation, game.summary) for game in games]))


def with_counts(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose counts of degenerate replies, if it has them, are integers that may be missing."""
    return rows.astype({name: "Int64" for name in DEGENERATE_COUNTS if name in rows})


def simulation_row(simulation: Simulation, summary: Summary) -> dict[str, Any]:
    """Return one row of the simulations table: axes, seed, outcome, the game's metrics, telemetry, digest."""
    outcome, axes_of = summary.outcome, simulation.condition.axes
    derived = simulation.condition.game.evidence.derived({"rounds": outcome["rounds"], **outcome["metrics"]})
    first = {
        **axes_of,
        "threat_model": simulation.condition.threat_model,
        "seed": simulation.seed,
        "outcome": simulation.condition.game.class_of(outcome["name"], outcome["detail"]),
        "detail": outcome["detail"],
        "diagnosis": outcome["diagnosis"],
        "rounds": outcome["rounds"],
        "finished_early": outcome["finished_early"],
    }
    row = {
        **first,
        **outcome["metrics"],
        **derived,
        **{key: summary.telemetry.get(key, 0) for key in _TELEMETRY},
        **(_degenerate(summary.telemetry.get("degenerate")) if simulation.condition.models else {}),
        SECONDS: summary.telemetry.get("wall_seconds", math.nan),
        **{f"{SECONDS}_{phase}": taken for phase, taken in summary.telemetry.get("phase_seconds", {}).items()},
        "started": summary.provenance.get("started", ""),
        "engine": engine_label(summary.provenance),
        "spec": simulation.condition.spec,
        "id": simulation.id,
        "digest": summary.digest,
    }
    row |= first  # these columns are Parley's, whatever a game calls its metrics
    return {key: cell(value) for key, value in row.items()}


def _degenerate(counts: Mapping[str, int] | None) -> dict[str, Any]:
    """Return the counts of degenerate replies of a simulation that asks a model; missing if its record has none."""
    if counts is None:
        return dict.fromkeys(DEGENERATE_COUNTS)
    by_class = {column: counts.get(name, 0) for name, column in COLUMNS.items()}
    return {ASKED: counts[ASKED], ALL: sum(by_class.values()), **by_class}


_shown = lru_cache(maxsize=10_000)(one_line)  # names and votes are the same in many rows


def cell(value: Any) -> Any:
    """Return a value as it stands in a table: texts on one line, as they may be a model's; lists as JSON."""
    if isinstance(value, str):
        return _shown(value)
    return json.dumps(value) if isinstance(value, dict | list | tuple) else value


def engine_label(provenance: Mapping[str, Any]) -> str:
    """Return what answered, in a few words: results of one condition should not mix engines."""
    if imported := provenance.get("imported"):
        return f"{IMPORTED}{imported['format']}"
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
