"""What made the records of a study: machines, engines, versions, and which models answered, by their own word.

`summarize` keeps it with the tables, so that a report of 100,000 simulations need not open each of their records.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from parley import paths
from parley.engine.models import ModelEntry, compare_names
from parley.errors import RecordError
from parley.play.record import Summary
from parley.play.record_store import Records, mark_of_tables
from parley.study import Study
from parley.study.condition import Simulation, axes_text

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
