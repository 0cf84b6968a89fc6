"""Logs of inspect_ai: one for each condition, a sample for each simulation.

Attempts are events in spans (round, phase, agent), metrics are scores.
"""

import json
import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

from inspect_ai.event import Event, InfoEvent, ModelEvent, SpanBeginEvent, SpanEndEvent
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
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    ContentReasoning,
    ContentText,
    GenerateConfig,
    ModelOutput,
    ModelUsage,
)
from inspect_ai.scorer import Score

from parley import __version__
from parley.errors import RecordError
from parley.identity import digest
from parley.play.record import Summary, read_attempts, read_trace
from parley.play.record_content import SCHEMA
from parley.play.record_store import require_own
from parley.statistics.stats import wilson_interval
from parley.study import Study
from parley.study.condition import Condition, Simulation
from parley.text import valid_unicode, with_progress

OUTCOME = "outcome"
_SPANS = ("round", "phase", "agent")  # one inside the other
Row = Mapping[str, Any]
_STOPS = {"stop": "stop", "length": "max_tokens", "content_filter": "content_filter"}


def sample_of(
    title: str, condition: Condition, summary: Summary, rows: Sequence[Row], trace: Sequence[Mapping[str, Any]]
) -> EvalSample:
    """Return the sample of a simulation: its id is the seed, its epoch which time the seed was played."""
    simulation, outcome = _plain(summary.simulation), _plain(summary.outcome)
    imported = summary.provenance.get("imported")
    begun = datetime.fromisoformat(summary.provenance["started"])
    if imported:  # nobody knows when it was played: the time of the import
        rows = [{**row, "started": begun} for row in rows]
    started = min((row["started"] for row in rows), default=begun)
    ended = max((_end(row) for row in rows), default=started)
    attempts = [(row, _attempt(simulation["id"], row, started)) for row in rows]
    material = simulation.get("material")
    material = material if isinstance(material, dict) else {}
    question = [str(material["question"])] if material.get("question") else []
    axes = ", ".join(f"{axis}={value}" for axis, value in condition.axes.items())
    right = outcome["metrics"].get("right_answer")
    kind = condition.game.class_of(outcome["name"], outcome["detail"])
    why = [f"{key}: {outcome[key]}" for key in ("detail", "diagnosis") if outcome[key]]
    scores = {OUTCOME: Score(value=kind, explanation="; ".join(why) or None, metadata={"rounds": outcome["rounds"]})}
    scores |= {
        name: Score(value=value)
        for name, value in outcome["metrics"].items()
        if isinstance(value, bool | int | float | str)
    }
    return EvalSample(
        id=simulation["seed"],
        epoch=(condition.repeat or 0) + 1,
        uuid=simulation["id"],
        input="\n\n".join([f"{title or condition.game.name}: {axes}", *question]),
        target="" if right is None else str(right),
        messages=[message for row, attempt in attempts for message in _said(row, attempt)],
        output=attempts[-1][1].output if attempts else ModelOutput(),
        scores=scores,
        metadata={
            **condition.axes,
            "seed": simulation["seed"],
            "simulation": simulation["id"],
            "digest": summary.digest,
            "rounds": outcome["rounds"],
            "finished_early": outcome["finished_early"],
            "metrics": outcome["metrics"],
            **({"imported": _plain(imported)} if imported else {}),
        },
        events=list(_events(simulation["id"], attempts, _plain(trace), started, ended)),
        model_usage=_usage_by((row["player"], attempt.output.usage) for row, attempt in attempts),
        role_usage=_usage_by((row["role"], attempt.output.usage) for row, attempt in attempts),
        started_at=started.isoformat(),
        completed_at=ended.isoformat(),
        total_time=(ended - started).total_seconds(),
        working_time=summary.telemetry.get("wall_seconds"),
    )


def _plain(value: Any) -> Any:
    """Return JSON values without half characters, which no file could hold."""
    return json.loads(valid_unicode(json.dumps(value, ensure_ascii=False)))


def _end(row: Row) -> datetime:
    ended: datetime = row["started"] + timedelta(seconds=row["seconds"])
    return ended


