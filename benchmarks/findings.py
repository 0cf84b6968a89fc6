"""Findings of our own: `make findings` makes docs/findings.md, its figures and tables from the records in findings/.

No model is asked. Records that were played since (in results/) are taken into findings/ first, and those in findings/
put where Snakemake finds them, so that a study can be played on. Each record is replayed.
"""

import shutil
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import parley
from benchmarks.findings_text import ASKED, EXPLORED, INTRODUCTION, LIMITS, STUDIES, Asked
from parley import paths
from parley.analysis.noise import band
from parley.analysis.stats import holm, mcnemar, paired_difference
from parley.api import Results
from parley.errors import RecordError
from parley.figures.page import write
from parley.figures.style import own_style
from parley.play.simulate import simulate_shard
from parley.study import Study, load_study
from parley.study.condition import SCRIPTED
from parley.text import counted

HOME = Path("findings")  # a root: it holds results/, as a working directory does
PAGE = Path("docs/findings.md")
IMAGES = Path("docs/images")
TABLES = HOME / "tables"
READ = HOME / "read.md"  # what somebody wrote who read games from start to end
FEWEST_PAIRS = 10  # with fewer the paired test rejects too often (docs/explanation/statistics.md)
_NAN = float("nan")


@dataclass(frozen=True)
class Answer:
    """What the pairs of simulations say to one question; the same of scripted players (control) beside it."""

    question: str
    pairs: int
    value_from: float
    value_to: float
    difference: float
    low: float
    high: float
    p: float
    p_holm: float
    smallest: float
    noise: float  # half width of the band in which so many pairs lie if only sampling differs
    control: float
    control_low: float
    control_high: float

    @property
    def said(self) -> str:
        """The answer in words."""
        if not self.pairs:
            return "No pairs yet"
        if self.pairs < FEWEST_PAIRS:
            return "Too few pairs yet"
        if self.p_holm < 0.05:
            return "More" if self.difference > 0 else "Less"
        return "No difference that matters" if -self.smallest < self.low and self.high < self.smallest else "Open"


_COMPARED = [field.name for field in fields(Answer)[1:10]]
_OF_CONTROL = {"": "difference", "_low": "low", "_high": "high"}


def main() -> None:
    """Sync the records, replay them, and write the page with its figures and tables."""
    parts = [INTRODUCTION]
    for name, (title, _) in STUDIES.items():
        study = _study(name)
        for kind in ("", "-noise"):
            sync(_study(name + kind))
        simulate_shard(_study(f"{name}-control"), SCRIPTED, 0)
        parts += [f"## {title}", *_section(name, study)]
    if READ.exists():
        parts.append(READ.read_text(encoding="utf-8").rstrip())
    parts.append(LIMITS)
    PAGE.write_text("\n\n".join(map(_wrapped, parts)) + "\n", encoding="utf-8")
    print(PAGE)


def _wrapped(text: str) -> str:
    """Return a paragraph, or each item of a list, in lines of 120 characters; tables and figures as they are."""
    fill = partial(textwrap.fill, width=120, break_long_words=False, break_on_hyphens=False)
    kept = ("#", "!", "|")
    return "\n".join(
        line if line.startswith(kept) else fill(line, subsequent_indent="  " * line.startswith("- "))
        for line in text.split("\n")
    )


def _file(name: str) -> Path:
    return Path(f"config/findings/findings-{name}.yaml").absolute()


def _study(name: str) -> Study:
    return load_study(_file(name), needs_weights=False)


def sync(study: Study) -> None:
    """Copy records that one of findings/ and results/ has to the other.

    The first repeat of a seed is the simulation of the study without repeats, so it is copied from there.
    """
    for simulation in study.simulations():
        here = simulation.record(study.name)
        places = [here, HOME / here]
        if simulation.condition.repeat == 0:
            once = replace(simulation, condition=replace(simulation.condition, repeat=None))
            unrepeated = once.record(study.name.removesuffix("-noise"))
            places += [unrepeated, HOME / unrepeated]
        source = next((place for place in places if place.exists()), None)
        for place in places[:2]:
            if source is not None and not place.exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, place)


def results(name: str) -> Results | None:
    """Return the results in findings/ of a study, None if nothing of it was played; each record is replayed."""
    try:
        # Those of scripted players are made anew.
        root = Path() if name.endswith("-control") else HOME
        found = parley.load(_file(name), root, "config/models.yaml").results()
    except RecordError:
        return None
    for record in found.records:
        if not record.replay().identical:
            raise RecordError(f"{record.path}: replaying it gives something else")
    return found


