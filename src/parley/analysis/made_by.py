"""What made the records of a study, and what that took: tokens, hours of engines and GPUs, money.

Machines, engines and versions made them, and models, by their own word. What was not measured is unknown.

`summarize` keeps it with the tables, so that a report of 100,000 simulations need not open each of their records.
"""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from datetime import datetime
from typing import Any

from parley import paths
from parley.engine.models import ModelEntry, compare_names
from parley.errors import RecordError
from parley.play.record import Summary
from parley.play.record_store import Records, mark_of_tables, read_own
from parley.policies import Tokens
from parley.study import Study
from parley.study.condition import Condition, Simulation, axes_text

MAX_LINES = 40
_SHOWN = 3
_COUNTS = ("models", "fingerprints")
_TIMES = ("started", "ended")  # of one simulation, not of what made it


@dataclass(frozen=True)
class Answered:
    """What answered for one model of a study, over all its records: by condition, names with numbers of replies."""

    name: str
    entry: ModelEntry
    models: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    fingerprints: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    @property
    def asked(self) -> str:
        """The name that it was asked for by."""
        return self.entry.served or self.name

    def add(self, condition: str, rows: Sequence[Sequence[Any]]) -> None:
        """Count what the record of one simulation says."""
        models, fingerprints = self.models[condition], self.fingerprints[condition]
        for model, fingerprint, number in rows:
            if model is not None:
                models[model] += number
            if fingerprint is not None:
                fingerprints[fingerprint] += number

    @property
    def replies(self) -> Counter[str]:
        """The names that answered, in all conditions together."""
        return sum(self.models.values(), Counter[str]())

    def warnings(self) -> list[str]:
        """Return a line for each other model, each condition with more than one, and for changed fingerprints."""
        lines = []
        for model, number in self.replies.most_common():
            if compare_names(self.asked, model) == "other":
                where = sum(model in found for found in self.models.values())
                lines.append(
                    f"{self.name}: asked for {self.asked}, answered as {model} ({number:,} replies, in {where} of "
                    f"{len(self.models)} conditions)"
                )
        for condition, found in self.models.items():
            if len(found) > 1:
                lines.append(f"{self.name}: more than one model in {condition}: {_listed(found)}")
        changed = [found for found in self.fingerprints.values() if len(found) > 1]
        if changed and self.entry.is_service:
            lines.append(
                f"{self.name}: more than one system_fingerprint in {len(changed)} of {len(self.fingerprints)} "
                f"conditions, which means that the service changed how it runs the model: "
                f"{_listed(sum(changed, Counter[str]()))}"
            )
        return lines


def answered(simulations: Sequence[Simulation], summaries: Iterable[Summary]) -> list[Answered]:
    """Return what answered for each model, from what the records of simulations say; older records say nothing."""
    conditions = {simulation.id: simulation.condition for simulation in simulations}
    found: dict[str, Answered] = {}
    for summary in summaries:
        condition = conditions[summary.simulation["id"]]
        for name, rows in summary.telemetry.get("answered", {}).items():
            if name in condition.entries:
                found.setdefault(name, Answered(name, condition.entries[name])).add(axes_text(condition.axes), rows)
    return [found[name] for name in sorted(found)]


def answered_warnings(models: Sequence[Answered]) -> list[str]:
    """Return what readers should be warned of, at most MAX_LINES lines and one that counts the rest."""
    lines = [line for model in models for line in model.warnings()]
    more = [f"and {len(lines) - MAX_LINES} more"] if len(lines) > MAX_LINES else []
    return lines[:MAX_LINES] + more


def answered_as(models: Sequence[Answered]) -> dict[str, str]:
    """Return for each model what its name turned out to stand for; nothing where the very name answered."""
    return {
        model.name: f"; answered as {_listed(model.replies)}"
        for model in models
        if any(compare_names(model.asked, name) != "same" for name in model.replies)
    }