def _attempt(simulation: str, row: Row, began: datetime) -> ModelEvent:
    """Return the event of one attempt, in the span of its agent."""
    span = f"{simulation[:12]}-{row['round']}-{row['phase']}-{row['agent']}"
    name = f"{span}-{row['attempt']}"
    about = {key: row[key] for key in ("agent", "role", "player", "round", "phase", "attempt")}
    about |= {key: row[key] for key in ("failure", "failure_detail", "system_fingerprint") if row[key]}
    content: str | list[Any] = row["text"]
    if row["reasoning"]:
        content = [ContentReasoning(reasoning=row["reasoning"]), ContentText(text=row["text"])]
    model = row["served_model"] or row["player"]
    reply = ChatMessageAssistant(id=f"{name}-reply", content=content, model=model, source="generate", metadata=about)
    # The same words have the same id: they are stored once. Of imported games some are not known.
    system = row["system"] and ChatMessageSystem(id=digest(["system", row["system"]])[:22], content=row["system"])
    user = row["user"] and ChatMessageUser(id=f"{name}-ask", content=row["user"], metadata=about)
    return ModelEvent(
        uuid=name,
        span_id=span,
        timestamp=row["started"],
        working_start=(row["started"] - began).total_seconds(),
        working_time=row["seconds"],
        completed=_end(row),
        model=row["player"],
        role=row["role"],
        input=[message for message in (system, *_before(row, name), user) if message],
        tools=[],
        tool_choice="none",
        config=GenerateConfig(
            seed=row["request_seed"], temperature=round(row["temperature"], 6), max_tokens=row["max_tokens"]
        ),
        output=ModelOutput(
            model=model,
            choices=[ChatCompletionChoice(message=reply, stop_reason=_STOPS.get(row["finish_reason"], "unknown"))],
            usage=_usage(row),
            time=row["seconds"],
        ),
        error=": ".join(filter(None, (row["failure"], row["failure_detail"]))) or None,
        metadata=about,
    )


def _said(row: Row, attempt: ModelEvent) -> list[ChatMessage]:
    """Return the question and the reply."""
    return [*(attempt.input[-1:] if row["user"] else []), attempt.output.message]


def _before(row: Row, name: str) -> Iterator[ChatMessage]:
    """Yield the messages between the system prompt and the last question, as they were sent last."""
    with suppress(LookupError, TypeError, ValueError):  # a record may hold anything
        earlier = json.loads(row["sent"])[-1]["messages"][1:-1] if row["sent"] else ()
        for place, (role, content) in enumerate(earlier):
            kind = ChatMessageAssistant if role == "assistant" else ChatMessageUser
            yield kind(id=f"{name}-before-{place}", content=content)


def _usage(row: Row) -> ModelUsage | None:
    """Return the tokens of an attempt, None if nobody counted; inspect_ai tells cached ones apart from the others."""
    if row["prompt_tokens"] is None and row["completion_tokens"] is None:
        return None
    asked, replied, cached = (row[f"{kind}_tokens"] or 0 for kind in ("prompt", "completion", "cached"))
    return ModelUsage(
        input_tokens=asked - cached,
        output_tokens=replied,
        total_tokens=asked + replied,
        input_tokens_cache_read=row["cached_tokens"],
        reasoning_tokens=row["reasoning_tokens"],
    )


def _usage_by(pairs: Iterable[tuple[str, ModelUsage | None]]) -> dict[str, ModelUsage]:
    total: dict[str, ModelUsage] = {}
    for name, usage in pairs:
        if usage is not None:
            total[name] = total[name] + usage if name in total else usage
    return total


