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

from parley import paths
from parley.engine.models import compare_names
from parley.errors import ParleyError, RecordError
from parley.play.record import Summary
from parley.play.record_store import UsableRecords, mark_of_tables, read_own
from parley.policies import BYTES_PER_TOKEN, Tokens
from parley.policies.kinds import PolicyKind
from parley.study import Study, prompt_sent
from parley.study.condition import Condition, Simulation

_SHOWN = 3  # names that answered
_TIMES = ("started", "ended")  # of one simulation, not of what made it
Answered = Mapping[str, Mapping[str, int]]  # by model, the replies of each that answered, by its own word


@dataclass(frozen=True)
class MadeBy:
    """What made some records, without their times, and what answered in them."""

    provenances: Sequence[tuple[Mapping[str, Any], int]]  # each once, with the number of its records
    answered: Answered = field(default_factory=dict)


def made_by(records: UsableRecords) -> MadeBy:
    """Return what made the records of a study that can be used."""
    found: Counter[str] = Counter()
    answered: dict[str, dict[str, int]] = {}
    for simulation, summary in zip(records.simulations, records.summaries, strict=True):
        made = {key: value for key, value in summary.provenance.items() if key not in _TIMES}
        found[json.dumps(made)] += 1
        for name, rows in summary.telemetry.get("answered", {}).items():
            for served, _, number in rows if name in simulation.condition.entries else ():
                if served is not None:
                    replies = answered.setdefault(name, {})
                    replies[served] = replies.get(served, 0) + number
    return MadeBy([(json.loads(made), number) for made, number in found.items()], answered)


def read_made_by(study: Study) -> MadeBy:
    """Return what made the records that the tables of a study are of; raises RecordError if they do not say."""
    try:
        mark = mark_of_tables(study)["made_by"]
        answered = {name: {str(one): int(n) for one, n in of.items()} for name, of in mark["answered"].items()}
        return MadeBy([(made, number) for made, number in mark["provenances"]], answered)
    except (LookupError, TypeError, ValueError, AttributeError):
        run = f"parley summarize {paths.study_command(study.file)}"
        raise RecordError(f"{study.name}: its tables do not say what their records were made by; run: {run}") from None


def answered_warnings(study: Study, answered: Answered) -> Iterator[str]:
    """Yield a line for each model in whose place another one answered, or more than one did."""
    for name, replies in sorted(answered.items()):
        asked = study.models[name].served or name
        others = {served: number for served, number in replies.items() if compare_names(asked, served) == "other"}
        if others:
            yield f"{name}: asked for {asked}, answered as {_listed(others)}"
        elif len(replies) > 1:
            yield f"{name}: more than one model: {_listed(replies)}"


def answered_as(study: Study, answered: Answered) -> dict[str, str]:
    """Return for each model what its name turned out to stand for; nothing where the very name answered."""
    return {
        name: f"; answered as {_listed(replies)}"
        for name, replies in answered.items()
        if any(compare_names(study.models[name].served or name, served) != "same" for served in replies)
    }


def _listed(replies: Mapping[str, int]) -> str:
    shown = [f"{name} ({number:,} replies)" for name, number in Counter(replies).most_common(_SHOWN)]
    return ", ".join(shown) + (f" and {len(replies) - _SHOWN} more" if len(replies) > _SHOWN else "")


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
    rows = [[times * float(summary.telemetry[name]) for name in _TOKENS] for summary, times in summaries]
    return Tokens(*(round(sum(column) / len(rows)) for column in zip(*rows, strict=True)))


def _seconds_per_token(summaries: Sequence[Summary]) -> float:
    """Return how long an engine took for a token: the time in which any simulation was played, without the pauses."""
    made = [summary.provenance for summary in summaries]
    try:
        spans = sorted([datetime.fromisoformat(each[end]).timestamp() for end in _TIMES] for each in made)
    except (LookupError, ValueError):  # nobody knows when one of them was played
        return math.nan
    tokens = sum(summary.telemetry[name] for summary in summaries for name in _TOKENS[:2])
    seconds, end = 0.0, -math.inf
    for start, stop in spans:
        seconds += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return seconds / tokens if tokens else math.nan


def _on_gpus(summaries: Sequence[Summary]) -> bool:
    engines = [engine for summary in summaries for engine in summary.provenance.get("engines", {}).values()]
    devices = [str(engine.get("device", "")) for engine in engines]
    return any(device and not device.startswith("CPU") for device in devices)
