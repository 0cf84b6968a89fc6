"""The `report` stage: one self-contained HTML page with the tables, figures and provenance of a study.

The page needs nothing but itself: figures are data URIs in <img>, where nothing in an SVG is executed, and there are
no scripts. Every text goes through `one_line` and autoescape. The same records give the same bytes.
"""

import base64
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from markupsafe import Markup

from parley import __version__, paths
from parley.analysis import tables
from parley.analysis.answered import answered, answered_as, answered_warnings
from parley.analysis.conditions import outcomes_of
from parley.analysis.degenerate_rates import degenerate_rows, degenerate_warnings
from parley.analysis.precision import anytime_interval
from parley.analysis.simulations import engine_label
from parley.analysis.stats import CONFIDENCE
from parley.calibration.results import HEADER, calibration_tables
from parley.engine.models import ModelEntry
from parley.errors import RecordError
from parley.files import write_atomically
from parley.games.evidence import OutcomeClass
from parley.play.provenance import warnings
from parley.play.record import Summary
from parley.play.usable import Records, read_records
from parley.policies import FAILURE_CLASSES
from parley.report.endings import quality_rows, time_rows
from parley.report.evidence import contrast_rows, noise_rows, quantity_rows, question_rows, rate_rows
from parley.report.margins import effect_rows, margin_rows
from parley.report.reactions import behavior_rows, reaction_rows
from parley.study import Study
from parley.study.axes import axes_text
from parley.study.frozen import frozen_state
from parley.study.growing import GrowingSeeds
from parley.text import counted, one_line


def report(study: Study) -> Path:
    """Write the report of `study` and return its path.

    Raises RecordError if a table, a figure or a record is missing, or the disk refuses.
    """
    conditions = tables.read_table(study.name, "conditions")
    simulations = tables.read_table(study.name, "simulations")
    records = read_records(study)
    models = answered(records.simulations, records.summaries)
    by, outcomes = study.axes, outcomes_of(conditions, study.game)
    effects = tables.read_table(study.name, "effects")
    page = (
        _environment()
        .get_template("report.html")
        .render(
            title=study.title,
            facts=_facts(study, conditions, records),
            parameters=parameters(study, by),
            models=_models(study, answered_as(models)),
            answered_warnings=answered_warnings(models),
            calibration_header=HEADER,
            calibrations=calibration_tables(study),
            notes=study.notes(),
            mixed=mixed_engines(conditions, simulations, by),
            axes=by,
            outcomes=outcomes,
            confidence=f"{CONFIDENCE:.0%}",
            conditions=[
                condition_row(row, by, outcomes, bool(condition.growing))
                for condition, (_, row) in zip(
                    records.first_repeat.study.conditions, conditions.iterrows(), strict=True
                )
            ],
            repeated=len(study.first_repeat.conditions) < len(study.conditions),
            noise=noise_rows(tables.read_table(study.name, "noise"), by, study.game),
            degenerate=degenerate_rows(conditions, by),
            degenerate_warnings=degenerate_warnings(conditions, by),
            endings=endings(simulations, by),
            rates=rate_rows(tables.read_table(study.name, "rates"), by, study.game),
            quantities=quantity_rows(tables.read_table(study.name, "quantities"), by, study.game),
            frozen=frozen_state(study),
            questions=question_rows(study, tables.read_table(study.name, "questions")),
            contrasts=contrast_rows(tables.read_table(study.name, "contrasts"), by, study.game),
            times=time_rows(tables.read_table(study.name, "times"), by, study.game),
            quality=quality_rows(tables.read_table(study.name, "quality"), by),
            reactions=reaction_rows(tables.read_table(study.name, "reactions"), by, study.game),
            behaviors=behavior_rows(tables.read_table(study.name, "behaviors"), by, study.game),
            margins=margin_rows(tables.read_table(study.name, "margins"), effects, study.game),
            effects=effect_rows(effects, study.game),
            figures=list(_figures(study)),
            provenance=_provenance(records.summaries),
            warnings=_warnings(records.summaries),
            left_out=list(records.left_out.values()),
            version=__version__,
        )
    )
    path = paths.report(study.name)
    write_atomically(path, lambda file: file.write(page.encode()))
    return path


