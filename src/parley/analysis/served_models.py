"""Which models answered, by their own word, compared with what was asked for."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from parley.engine.models import ModelEntry, compare_names
from parley.play.record import Summary
from parley.study.axes import axes_text
from parley.study.condition import Simulation

MAX_LINES = 40
_SHOWN = 3


class Answered:
    """What answered for one model of a study, over all its records."""

    def __init__(self, name: str, entry: ModelEntry) -> None:
        self.name = name
        self.asked = entry.served or name
        self.is_service = entry.is_service
        self.models: dict[str, Counter[str]] = {}  # by condition: names with their numbers of replies
        self.fingerprints: dict[str, Counter[str]] = {}

    def add(self, condition: str, rows: Sequence[Sequence[Any]]) -> None:
        """Count what the record of one simulation says."""
        models = self.models.setdefault(condition, Counter())
        fingerprints = self.fingerprints.setdefault(condition, Counter())
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
        if changed and self.is_service:
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
