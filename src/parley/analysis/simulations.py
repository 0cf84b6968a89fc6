"""The table `simulations`: a row per record, with how it ended, what it took, and what answered."""

import json
import math
from collections.abc import Mapping
from typing import Any

from parley.analysis.degenerate_rates import simulation_cells
from parley.analysis.rates import SECONDS
from parley.identity import digest
from parley.play.record import Summary
from parley.policies import FAILURE_CLASSES
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


def simulation_row(simulation: Simulation, summary: Summary) -> dict[str, Any]:
    """Return one row of the simulations table: axes, seed, outcome, the game's metrics, telemetry, digest."""
    outcome, axes_of = summary.outcome, simulation.condition.axes
    derived = simulation.condition.game.evidence.derived({"rounds": outcome["rounds"], **outcome["metrics"]})
    row = {
        **axes_of,
        "threat_model": simulation.condition.threat_model,
        "seed": simulation.seed,
        "outcome": simulation.condition.game.class_of(outcome["name"], outcome["detail"]),
        "detail": outcome["detail"],
        "diagnosis": outcome["diagnosis"],
        "rounds": outcome["rounds"],
        "finished_early": outcome["finished_early"],
        **{key: _cell(value) for key, value in {**outcome["metrics"], **derived}.items()},
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
    if imported := provenance.get("imported"):
        return f"imported from {imported['format']}"
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
