"""A simulation as a sample of inspect_ai: attempts as events in spans (round, phase, agent), metrics as scores."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from inspect_ai.event import Event, InfoEvent, ModelEvent, SpanBeginEvent, SpanEndEvent
from inspect_ai.log import EvalSample
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

from parley.identity import digest
from parley.play.record import Summary
from parley.study.condition import Condition
from parley.text import valid_unicode

OUTCOME = "outcome"
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
    attempts = [(row, _Attempt(simulation["id"], row, started)) for row in rows]
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
        messages=[message for _, attempt in attempts for message in attempt.said],
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
        model_usage=_usage_by("player", attempts),
        role_usage=_usage_by("role", attempts),
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


class _Attempt:
    """One attempt: the event, its messages and what it used."""

    def __init__(self, simulation: str, row: Row, began: datetime) -> None:
        self.span = f"{simulation[:12]}-{row['round']}-{row['phase']}-{row['agent']}"
        name = f"{self.span}-{row['attempt']}"
        about = {key: row[key] for key in ("agent", "role", "player", "round", "phase", "attempt")}
        about |= {key: row[key] for key in ("failure", "failure_detail", "system_fingerprint") if row[key]}
        content: str | list[Any] = row["text"]
        if row["reasoning"]:
            content = [ContentReasoning(reasoning=row["reasoning"]), ContentText(text=row["text"])]
        model = row["served_model"] or row["player"]
        reply = ChatMessageAssistant(
            id=f"{name}-reply", content=content, model=model, source="generate", metadata=about
        )
        # The same words have the same id: they are stored once. Of imported games some are not known.
        system = row["system"] and ChatMessageSystem(id=digest(["system", row["system"]])[:22], content=row["system"])
        user = row["user"] and ChatMessageUser(id=f"{name}-ask", content=row["user"], metadata=about)
        asked: list[ChatMessage] = [message for message in (system, user) if message]
        self.said: list[ChatMessage] = [*([user] if user else []), reply]
        self.usage = _usage(row)
        self.output = ModelOutput(
            model=model,
            choices=[ChatCompletionChoice(message=reply, stop_reason=_STOPS.get(row["finish_reason"], "unknown"))],
            usage=self.usage,
            time=row["seconds"],
        )
        self.event = ModelEvent(
            uuid=name,
            span_id=self.span,
            timestamp=row["started"],
            working_start=(row["started"] - began).total_seconds(),
            working_time=row["seconds"],
            completed=_end(row),
            model=row["player"],
            role=row["role"],
            input=asked,
            tools=[],
            tool_choice="none",
            config=GenerateConfig(
                seed=row["request_seed"], temperature=round(row["temperature"], 6), max_tokens=row["max_tokens"]
            ),
            output=self.output,
            error=": ".join(filter(None, (row["failure"], row["failure_detail"]))) or None,
            metadata=about,
        )


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


def _usage_by(key: str, attempts: Sequence[tuple[Row, _Attempt]]) -> dict[str, ModelUsage]:
    total: dict[str, ModelUsage] = {}
    for row, attempt in attempts:
        if attempt.usage is not None:
            name = row[key]
            total[name] = total[name] + attempt.usage if name in total else attempt.usage
    return total


def _events(
    simulation: str,
    attempts: Sequence[tuple[Row, _Attempt]],
    trace: Sequence[Mapping[str, Any]],
    began: datetime,
    ended: datetime,
) -> Iterator[Event]:
    """Yield the attempts in spans, and at the end of each round what the game kept of it."""
    rounds: dict[int, dict[str, dict[str, list[_Attempt]]]] = {}
    for row, attempt in attempts:
        phases = rounds.setdefault(row["round"], {})
        phases.setdefault(row["phase"], {}).setdefault(row["agent"], []).append(attempt)
    for number in sorted({*rounds, *(entry["round"] for entry in trace)}):
        of_round = [a for agents in rounds.get(number, {}).values() for tries in agents.values() for a in tries]
        start, end = _span_times(of_round, ended)
        one = _Span(f"{simulation[:12]}-{number}", f"round {number}", "round", None, began)
        yield one.begin(start)
        for phase, agents in rounds.get(number, {}).items():
            start_of_phase, end_of_phase = _span_times([a for tries in agents.values() for a in tries], ended)
            two = _Span(f"{one.id}-{phase}", phase, "phase", one.id, began)
            yield two.begin(start_of_phase)
            for agent, tries in agents.items():
                first, last = _span_times(tries, ended)
                three = _Span(tries[0].span, agent, "agent", two.id, began)
                yield three.begin(first)
                yield from (attempt.event for attempt in tries)
                yield three.end(last)
            yield two.end(end_of_phase)
        for place, entry in enumerate(entry for entry in trace if entry["round"] == number):
            yield InfoEvent(
                **_when(end, began), uuid=f"{one.id}-kept-{place}", span_id=one.id, source="parley", data=dict(entry)
            )
        yield one.end(end)


def _span_times(attempts: Sequence[_Attempt], without: datetime) -> tuple[datetime, datetime]:
    events = [attempt.event for attempt in attempts]
    if not events:
        return without, without
    return min(event.timestamp for event in events), max(event.completed for event in events)


def _when(time: datetime, began: datetime) -> dict[str, Any]:
    return {"timestamp": time.astimezone(UTC), "working_start": (time - began).total_seconds()}


class _Span:
    """A stretch of a sample, inside another one."""

    def __init__(self, name: str, title: str, kind: str, parent: str | None, began: datetime) -> None:
        self.id, self._title, self._kind, self._parent, self._began = name, title, kind, parent, began

    def begin(self, time: datetime) -> SpanBeginEvent:
        own = {"id": self.id, "name": self._title, "type": self._kind, "parent_id": self._parent}
        return SpanBeginEvent(**own, **_when(time, self._began), uuid=f"{self.id}-begin", span_id=self.id)

    def end(self, time: datetime) -> SpanEndEvent:
        return SpanEndEvent(id=self.id, **_when(time, self._began), uuid=f"{self.id}-end", span_id=self.id)
