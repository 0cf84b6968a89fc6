"""What made the records of a study, and what that took: tokens, hours of engines and GPUs, money.

Machines, engines and versions made them, and models, by their own word. What was not measured is unknown.

`summarize` keeps it with the tables, so that a report of 100,000 simulations need not open each of their records.
"""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from datetime import datetime
from typing import Any

import pandas as pd

from parley import paths
from parley.engine.models import compare_names
from parley.errors import ParleyError, RecordError
from parley.play.record import Summary
from parley.play.record_store import UsableRecords, mark_of_tables, read_own
from parley.policies import BYTES_PER_TOKEN, Tokens
from parley.policies.kinds import PolicyKind
from parley.study import Study, prompt_sent
from parley.study.condition import Condition, Simulation, axes_text
from parley.text import counted

MAX_LINES = 40
_SHOWN = 3
_ANSWERED = ["model", "condition", "answered", "fingerprint", "replies"]
_TIMES = ("started", "ended")  # of one simulation, not of what made it


@dataclass(frozen=True)
class MadeBy:
    """What made some records, without their times, and what answered in them by its own word."""

    provenances: Sequence[tuple[Mapping[str, Any], int]]  # each once, with the number of its records
    # Columns _ANSWERED; None is a name that nobody said.
    answered: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=_ANSWERED))

    @property
    def as_json(self) -> dict[str, Any]:
        """All of it, as `read_made_by` reads it."""
        return {"provenances": self.provenances, "answered": self.answered.to_numpy(dtype=object).tolist()}


def made_by(records: UsableRecords) -> MadeBy:
    """Return what made the records of a study that can be used."""
    found: dict[str, tuple[Mapping[str, Any], int]] = {}
    replies: Counter[tuple[Any, ...]] = Counter()
    for simulation, summary in zip(records.simulations, records.summaries, strict=True):
        made = {key: value for key, value in summary.provenance.items() if key not in _TIMES}
        key = json.dumps(made, sort_keys=True)
        found[key] = (made, found.get(key, (made, 0))[1] + 1)
        condition = simulation.condition
        for name, rows in summary.telemetry.get("answered", {}).items():
            for served, fingerprint, number in rows if name in condition.entries else ():
                replies[name, axes_text(condition.axes), served, fingerprint] += number
    answered = pd.DataFrame([(*key, number) for key, number in replies.items()], columns=_ANSWERED, dtype=object)
    return MadeBy(list(found.values()), answered)


def read_made_by(study: Study) -> MadeBy:
    """Return what made the records that the tables of a study are of; raises RecordError if they do not say."""
    try:
        mark = mark_of_tables(study)["made_by"]
        answered = pd.DataFrame(mark["answered"], columns=_ANSWERED, dtype=object)
        return MadeBy([(made, number) for made, number in mark["provenances"]], answered)
    except (LookupError, TypeError, ValueError):
        run = f"parley summarize {paths.study_command(study.file)}"
        raise RecordError(f"{study.name}: its tables do not say what their records were made by; run: {run}") from None


def answered_warnings(study: Study, answered: pd.DataFrame) -> list[str]:
    """Return what readers should be warned of, at most MAX_LINES lines and one that counts the rest.

    That is each other model than was asked for, each condition with more than one, and changed fingerprints.
    """
    lines: list[str] = []
    for name, asked, rows, replies in _by_model(study, answered):
        by_condition = {str(condition): found for condition, found in rows.groupby("condition", sort=False)}
        for served, number in replies.items():
            if compare_names(asked, served) == "other":
                where = rows.loc[rows["answered"] == served, "condition"].nunique()
                said = f"{number:,} replies, in {where} of {counted(len(by_condition), 'condition')}"
                lines.append(f"{name}: asked for {asked}, answered as {served} ({said})")
        for condition, found in by_condition.items():
            if found["answered"].nunique() > 1:
                lines.append(f"{name}: more than one model in {condition}: {_listed(_replies(found, 'answered'))}")
        changed = [found for found in by_condition.values() if found["fingerprint"].nunique() > 1]
        if changed and study.models[name].is_service:
            prints = _listed(_replies(pd.concat(changed), "fingerprint"))
            lines.append(
                f"{name}: more than one system_fingerprint in {len(changed)} of {len(by_condition)} conditions, which "
                f"means that the service changed how it runs the model: {prints}"
            )
    more = [f"and {len(lines) - MAX_LINES} more"] if len(lines) > MAX_LINES else []
    return lines[:MAX_LINES] + more


def answered_as(study: Study, answered: pd.DataFrame) -> dict[str, str]:
    """Return for each model what its name turned out to stand for; nothing where the very name answered."""
    return {
        name: f"; answered as {_listed(replies)}"
        for name, asked, _, replies in _by_model(study, answered)
        if any(compare_names(asked, served) != "same" for served in replies)
    }


def _by_model(study: Study, answered: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame, dict[str, int]]]:
    """Yield the name of each model, the name that it was asked for by, its rows, and its replies by what answered."""
    for name, rows in answered.groupby("model"):
        yield str(name), study.models[str(name)].served or str(name), rows, _replies(rows, "answered")


