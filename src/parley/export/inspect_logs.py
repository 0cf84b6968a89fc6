"""Logs of inspect_ai: one for each condition, a sample for each simulation."""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalLog,
    EvalMetric,
    EvalResults,
    EvalRevision,
    EvalSample,
    EvalScore,
    EvalSpec,
    EvalStats,
    write_eval_log,
)
from inspect_ai.model import ModelUsage

from parley import __version__
from parley.analysis.stats import wilson_interval
from parley.errors import RecordError
from parley.export.inspect_samples import OUTCOME, sample_of
from parley.export.progress import told
from parley.identity import digest
from parley.play.record import Summary, read_attempts, read_trace
from parley.play.record_content import SCHEMA
from parley.study import Study
from parley.study.condition import Condition, Simulation

_log = logging.getLogger(__name__)
_ID = 22  # letters of an id, as many as inspect_ai's own have


def write_logs(study: Study, folder: Path) -> None:
    """Write a log for each condition of a study; what was played again is another epoch of the same samples.

    Damaged records are named and left out. Raises RecordError if no record can be used.
    """
    conditions: dict[tuple[Any, ...], list[Condition]] = {}
    for condition in study.conditions:
        conditions.setdefault(tuple(condition.axes.items()), []).append(condition)
    total = sum(len(condition.seeds) for condition in study.conditions)
    samples = told(_samples(study, conditions.values()), total, "simulation")
    found: list[tuple[EvalSample, Summary]] = []
    current: Condition | None = None
    number = 0
    for condition, sample, summary in samples:
        if current is not None and condition.axes != current.axes:
            _write(study, current, found, folder)
            found = []
        current = condition
        number += 1
        found.append((sample, summary))
    if current is None:
        raise RecordError(f"{study.name}: none of its records can be used; delete them and run the study again")
    _write(study, current, found, folder)
    _log.info("%d of %d simulations in %d logs", number, total, len(list(folder.iterdir())))


def _samples(
    study: Study, conditions: Iterable[Sequence[Condition]]
) -> Iterable[tuple[Condition, EvalSample, Summary]]:
    for alike in conditions:
        for condition in alike:
            for seed in condition.seeds:
                simulation = Simulation(condition, seed)
                path = simulation.record(study.name)
                try:
                    summary, rows = read_attempts(path, SCHEMA.names)
                    if summary.simulation.get("id") != simulation.id:
                        raise RecordError(f"{path}: holds another simulation; move it away")
                    trace = read_trace(path)
                except RecordError as error:
                    _log.warning("left out: %s", error)
                    continue
                yield condition, sample_of(study.title, condition, summary, rows.to_pylist(), trace), summary


def _write(study: Study, condition: Condition, found: Sequence[tuple[EvalSample, Summary]], folder: Path) -> None:
    """Write the log of one condition; it is named as inspect_ai names its own."""
    samples = [sample for sample, _ in found]
    made = [summary.provenance for _, summary in found]
    started = min(sample.started_at for sample in samples)
    label = ",".join(f"{axis}={value}" for axis, value in condition.axes.items())
    identity = digest([study.plan, condition.name])
    simulation = found[0][1].simulation
    spec = EvalSpec(
        eval_id=identity[:_ID],
        run_id=digest([study.name, study.plan])[:_ID],
        task_id=digest([study.name, condition.name])[:_ID],
        created=started,
        task=f"{study.name}/{label}",
        task_display_name=label,
        task_version=simulation["protocol_version"],
        task_args={"game": simulation["game"], **condition.axes, "parameters": simulation["parameters"]},
        dataset=EvalDataset(
            name=study.name,
            samples=len({s.id for s in samples}),
            sample_ids=list(dict.fromkeys(s.id for s in samples)),
        ),
        model=str(condition.axes["model"]),
        config=EvalConfig(epochs=max(sample.epoch for sample in samples)),
        revision=_revision(made),
        packages={"parley": __version__, **made[0].get("packages", {})},
        metadata={
            "title": study.title,
            "groups": simulation["groups"],
            "prompt_digests": simulation["prompt_digests"],
            "spec": simulation["spec"],
            "python": made[0].get("python"),
            "machine": made[0].get("machine"),
            "engines": made[0].get("engines", {}),
            **({"imported": _source(made[0]["imported"])} if "imported" in made[0] else {}),
        },
    )
    log = EvalLog(
        status="success",
        eval=spec,
        results=_results(condition, samples),
        stats=EvalStats(
            started_at=started,
            completed_at=max(sample.completed_at for sample in samples),
            model_usage=_usage(sample.model_usage for sample in samples),
            role_usage=_usage(sample.role_usage for sample in samples),
        ),
        samples=samples,
    )
    task = re.sub(r"[^A-Za-z0-9.=,+-]+", "-", f"{study.name}-{label}")[:150]
    time = re.sub(r"[:]", "-", re.sub(r"\.\d+", "", started))
    write_eval_log(log, str(folder / f"{time}_{task}_{identity[:_ID]}.eval"))


def _source(imported: Mapping[str, Any]) -> dict[str, Any]:
    return {key: imported[key] for key in ("format", "source", "license") if key in imported}


def _revision(made: Sequence[Mapping[str, Any]]) -> EvalRevision | None:
    """Return the commit that all simulations were played by; None if there are several, or none is known."""
    commits = {(git["commit"], git["dirty"]) if (git := each.get("git")) else None for each in made}
    if len(commits) != 1 or (one := commits.pop()) is None:
        return None
    return EvalRevision(type="git", origin="", commit=one[0], dirty=one[1])


def _results(condition: Condition, samples: Sequence[EvalSample]) -> EvalResults:
    """Return the rate of each outcome with its 95% Wilson interval, and the means of the game's metrics."""
    classes = Counter(sample.scores[OUTCOME].value for sample in samples)
    rates = {}
    for name in dict.fromkeys([*(each.name for each in condition.game.outcomes), *classes]):
        low, high = wilson_interval(classes[name], len(samples))
        about = {"count": classes[name], "low": low, "high": high}
        rates[name] = EvalMetric(name=name, value=classes[name] / len(samples), metadata=about)
    scores = [EvalScore(name=OUTCOME, scorer=OUTCOME, scored_samples=len(samples), metrics=rates)]
    for name in dict.fromkeys(name for sample in samples for name in sample.scores if name != OUTCOME):
        values = [sample.scores[name].value for sample in samples if name in sample.scores]
        if any(isinstance(value, str) for value in values):
            continue
        mean = EvalMetric(name="mean", value=sum(map(float, values)) / len(values))
        some = {"scored_samples": len(values), "unscored_samples": len(samples) - len(values)}
        scores.append(EvalScore(name=name, scorer=name, metrics={"mean": mean}, **some))
    return EvalResults(total_samples=len(samples), completed_samples=len(samples), scores=scores)


def _usage(parts: Iterable[Mapping[str, ModelUsage]]) -> dict[str, ModelUsage]:
    total: dict[str, ModelUsage] = {}
    for part in parts:
        for name, usage in part.items():
            total[name] = total[name] + usage if name in total else usage
    return total