def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("parley.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _printable(value: Any) -> Any:
    """Take the control and format characters out of whatever the template prints; markup is the template's own."""
    return one_line(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _facts(study: Study, conditions: pd.DataFrame, records: Records) -> list[tuple[str, str]]:
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
        *([("Records left out", str(len(records.left_out)))] if records.left_out else []),
        *([("Records without a checksum, of an older version", str(records.unchecked))] if records.unchecked else []),
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


def _models(study: Study, more: Mapping[str, str]) -> list[tuple[str, str]]:
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


def condition_row(row: Any, by: Sequence[str], outcomes: Sequence[OutcomeClass], grew: bool = False) -> dict[str, Any]:
    """Return the cells of one condition, as text; of `outcomes`, which it may not all be able to have.

    Where its seeds `grew`, also the limits that hold whenever one stops.
    """
    rates = []
    for outcome in outcomes:
        count, rate, low, high = (row[f"{outcome.name}_{part}"] for part in ("count", "rate", "low", "high"))
        if pd.isna(rate):
            rates.append({"rate": "-", "count": "cannot be"})
            continue
        told = f"{count} of {row['simulations']}"
        if grew:
            any_low, any_high = anytime_interval(int(count), int(row["simulations"]))
            told += f"; at any time [{any_low:.0%}, {any_high:.0%}]"
        rates.append({"rate": f"{rate:.0%} [{low:.0%}, {high:.0%}]", "count": told})
    median, failed = row["median_rounds"], row["failed_reply_rate"]
    return {
        "axes": [row[axis] for axis in by],
        "threat_model": row["threat_model"],
        "simulations": row["simulations"],
        "outcomes": rates,
        "median_rounds": "-" if pd.isna(median) else f"{median:g}",
        "failed": "-" if pd.isna(failed) else f"{row['failed_replies']} ({failed:.1%})",
        "failures": [(name, row[name]) for name in FAILURE_CLASSES if row[name]],
    }


def endings(simulations: pd.DataFrame, by: Sequence[str]) -> dict[str, Any]:
    """Count, per condition and in all, each diagnosis and each detail that occurs."""
    kinds = [
        (kind, value) for kind in ("diagnosis", "detail") for value in sorted(simulations[kind].dropna().unique())
    ]
    rows = []
    for key, group in simulations.groupby(list(by), sort=False):
        rows.append((list(key), len(group), [int((group[kind] == value).sum()) for kind, value in kinds]))
    total = [int((simulations[kind] == value).sum()) for kind, value in kinds]
    return {"kinds": kinds, "rows": rows, "total": total, "simulations": len(simulations)}


def _figures(study: Study) -> Iterator[dict[str, Any]]:
    for spec in study.figures:
        path = paths.figure(study.name, spec.name, ".svg")
        try:
            svg = path.read_bytes()
        except FileNotFoundError:
            raise RecordError(f"{path}: no such figure; run: parley figures") from None
        uri = Markup("data:image/svg+xml;base64," + base64.b64encode(svg).decode("ascii"))
        yield {"title": spec.title, "caption": spec.caption, "uri": uri}


def _provenance(summaries: Sequence[Summary]) -> list[tuple[str, list[str]]]:
    """Return each kind of provenance with its values and the number of simulations behind each."""
    kinds: dict[str, Counter[str]] = {
        name: Counter() for name in ("Parley", "Git commit", "Python", "Machine", "Engine", "Packages")
    }
    for summary in summaries:
        made = summary.provenance
        kinds["Parley"][str(made.get("parley", "unknown"))] += 1
        kinds["Git commit"][_commit(made.get("git"))] += 1
        kinds["Python"][str(made.get("python", "unknown"))] += 1
        kinds["Machine"][str(made.get("machine", "unknown"))] += 1
        kinds["Engine"][engine_label(made)] += 1
        kinds["Packages"][_text(made.get("packages", {}))] += 1
    return [
        (kind, [f"{value} ({count} simulations)" for value, count in sorted(counts.items())])
        for kind, counts in kinds.items()
    ]


def _warnings(summaries: Sequence[Summary]) -> list[str]:
    """Return each warning of the engines that answered, with the number of simulations behind it."""
    counts = Counter(text for summary in summaries for text in warnings(summary.provenance))
    return [f"{text} ({count} simulations)" for text, count in sorted(counts.items())]


def _commit(git: Mapping[str, Any] | None) -> str:
    if not git:
        return "unknown (not run from a repository)"
    return f"{git.get('commit', 'unknown')}{' with uncommitted changes' if git.get('dirty') else ''}"