def _replies(rows: pd.DataFrame, name: str) -> dict[str, int]:
    """Return the numbers of replies by a name that they have, the most first."""
    numbers = rows.groupby(name, sort=False)["replies"].sum().sort_values(ascending=False, kind="stable")
    return {str(said): int(number) for said, number in numbers.items()}


def _listed(found: Mapping[str, int]) -> str:
    shown = [f"{name} ({number:,} replies)" for name, number in list(found.items())[:_SHOWN]]
    return ", ".join(shown) + (f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")


_TOKENS = ("prompt_tokens", "completion_tokens", "cached_tokens")
_LENGTH = 0.25  # of the longest replies, where there is no record: those of small models had 0.1 to 0.35 (findings/)
_TEMPLATE = 20  # tokens that a chat template adds to a prompt, about
SAME, ALIKE, PER_AGENT, SCRIPTED, ESTIMATED, UNKNOWN = (
    "this condition",
    "conditions of this model and n",
    "conditions of this model, by agent",
    "no model is asked",
    "no record",
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
    records = []
    for simulation in study.simulations():
        try:
            records.append((simulation, read_own(simulation.record(study.name), simulation)))
        except RecordError:
            continue
    return records


class Costs:
    """Tells what a simulation of a condition takes, by the records that come nearest to it."""

    def __init__(self, records: Sequence[tuple[Simulation, Summary]]) -> None:
        self._known: dict[tuple[str, Any], list[tuple[int, Summary]]] = defaultdict(list)
        engines: dict[tuple[str, ...], list[Summary]] = defaultdict(list)
        for simulation, summary in records:
            condition = simulation.condition
            if not condition.models:
                continue
            for each in _nearest_first(condition):
                self._known[each].append((_agents(condition), summary))
            engines[condition.models].append(summary)
        self._pace = {models: _seconds_per_token(summaries) for models, summaries in engines.items()}
        self._on_gpus = {models: _on_gpus(summaries) for models, summaries in engines.items()}
        self._kinds: list[PolicyKind] = []
        self._estimates: dict[tuple[str, bool], Cost] = {}

    def of(self, condition: Condition) -> tuple[Cost, str]:
        """Return what one simulation of a condition takes, by records or estimated, and from what that is known."""
        if not condition.models:
            return Cost(), SCRIPTED
        agents = _agents(condition)
        for each in _nearest_first(condition):
            if each in self._known:
                tokens = _mean_tokens((summary, agents / n) for n, summary in self._known[each])
                return self._cost(condition, tokens), each[0]
        estimate = self.estimate(condition, at_most=False)
        return estimate, UNKNOWN if math.isnan(estimate.prompt) else ESTIMATED

    def estimate(self, condition: Condition, at_most: bool) -> Cost:
        """Return what one simulation takes that lasts as long as it may: with replies of a usual length, or at most.

        Its hours are unknown; so is all of it for forks, and where what it would talk about is not on this machine.
        """
        key = (condition.identity, at_most)
        if key not in self._estimates:
            self._estimates[key] = _NOTHING_KNOWN
            if condition.fork is None:
                with suppress(ParleyError):
                    self._estimates[key] = self._estimated(Simulation(condition, condition.seeds[0]), at_most)
        return self._estimates[key]

    def _estimated(self, simulation: Simulation, at_most: bool) -> Cost:
        self._kinds = self._kinds or prompt_sent.lasting(simulation)
        length, per_token = (1.0, BYTES_PER_TOKEN - 1) if at_most else (_LENGTH, BYTES_PER_TOKEN)
        times = 1 + simulation.condition.parameters.retries * at_most
        used: dict[str, Tokens] = defaultdict(Tokens)
        for ask in prompt_sent.asked(simulation.game(), simulation.seed, kinds=self._kinds, length=length):
            player = simulation.players[ask.agent]
            if player.model and player.entry:
                sent = sum(len(message["content"].encode()) for message in ask.messages) // per_token + _TEMPLATE
                longest = player.entry.dialect.longest(ask.sampling) + player.entry.reasoning_tokens
                used[player.model] += Tokens(times * sent, times * round(length * longest))
        entries = simulation.condition.entries
        money = [entry.price.most(used[name]) if entry.price else math.nan for name, entry in entries.items()]
        total = sum(used.values(), Tokens())
        hours = 0.0 if all(entry.is_service for entry in entries.values()) else math.nan
        return Cost(total.prompt, total.completion, hours, hours, sum(money))

    def _cost(self, condition: Condition, tokens: Tokens) -> Cost:
        entries = list(condition.entries.values())
        own = [entry for entry in entries if not entry.is_service]
        hours = self._pace.get(condition.models, math.nan) * tokens.total / 3600 if own else 0.0
        gpus = sum(entry.gpus_served for entry in own) if self._on_gpus.get(condition.models) else 0
        return Cost(tokens.prompt, tokens.completion, hours, gpus * hours if gpus else 0.0, condition.money(tokens))


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
