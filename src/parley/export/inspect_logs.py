"""Logs of inspect_ai: one for each condition, a sample for each simulation.

Attempts are events in spans (round, phase, agent), metrics are scores.
"""

import json
import logging
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from inspect_ai.event import Event, InfoEvent, ModelEvent, SpanBeginEvent, SpanEndEvent
from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalLog,
    EvalMetric,
    EvalResults,
    EvalSample,
    EvalScore,
    EvalSpec,
    EvalStats,
    write_eval_log,
)
from inspect_ai.model import (
    ChatCompletionChoice,
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
_log = logging.getLogger(__name__)
_ID = 22  # letters of an id, as many as inspect_ai's own have
_STOPS = {"stop": "stop", "length": "max_tokens", "content_filter": "content_filter"}
Row = Mapping[str, Any]


def write_logs(study: Study, folder: Path) -> None:
    """Write a log per condition, repeats as epochs; damaged records are left out. Raises RecordError if all are."""
    alike: dict[tuple[Any, ...], list[Simulation]] = defaultdict(list)
    for simulation in study.simulations():
        alike[tuple(simulation.condition.axes.values())].append(simulation)
    total = sum(map(len, alike.values()))
    number = 0
    for simulations in with_progress(alike.values(), len(alike), "condition"):
        found = []
        for simulation in simulations:
            path = simulation.record(study.name)
            try:
                summary, rows = read_attempts(path, SCHEMA.names)
                require_own(path, simulation, summary)
                trace = read_trace(path)
            except RecordError as error:
                _log.warning("left out: %s", error)
                continue
            found.append((sample_of(study.title, simulation.condition, summary, rows.to_pylist(), trace), summary))
        if found:
            _write(study, simulations[0].condition, found, folder)
        number += len(found)
    if not number:
        raise RecordError(f"{study.name}: none of its records can be used; delete them and run the study again")
    _log.info("%d of %d simulations in %d logs", number, total, len(list(folder.iterdir())))


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
    kind = condition.game.class_of(outcome["name"], outcome["detail"])
    why = [f"{key}: {outcome[key]}" for key in ("detail", "diagnosis") if outcome[key]]
    scores = {OUTCOME: Score(value=kind, explanation="; ".join(why) or None, metadata={"rounds": outcome["rounds"]})}
    for name, value in outcome["metrics"].items():
        if isinstance(value, bool | int | float | str):
            scores[name] = Score(value=value)
    return EvalSample(
        id=simulation["seed"],
        epoch=(condition.repeat or 0) + 1,
        uuid=simulation["id"],
        input=f"{title or condition.game.name}: {_axes(condition, ', ')}",
        target="",
        messages=[
            message
            for row, event in attempts
            for message in (*(event.input[-1:] if row["user"] else ()), event.output.message)
        ],
        output=attempts[-1][1].output if attempts else ModelOutput(),
        scores=scores,
        metadata={
            **condition.axes,
            "simulation": simulation["id"],
            "digest": summary.digest,
            "metrics": outcome["metrics"],
            **({"imported": _plain(imported)} if imported else {}),
        },
        events=list(_events(simulation["id"], attempts, _plain(trace), started, ended)),
        started_at=started.isoformat(),
        completed_at=ended.isoformat(),
        total_time=(ended - started).total_seconds(),
        working_time=summary.telemetry.get("wall_seconds"),
    )


def _axes(condition: Condition, between: str) -> str:
    return between.join(f"{axis}={value}" for axis, value in condition.axes.items())


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
    system = row["system"] and ChatMessageSystem(id=digest(["system", row["system"]])[:_ID], content=row["system"])
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


def _before(row: Row, name: str) -> Iterator[ChatMessageAssistant | ChatMessageUser]:
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


def _events(
    simulation: str,
    attempts: Sequence[tuple[Row, ModelEvent]],
    trace: Sequence[Mapping[str, Any]],
    began: datetime,
    ended: datetime,
) -> Iterator[Event]:
    """Yield the spans of the rounds, in them those of phases, in these those of agents; the trace is in its round."""
    spans: dict[int, dict[str, dict[str, list[Event]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for row, event in attempts:
        spans[row["round"]][row["phase"]][row["agent"]].append(event)

    def span(kind: str, name: str, own: str, above: str | None, events: list[Event]) -> list[Event]:
        times = [time for event in events for time in (event.timestamp, getattr(event, "completed", None)) if time]
        start, end = min(times, default=ended), max(times, default=ended)
        about = {"id": own, "name": name, "type": kind, "parent_id": above, "uuid": f"{own}-begin", "span_id": own}
        over = SpanEndEvent(id=own, **when(end), uuid=f"{own}-end", span_id=own)
        return [SpanBeginEvent(**about, **when(start)), *events, over]

    def when(time: datetime) -> dict[str, Any]:
        return {"timestamp": time.astimezone(UTC), "working_start": (time - began).total_seconds()}

    for number in sorted({*spans, *(entry["round"] for entry in trace)}):
        own, phases = f"{simulation[:12]}-{number}", []
        for phase, by_agent in spans[number].items():
            inside = f"{own}-{phase}"
            agents = [span("agent", agent, f"{inside}-{agent}", inside, each) for agent, each in by_agent.items()]
            phases += span("phase", phase, inside, own, [event for events in agents for event in events])
        kept = [
            InfoEvent(
                **when(phases[-1].timestamp if phases else ended),
                uuid=f"{own}-kept-{place}",
                span_id=own,
                source="parley",
                data=dict(entry),
            )
            for place, entry in enumerate(entry for entry in trace if entry["round"] == number)
        ]
        yield from span("round", f"round {number}", own, None, [*phases, *kept])


def _write(study: Study, condition: Condition, found: Sequence[tuple[EvalSample, Summary]], folder: Path) -> None:
    """Write the log of the simulations of a condition."""
    samples = [sample for sample, _ in found]
    simulation, made = found[0][1].simulation, found[0][1].provenance
    started = min(sample.started_at for sample in samples)
    label = _axes(condition, ",")
    identity = digest([study.plan, condition.name])
    terms = ("format", "source", "license")
    imported = {key: value for key, value in made.get("imported", {}).items() if key in terms}
    spec = EvalSpec(
        eval_id=identity[:_ID],
        run_id=digest([study.name, study.plan])[:_ID],
        task_id=digest([study.name, condition.name])[:_ID],
        created=started,
        task=f"{study.name}/{label}",
        task_display_name=label,
        task_version=simulation["protocol_version"],
        task_args={"game": simulation["game"], **condition.axes, "parameters": simulation["parameters"]},
        dataset=EvalDataset(name=study.name, sample_ids=list(dict.fromkeys(sample.id for sample in samples))),
        model=str(condition.axes["model"]),
        config=EvalConfig(epochs=max(sample.epoch for sample in samples)),
        packages={"parley": __version__, **made.get("packages", {})},
        metadata={
            **{"title": study.title, "groups": simulation["groups"], "engines": made.get("engines", {})},
            **({"imported": imported} if imported else {}),
        },
    )
    log = EvalLog(
        status="success",
        eval=spec,
        results=_results(condition, samples),
        stats=EvalStats(started_at=started, completed_at=max(sample.completed_at for sample in samples)),
        samples=samples,
    )
    task = re.sub(r"[^A-Za-z0-9.=,+-]+", "-", f"{study.name}-{label}")[:150]
    time = re.sub(r"[:]", "-", re.sub(r"\.\d+", "", started))
    write_eval_log(log, str(folder / f"{time}_{task}_{identity[:_ID]}.eval"))


def _results(condition: Condition, samples: Sequence[EvalSample]) -> EvalResults:
    """Return the rate of each outcome with its interval, and the mean of each metric that is a number."""
    classes = Counter(sample.scores[OUTCOME].value for sample in samples)
    rates = {}
    for name in dict.fromkeys([*(each.name for each in condition.game.outcomes), *classes]):
        low, high = wilson_interval(classes[name], len(samples))
        about = {"count": classes[name], "low": low, "high": high}
        rates[name] = EvalMetric(name=name, value=classes[name] / len(samples), metadata=about)
    scores = [EvalScore(name=OUTCOME, scorer=OUTCOME, scored_samples=len(samples), metrics=rates)]
    for name in dict.fromkeys(name for sample in samples for name in sample.scores if name != OUTCOME):
        values = [sample.scores[name].value for sample in samples if name in sample.scores]
        if not any(isinstance(value, str) for value in values):
            mean = EvalMetric(name="mean", value=sum(map(float, values)) / len(values))
            scores.append(EvalScore(name=name, scorer=name, scored_samples=len(values), metrics={"mean": mean}))
    return EvalResults(total_samples=len(samples), completed_samples=len(samples), scores=scores)