def answers(name: str) -> list[Answer]:
    """Return the answers to the questions of a study, in their order, as far as it was played."""
    played, noise, control = (results(name + kind) for kind in ("", "-noise", "-control"))
    theirs = _differences(name, control)
    again = pd.DataFrame(columns=["what", "spread"]) if noise is None else noise.table("noise")
    spreads = dict(zip(again["what"], again["spread"], strict=True))
    made = []
    for asked, row in _differences(name, played).items():
        of_control = theirs.get(asked, {})
        told: dict[str, Any] = {key: row[key] for key in _COMPARED}
        told["noise"] = band(spreads.get(ASKED[name][asked].noise, _NAN), max(row["pairs"], 1))
        told |= {f"control{end}": of_control.get(key, _NAN) for end, key in _OF_CONTROL.items()}
        made.append(Answer(asked, **told))
    return made


def _differences(name: str, played: Results | None) -> dict[str, dict[str, Any]]:
    """Return for each question its row: those of the study file, then those that only the frozen plan has."""
    if played is None:
        return {}
    rows: dict[str, dict[str, Any]] = {str(row["question"]): row for row in _records(played.table("questions"))}
    own: dict[str, dict[str, Any]] = {}
    for question, asked in ASKED[name].items():
        if asked.reaction:
            table = played.table("reactions")
            [row] = _records(table[table["what"] == asked.reaction])
            own[question] = {**row, "value_from": row["value_without"], "value_to": row["value_with"]}
            rows[question] = {**own[question], "smallest": asked.smallest}
        elif asked.paired:
            own[question] = rows[question] = _paired(played.simulations, asked)
    if name == "deliberation":  # one family of six, as frozen
        for row, p in zip(rows.values(), holm([row["p"] for row in rows.values()]), strict=True):
            row["p_holm"] = float(p)
    return {question: rows[question] for question in ASKED[name]}


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(key): value for key, value in row.items()} for row in table.to_dict("records")]


def _paired(simulations: pd.DataFrame, asked: Asked) -> dict[str, Any]:
    """Return the difference of two indicators over problems: of one condition, or of two that are named by n."""
    first, second = (
        simulations[simulations["n"] == n].set_index("seed")[indicator].dropna().astype(float)
        for n, indicator in asked.paired
    )
    both = pd.concat([first, second], axis=1, join="inner", keys=["x", "y"])
    x, y = (both[side].to_numpy() for side in "xy")
    counts = [int(np.sum(each)) for each in (x * y, x * (1 - y), (1 - x) * y, (1 - x) * (1 - y))]
    low, high = map(float, paired_difference(*counts)) if len(x) else (_NAN, _NAN)
    p = float(mcnemar(counts[1], counts[2])) if len(x) else _NAN
    means = [float(side.mean()) if len(x) else _NAN for side in (x, y)]
    named = dict(zip(("value_from", "value_to"), means, strict=True))
    return {**named, "pairs": len(x), "difference": means[1] - means[0], "low": low, "high": high, "p": p} | {
        "p_holm": p,
        "smallest": asked.smallest,
    }


def _section(name: str, study: Study) -> Iterator[str]:
    """Yield the paragraphs of one study, and write its figure and tables."""
    (there, planned), (again, repeats) = (_played(_study(name + kind)) for kind in ("", "-noise"))
    missing = "" if there + again == planned + repeats else " **Unfinished**: the answers are of what is there."
    yield (
        f"{STUDIES[name][1]}\n\n**{there} of {planned} planned simulations** were played, and {again} of {repeats} "
        f"repeats that measure the noise.{missing} Plan: `{_file(name).relative_to(Path.cwd())}`, and beside it "
        f"`{paths.frozen(study.file).name}`, which was committed before the first reply."
    )
    found = answers(name) if there else []
    if not found:
        return
    _write_table(f"{name}-answers", pd.DataFrame([asdict(each) for each in found]))
    yield "### Asked beforehand"
    yield "\n".join(f"- {_sentence(name, each)}" for each in found)
    yield f"![Answers of {study.title}](images/findings-{name}.png)"
    with own_style():
        write([_forest(study.title, found)], partial(_image, name), (".png", ".svg"))
    yield "### Seen besides"
    yield _explored(name)


def _image(name: str, suffix: str, page: int) -> Path:
    return IMAGES / f"findings-{name}{'' if page == 1 else f'-{page}'}{suffix}"


def _played(study: Study) -> tuple[int, int]:
    """Return how many simulations of a study have a record, and how many it has; no first ones of a noise study."""
    records = [s.record(study.name) for s in study.simulations() if s.condition.repeat != 0]
    return sum((HOME / record).exists() for record in records), len(records)


def _write_table(name: str, table: pd.DataFrame) -> None:
    TABLES.mkdir(parents=True, exist_ok=True)
    table.to_csv(TABLES / f"{name}.csv", index=False, float_format="%.6g", lineterminator="\n")