def _listed(found: Counter[str]) -> str:
    shown = [f"{name} ({number:,} replies)" for name, number in found.most_common(_SHOWN)]
    return ", ".join(shown) + (f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")


@dataclass(frozen=True)
class MadeBy:
    """What made some records, without their times."""

    provenances: Sequence[tuple[Mapping[str, Any], int]]  # each once, with the number of its records
    models: Sequence[Answered]

    @property
    def as_json(self) -> dict[str, Any]:
        """All of it, as `kept` reads it."""
        own = {model.name: {"models": model.models, "fingerprints": model.fingerprints} for model in self.models}
        return {"provenances": self.provenances, "models": own}


def made_by(records: Records) -> MadeBy:
    """Return what made the records of a study that can be used."""
    found: dict[str, tuple[Mapping[str, Any], int]] = {}
    for summary in records.summaries:
        made = {key: value for key, value in summary.provenance.items() if key not in _TIMES}
        key = json.dumps(made, sort_keys=True)
        found[key] = (made, found.get(key, (made, 0))[1] + 1)
    return MadeBy(list(found.values()), answered(records.simulations, records.summaries))


def kept(study: Study) -> MadeBy:
    """Return what made the records that the tables of a study are of; raises RecordError if they do not say."""
    entries = {name: entry for condition in study.conditions for name, entry in condition.entries.items()}
    try:
        mark = mark_of_tables(study)["made_by"]
        models = [
            Answered(
                name, entries[name], *({of: Counter(own) for of, own in counts[each].items()} for each in _COUNTS)
            )
            for name, counts in mark["models"].items()
        ]
        return MadeBy([(made, number) for made, number in mark["provenances"]], models)
    except (LookupError, TypeError, ValueError, AttributeError):
        run = f"parley summarize {paths.study_command(study.file)}"
        raise RecordError(f"{study.name}: its tables do not say what their records were made by; run: {run}") from None


_TOKENS = ("prompt_tokens", "completion_tokens", "cached_tokens")
SAME, ALIKE, PER_AGENT, SCRIPTED, UNKNOWN = (
    "this condition",
    "conditions of this model and n",
    "conditions of this model, by agent",
    "no model is asked",
    "unknown",
)


@dataclass(frozen=True)
class Cost:
    """What some simulations take; NaN is unknown. `hours` are an engine's as if one server answered all."""

    prompt: float = 0.0
    completion: float = 0.0
    hours: float = 0.0
    gpu_hours: float = 0.0
    money: float = 0.0

    @property
    def tokens(self) -> float:
        """Tokens of prompts and replies."""
        return self.prompt + self.completion

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __mul__(self, times: float) -> "Cost":
        return Cost(*(times * part for part in astuple(self)))


_NOTHING_KNOWN = Cost(*[math.nan] * 5)


def played(study: Study) -> list[tuple[Simulation, Summary]]:
    """Return the simulations of a study that have a record that can be read, with what it says."""
    found = []
    for simulation in study.simulations():
        try:
            found.append((simulation, read_own(simulation.record(study.name), simulation)))
        except RecordError:
            continue
    return found


class Costs:
    """Tells what a simulation of a condition takes, by the records that come nearest to it."""

    def __init__(self, records: Sequence[tuple[Simulation, Summary]]) -> None:
        self._known: dict[tuple[str, Any], list[tuple[int, Summary]]] = defaultdict(list)
        engines: dict[str, list[Summary]] = defaultdict(list)
        for simulation, summary in records:
            condition = simulation.condition
            if not condition.models:
                continue
            for each in _nearest_first(condition):
                self._known[each].append((_agents(condition), summary))
            if not any("batches" in each for each in summary.provenance.get("engines", {}).values()):
                engines[condition.engine].append(summary)  # else it waited for batches
        self._pace = {engine: _seconds_per_token(summaries) for engine, summaries in engines.items()}
        self._on_gpus = {engine: _on_gpus(summaries) for engine, summaries in engines.items()}

    def of(self, condition: Condition) -> tuple[Cost, str]:
        """Return what one simulation of a condition takes, and from what that is known."""
        if not condition.models:
            return Cost(), SCRIPTED
        agents = _agents(condition)
        for each in _nearest_first(condition):
            if each in self._known:
                tokens = _mean_tokens((summary, agents / n) for n, summary in self._known[each])
                return self._cost(condition, tokens), each[0]
        return _NOTHING_KNOWN, UNKNOWN

    def _cost(self, condition: Condition, tokens: Tokens) -> Cost:
        entries = list(condition.entries.values())
        own = [entry for entry in entries if not entry.is_service]
        hours = self._pace.get(condition.engine, math.nan) * tokens.total / 3600 if own else 0.0
        gpus = sum(entry.gpus_served for entry in own) if self._on_gpus.get(condition.engine) else 0
        return Cost(
            tokens.prompt, tokens.completion, hours, gpus * hours if gpus else 0.0, money_of(condition, tokens)
        )


def money_of(condition: Condition, tokens: Tokens) -> float:
    """Return what tokens of a condition cost; NaN where nobody knows."""
    prices = {entry.run_price for entry in condition.entries.values()}
    price = prices.pop() if len(prices) == 1 else None  # records do not say what each of several models used
    return price.of(tokens) if price is not None else math.nan


def _nearest_first(condition: Condition) -> list[tuple[str, Any]]:
    """Return what records may have in common with a condition, and what that is of it."""
    axes = condition.axes
    return [(SAME, tuple(axes.items())), (ALIKE, (axes["model"], _agents(condition))), (PER_AGENT, axes["model"])]


def _agents(condition: Condition) -> int:
    return sum(group.count for group in condition.playing)


def _mean_tokens(summaries: Iterable[tuple[Summary, float]]) -> Tokens:
    rows = [[times * float(summary.telemetry[name] or 0) for name in _TOKENS] for summary, times in summaries]
    return Tokens(*(round(sum(column) / len(rows)) for column in zip(*rows, strict=True)))


def _seconds_per_token(summaries: Sequence[Summary]) -> float:
    """Return how long an engine took for a token: the time in which any simulation was played, without the pauses."""
    spans = sorted(span for summary in summaries if (span := _span(summary.provenance)) is not None)
    tokens = sum(sum(int(summary.telemetry[name] or 0) for name in _TOKENS[:2]) for summary in summaries)
    seconds, end = 0.0, -math.inf
    for start, stop in spans:
        seconds += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return seconds / tokens if tokens and len(spans) == len(summaries) else math.nan


def _span(made: Mapping[str, Any]) -> tuple[float, float] | None:
    try:
        start, stop = (datetime.fromisoformat(made[name]).timestamp() for name in ("started", "ended"))
    except (LookupError, TypeError, ValueError):
        return None
    return start, stop


def _on_gpus(summaries: Sequence[Summary]) -> bool:
    engines = [engine for summary in summaries for engine in summary.provenance.get("engines", {}).values()]
    devices = [str(engine.get("device", "")) for engine in engines]
    return any(device and not device.startswith("CPU") for device in devices)
