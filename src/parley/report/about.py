"""What a study is and what made its results: facts, parameters, models, provenance, as names and values."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from parley.analysis.made_by import MadeBy
from parley.analysis.simulations import engine_label
from parley.analysis.stats import CONFIDENCE
from parley.engine.models import ModelEntry
from parley.play.record import provenance_warnings
from parley.study import Study
from parley.study.condition import axes_text
from parley.study.growing import GrowingSeeds
from parley.text import counted


def facts(study: Study, conditions: pd.DataFrame, left_out: Mapping[Path, str]) -> list[tuple[str, str]]:
    """Return what the study is, as names and values."""
    first = study.first_repeat.conditions
    seeds = Counter(_seeds_text(condition.seeds) for condition in first)
    repeats = len(study.conditions) // len(first)
    again = f"; each played {repeats} times: tables and figures show the first, “Noise” compares them"
    players = dict.fromkeys(
        ", ".join(f"{group.role}: {group.player.label}" for group in condition.groups)
        for condition in study.conditions
    )
    return [
        ("Study", study.name),
        ("Study file", study.file.name),  # its folder is this machine's matter
        ("Game", f"{study.game.name}, protocol version {study.game.protocol_version}"),
        ("Conditions", str(len(conditions))),
        ("Simulations", str(int(conditions["simulations"].sum()))),
        *([("Records left out", str(len(left_out)))] if left_out else []),
        (
            "Seeds",
            "; ".join(f"{text} ({counted(number, 'condition')})" for text, number in seeds.items())
            + (again if repeats > 1 else ""),
        ),
        *(("Seeds grew", text) for text in dict.fromkeys(_growth(c.growing) for c in first if c.growing)),
        ("Played by", "; ".join(players)),
        ("Plan", study.plan),
    ]


def _growth(growing: GrowingSeeds) -> str:
    until = growing.until
    return (
        f"from {growing.start} by {growing.by} to at most {growing.to}, until the {CONFIDENCE:.0%} Wilson interval of "
        f"{until.outcome} was at most {until.width:g} wide. “At any time”: limits that hold for any such rule"
    )


def _seeds_text(seeds: Sequence[int]) -> str:
    if isinstance(seeds, range):
        return f"0 to {len(seeds) - 1}"
    shown = ", ".join(map(str, seeds[:20]))
    return shown if len(seeds) <= 20 else f"{shown}, ... ({len(seeds)} in all)"


def parameters(study: Study, by: Sequence[str]) -> list[tuple[str, str]]:
    """Return the game's parameters; one that is an axis says so instead of a value."""
    of_first = study.conditions[0].parameters
    values = {**of_first.model_dump(mode="json"), "reply_format": of_first.reply_format}  # identities leave out json
    return [(name, "an axis" if name in by else _text(value)) for name, value in values.items()]


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_text(item)}" for key, item in value.items())
    return value if isinstance(value, str) else json.dumps(value)


def models_used(study: Study, more: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the entries of the models that the study uses, and `more` that is known of them."""
    used = sorted({name for condition in study.conditions for name in condition.models})
    return [(name, model_text(study.models[name]) + more.get(name, "")) for name in used]


def model_text(entry: ModelEntry) -> str:
    """Return what names a model to others: its source, revision and settings, but no path."""
    identity = entry.identity()
    source = identity.pop("source")
    return _text({**source, **{key: value for key, value in identity.items() if value != {}}})


def mixed_engines(
    conditions: pd.DataFrame, simulations: pd.DataFrame, by: Sequence[str]
) -> list[tuple[str, list[str]]]:
    """Return the conditions whose simulations were answered by more than one engine, with how many by each."""
    found = []
    for _, row in conditions[conditions["engines"] > 1].iterrows():
        mine = simulations[(simulations[list(by)] == row[list(by)]).all(axis=1)]
        counts = Counter(mine["engine"])
        engines = [f"{engine} ({count} simulations)" for engine, count in sorted(counts.items())]
        found.append((axes_text({axis: row[axis] for axis in by}), engines))
    return found


def provenance(made_by: MadeBy) -> list[tuple[str, list[str]]]:
    """Return each kind of provenance with its values and the number of simulations behind each."""
    kinds: dict[str, Counter[str]] = {
        name: Counter() for name in ("Parley", "Git commit", "Python", "Machine", "Engine", "Packages")
    }
    for made, number in made_by.provenances:
        kinds["Parley"][str(made.get("parley", "unknown"))] += number
        git = made.get("git") or {"commit": "unknown (not run from a repository)"}
        commit = f"{git.get('commit', 'unknown')}{' with uncommitted changes' if git.get('dirty') else ''}"
        kinds["Git commit"][commit] += number
        kinds["Python"][str(made.get("python", "unknown"))] += number
        kinds["Machine"][str(made.get("machine", "unknown"))] += number
        kinds["Engine"][engine_label(made)] += number
        kinds["Packages"][_text(made.get("packages", {}))] += number
    return [
        (kind, [f"{value} ({count} simulations)" for value, count in sorted(counts.items())])
        for kind, counts in kinds.items()
    ]


def engine_warnings(made_by: MadeBy) -> list[str]:
    """Return each warning of the engines that answered, with the number of simulations behind it."""
    counts: Counter[str] = Counter()
    for made, number in made_by.provenances:
        counts.update(dict.fromkeys(provenance_warnings(made), number))
    return [f"{text} ({count} simulations)" for text, count in sorted(counts.items())]