def _sentence(name: str, each: Answer) -> str:
    """Return question and answer, with interval, noise and control."""
    asked = ASKED[name][each.question]
    if not each.pairs:
        return f"**{asked.text}** No pairs yet."
    measured = asked.measured[0].upper() + asked.measured[1:]
    text = f"**{asked.text}** *{each.said}.* {measured} {each.value_from:.0%} {asked.first}, "
    text += f"{each.value_to:.0%} {asked.second}: {_points(each.difference)} points"
    few = each.pairs < FEWEST_PAIRS
    text += "" if few or np.isnan(each.low) else f" [{_points(each.low)}, {_points(each.high)}]"
    text += f" over {counted(each.pairs, 'pair')}"
    text += "." if few or np.isnan(each.p) else f", p {_p(each.p)}, corrected {_p(each.p_holm)}."
    text += f" Smallest that matters: {100 * each.smallest:g}."
    text += "" if np.isnan(each.noise) else f" Noise alone: ±{100 * each.noise:.1f}."
    return text + ("" if np.isnan(each.control) else f" Control: {_points(each.control)}.")


def _points(share: float) -> str:
    return f"{100 * share:+.1f}"


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _explored(name: str) -> str:
    """Return the means of a study's conditions as a Markdown table, and write it as CSV."""
    played = results(name)
    assert played is not None
    columns = EXPLORED[name]
    shown = played.table("quantities")
    rates = played.table("rates").rename(columns={"indicator": "quantity", "rate": "mean"})
    ends = played.table("outcomes").rename(columns={"outcome": "quantity", "rate": "mean"})
    every = pd.concat([shown, rates, ends])
    axes = [axis for axis in _study(name).axes if every[axis].nunique() > 1]
    table = every[every["quantity"].isin(columns)][[*axes, "quantity", "simulations", "mean", "low", "high"]]
    _write_table(f"{name}-conditions", table)
    lines = [f"| {' | '.join([*axes, 'simulations', *columns.values()])} |"]
    lines.append("|" + " --- |" * (len(axes) + 1 + len(columns)))
    for key, group in table.groupby(axes, sort=False):
        cells = [str(value) for value in (key if isinstance(key, tuple) else (key,))]
        by = group.set_index("quantity")
        means = [_mean(by.loc[column]) if column in by.index else "–" for column in columns]
        lines.append(f"| {' | '.join([*cells, str(int(group['simulations'].max())), *means])} |")
    return "Means with their 95% intervals, by condition.\n\n" + "\n".join(lines)


def _mean(row: Any) -> str:
    if np.isnan(row["mean"]):
        return "–"
    limits = "" if np.isnan(row["low"]) else f" [{row['low']:.2f}, {row['high']:.2f}]"
    return f"{row['mean']:.2f}{limits}"


def _forest(title: str, found: Sequence[Answer]) -> Figure:
    """Draw the answers: difference and interval, the band of the noise, and the control's answer."""
    figure = Figure((7.5, 1.35 + 0.5 * len(found)), layout="constrained")
    FigureCanvasAgg(figure)
    ax: Axes = figure.subplots()
    for place, each in enumerate(found):
        for edge in (-each.smallest, each.smallest):
            ax.plot([100 * edge] * 2, [place - 0.35, place + 0.35], color="#999999", lw=0.8, ls=(0, (2, 2)))
        if not np.isnan(each.noise):
            ax.barh(place, 200 * each.noise, left=-100 * each.noise, height=0.5, color="#DDDDDD")
        known = each.pairs >= FEWEST_PAIRS
        _point(ax, (each.difference, each.low if known else _NAN, each.high), place - 0.08, "o", "#0072B2")
        _point(ax, (each.control, each.control_low, each.control_high), place + 0.2, "D", "#D55E00")
    ax.axvline(0, color="#333333", linewidth=0.8)
    ax.set_yticks(range(len(found)), [f"{each.question} ({each.pairs} pairs)" for each in found])
    ax.set_ylim(len(found) - 0.4, -0.6)
    ax.set_xlim(-105, 105)
    ax.set_xlabel(
        "percentage points; blue: the model, orange: scripted control, gray: noise, dashed: smallest that matters"
    )
    ax.set_title(title, loc="left", fontsize=10, weight="bold")
    return figure


def _point(ax: Axes, of: tuple[float, float, float], place: float, marker: str, color: str) -> None:
    value, low, high = (100 * each for each in of)
    if np.isnan(value):
        return
    ax.plot([value], [place], marker=marker, ms=5, color=color, mfc="white" if np.isnan(low) else color)
    if not np.isnan(low):
        ax.plot([low, high], [place, place], color=color, lw=1.2)


if __name__ == "__main__":
    main()