def _events(
    simulation: str,
    attempts: Sequence[tuple[Row, ModelEvent]],
    trace: Sequence[Mapping[str, Any]],
    began: datetime,
    ended: datetime,
) -> Iterator[Event]:

    def when(time: datetime) -> dict[str, Any]:
        return {"timestamp": time.astimezone(UTC), "working_start": (time - began).total_seconds()}

    def span(inside: Sequence[tuple[Row, ModelEvent]], at: int, *names: str) -> Iterator[Event]:
        """Yield the span of a round, a phase or an agent, and those inside it."""
        ids = ["-".join([simulation[:12], *names[:depth]]) for depth in (1, 2, 3)]
        kind, own, above = _SPANS[at], ids[at], ids[at - 1] if at else None
        events = [event for _, event in inside]
        start = min((event.timestamp for event in events), default=ended)
        end = max((event.completed for event in events), default=ended)
        about = {"id": own, "name": names[-1] if at else f"round {names[0]}", "type": kind, "parent_id": above}
        yield SpanBeginEvent(**about, **when(start), uuid=f"{own}-begin", span_id=own)
        if at == len(_SPANS) - 1:
            yield from events
        else:
            deeper = _SPANS[at + 1]
            for name in dict.fromkeys(row[deeper] for row, _ in inside):
                yield from span([each for each in inside if each[0][deeper] == name], at + 1, *names, name)
        kept = [dict(entry) for entry in trace if not at and str(entry["round"]) == names[0]]
        for place, entry in enumerate(kept):
            yield InfoEvent(**when(end), uuid=f"{own}-kept-{place}", span_id=own, source="parley", data=entry)
        yield SpanEndEvent(id=own, **when(end), uuid=f"{own}-end", span_id=own)

    for number in sorted({*(row["round"] for row, _ in attempts), *(entry["round"] for entry in trace)}):
        yield from span([each for each in attempts if each[0]["round"] == number], 0, str(number))


_log = logging.getLogger(__name__)
_ID = 22  # letters of an id, as many as inspect_ai's own have


def write_logs(study: Study, folder: Path) -> None:
    """Write a log per condition, repeats as epochs; damaged records are left out. Raises RecordError if all are."""
    conditions: dict[tuple[Any, ...], list[Condition]] = {}
    for condition in study.conditions:
        conditions.setdefault(tuple(condition.axes.items()), []).append(condition)
    total = sum(len(condition.seeds) for condition in study.conditions)
    samples = with_progress(_samples(study, conditions.values()), total, "simulation")
    number = 0
    for _, group in groupby(samples, key=lambda each: each[0].axes):
        alike = list(group)
        _write(study, alike[-1][0], [(sample, summary) for _, sample, summary in alike], folder)
        number += len(alike)
    if not number:
        raise RecordError(f"{study.name}: none of its records can be used; delete them and run the study again")
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
                    require_own(path, simulation, summary)
                    trace = read_trace(path)
                except RecordError as error:
                    _log.warning("left out: %s", error)
                    continue
                yield condition, sample_of(study.title, condition, summary, rows.to_pylist(), trace), summary


def _write(study: Study, condition: Condition, found: Sequence[tuple[EvalSample, Summary]], folder: Path) -> None:
    samples = [sample for sample, _ in found]
    made = [summary.provenance for _, summary in found]
    started = min(sample.started_at for sample in samples)
    label = ",".join(f"{axis}={value}" for axis, value in condition.axes.items())
    identity = digest([study.plan, condition.name])
    simulation = found[0][1].simulation
    terms = ("format", "source", "license")
    imported = {key: value for key, value in made[0].get("imported", {}).items() if key in terms}
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
            **({"imported": imported} if imported else {}),
        },
    )
    log = EvalLog(
        status="success",
        eval=spec,
        results=_results(condition, samples),
        stats=EvalStats(
            started_at=started,
            completed_at=max(sample.completed_at for sample in samples),
            model_usage=_usage_by(pair for sample in samples for pair in sample.model_usage.items()),
            role_usage=_usage_by(pair for sample in samples for pair in sample.role_usage.items()),
        ),
        samples=samples,
    )
    task = re.sub(r"[^A-Za-z0-9.=,+-]+", "-", f"{study.name}-{label}")[:150]
    time = re.sub(r"[:]", "-", re.sub(r"\.\d+", "", started))
    write_eval_log(log, str(folder / f"{time}_{task}_{identity[:_ID]}.eval"))


def _revision(made: Sequence[Mapping[str, Any]]) -> EvalRevision | None:
    """Return the commit that all simulations were played by; None if there are several, or none is known."""
    commits = {(git["commit"], git["dirty"]) if (git := each.get("git")) else None for each in made}
    if len(commits) != 1 or (one := commits.pop()) is None:
        return None
    return EvalRevision(type="git", origin="", commit=one[0], dirty=one[1])


def _results(condition: Condition, samples: Sequence[EvalSample]) -> EvalResults:
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
