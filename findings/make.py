"""Findings of our own: `make findings` makes docs/findings.md, its figures and tables from the records in findings/.

No model is asked. Records that were played since (in results/) are taken into findings/ first, and those in findings/
put where Snakemake finds them, so that a study can be played on. Each record is replayed.
"""

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
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

import parley
from findings.besides import besides
from findings.data import FINDINGS, file_of, kinds_of, played_of, study_of, sync, write_games
from findings.text import ASKED, IN_PROSE, INTRODUCTION, LIMITS, STUDIES, Asked
from parley import paths
from parley.analysis.contrasts import band, is_share
from parley.analysis.questions import SMALLER, question_table
from parley.analysis.registration import with_registration
from parley.analysis.summarize import summarize
from parley.api import Results
from parley.errors import RecordError
from parley.figures.page import write
from parley.figures.style import own_style
from parley.play.simulate import simulate_shard
from parley.study import Study
from parley.study.condition import SCRIPTED
from parley.study.questions import Question
from parley.text import counted

PAGE = Path("docs/findings.md")
IMAGES = Path("docs/images")
TABLES = FINDINGS / "tables"
READ = Path("docs/findings-read.md")  # what somebody wrote who read games from start to end
READ_LINK = "## Read\n\n[What games say that numbers do not](findings-read.md): some were read from start to end."
FEWEST_PAIRS = 10  # with fewer the paired test rejects too often (docs/explanation/statistics.md)
_NO_POWER = ": it does not show that a difference would be found."
_NAN = float("nan")
_MODEL, _CONTROL = "#0072B2", "#D55E00"


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
    together_low: float
    together_high: float
    answer: str  # as the table of questions has it; "" for one about reactions
    note: str
    noise: float  # half width of the band in which so many pairs lie if only sampling differs
    control: float
    control_low: float
    control_high: float
    control_answer: str
    registered: str  # when it was frozen, by the times of the freeze and of its games
    stopped: bool = False  # before all frozen games were played: limits and p are those that hold at any time

    @property
    def said(self) -> str:
        """The answer in words."""
        if not self.pairs:
            return "No pairs yet"
        if self.pairs < FEWEST_PAIRS:
            return "Too few pairs yet"
        return _said(self.p_holm, self.difference, self.answer)


def _said(p_holm: float, difference: float, answer: str) -> str:
    if p_holm < 0.05:
        return "More" if difference > 0 else "Less"
    return "No difference that matters" if answer.startswith(SMALLER) else "Open"


_COMPARED = [field.name for field in fields(Answer)[1:14]]
_OF_CONTROL = {"": "difference", "_low": "low", "_high": "high"}
_SAID = ("p_holm", "difference", "answer")
_AT_ANY_TIME = ("low", "high", "p", "p_holm")


def main() -> None:
    """Sync the records, replay them, and write the page with its figures and tables."""
    sections: list[str] = []
    found: list[tuple[Asked, Answer]] = []
    for name, (title, _) in STUDIES.items():
        study = study_of(name)
        for each in kinds_of(name):
            sync(study_of(each))
        there, planned = played_of(study)
        simulate_shard(study_of(f"{name}-control"), SCRIPTED, 0)
        told = [(ASKED[name][each.question], each) for each in answers(name)]
        sections += [f"## {title}", *_section(name, study, told)]
        found += told * (there == planned)
    parts = [INTRODUCTION, *_in_short(found), *sections]
    read = READ.read_text(encoding="utf-8").rstrip() if READ.exists() else ""
    write_games(read, STUDIES)
    text = "\n\n".join(map(_wrapped, [*parts, *([READ_LINK] if read else []), LIMITS]))
    PAGE.write_text(text + "\n", encoding="utf-8")
    print(PAGE)
    for name in STUDIES:
        print(f"To read its games: parley view {study_of(name).file.relative_to(Path.cwd())}")


def _wrapped(text: str) -> str:
    """Return a paragraph, or each item of a list, in lines of 120 characters; tables and figures as they are."""
    fill = partial(textwrap.fill, width=120, break_long_words=False, break_on_hyphens=False)
    kept = ("#", "!", "|")
    return "\n".join(
        line if line.startswith(kept) else fill(line, subsequent_indent="  " * line.startswith("- "))
        for line in text.split("\n")
    )


def _in_short(found: Sequence[tuple[Asked, Answer]]) -> Iterator[str]:
    """Yield a figure of the questions of finished studies that have an answer."""
    answered = [(asked, each) for asked, each in found if each.pairs >= FEWEST_PAIRS]
    if not answered:
        return
    yield "## In short"
    titles = [next(STUDIES[name][0] for name in STUDIES if asked in ASKED[name].values()) for asked, _ in answered]
    _draw(answered, "findings", titles)
    yield "![Answers to all questions that have one](images/findings.png)"


def results(name: str) -> Results | None:
    """Return the results of a study, with its tables, None if nothing of it was played; each record is replayed."""
    if not file_of(name).exists():  # of noise alone: not every study has one
        return None
    try:
        study = study_of(name)
        summarize(study)
        found = parley.load(study.file, Path(), paths.models_file(study.file)).results()
    except RecordError:
        return None
    for record in found.records:
        if not record.replay().identical:
            raise RecordError(f"{record.path}: replaying it gives something else")
    return found


def answers(name: str) -> list[Answer]:
    """Return the answers to the questions of a study, in their order, as far as it was played."""
    played, noise, control = (results(name + kind) for kind in ("", "-noise", "-control"))
    theirs = _differences(name, "-control", control)
    again = [] if noise is None else _records(noise.table("noise"))  # of one condition
    spreads = {row["what"]: (row["spread"], row["freedom"]) for row in again}
    game = study_of(name).game
    made = []
    for asked, row in _differences(name, "", played).items():
        of_control = theirs.get(asked, {})
        told: dict[str, Any] = {key: row[key] for key in _COMPARED}
        told["stopped"] = bool(row.get("stopped", False))
        if told["stopped"]:
            told |= {key: row[f"anytime_{key}"] for key in _AT_ANY_TIME}
        measured = ASKED[name][asked].noise
        told["noise"] = _NAN
        if measured in spreads and row["pairs"]:
            told["noise"] = band([spreads[measured]], row["pairs"], is_share(measured, game))
        told |= {f"control{end}": of_control.get(key, _NAN) for end, key in _OF_CONTROL.items()}
        told["control_answer"] = _said(*(of_control[key] for key in _SAID)) if of_control else ""
        made.append(Answer(asked, **told, registered=row["registered"]))
    return made


def _differences(name: str, kind: str, played: Results | None) -> dict[str, dict[str, Any]]:
    """Return for each question its row: those of the study file, then those that only the frozen plan has.

    All are one family, but those about reactions, which are corrected in their own table.
    """
    if played is None:
        return {}
    study, asked = study_of(name + kind), ASKED[name]
    own = [
        Question(name=question, smallest=each.smallest, **each.declared)
        for question, each in asked.items()
        if each.declared
    ]
    extended = replace(study, content=study.content.model_copy(update={"questions": [*study.content.questions, *own]}))
    table = played.table("questions")
    if own:
        table = with_registration(question_table(played.simulations, extended), played.simulations, extended)
    rows: dict[str, dict[str, Any]] = {str(row["question"]): row for row in _records(table)}
    reactions = _records(played.table("reactions")) if any(each.reaction for each in asked.values()) else []
    for question, each in asked.items():
        for row in reactions:
            if row["what"] == each.reaction:
                told = {"value_from": row["value_without"], "value_to": row["value_with"], "smallest": each.smallest}
                told |= {"together_low": _NAN, "together_high": _NAN, "answer": "", "note": "", "registered": ""}
                rows[question] = {**row, **told}
    return {question: rows[question] for question in asked}


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(key): value for key, value in row.items()} for row in table.to_dict("records")]


def _section(name: str, study: Study, found: Sequence[tuple[Asked, Answer]]) -> Iterator[str]:
    """Yield the paragraphs of one study, and write its figure and tables."""
    (there, planned), *noise = (played_of(study_of(each)) for each in kinds_of(name))
    repeats = "".join(f", and {again} of {wanted} repeats that measure the noise" for again, wanted in noise)
    missing = "" if there == planned else " **Unfinished.**"
    missing += "".join(" The noise is not measured to its end." for again, wanted in noise if again < wanted)
    yield (
        f"{STUDIES[name][1]}\n\n**{there} of {planned} planned simulations** were played{repeats}.{missing} Plan: "
        f"`{study.file.relative_to(Path.cwd())}`, and beside it `{paths.frozen(study.file).name}`."
    )
    if not found:
        return
    _write_table(f"{name}-answers", pd.DataFrame([asdict(each) for _, each in found]))
    yield "### Asked"
    yield _registered(found)
    yield "\n".join(f"- {_sentence(asked, each)}" for asked, each in found)
    yield f"![Answers of {study.title}](images/findings-{name}.png)"
    _draw(found, f"findings-{name}")
    played = results(name)
    assert played is not None
    tables = list(besides(name, study, played))
    if tables:
        yield "### Seen besides"
    for table in tables:
        _write_table(f"{name}-{table.name}", table.data)
        yield table.about
        yield table.shown


def _registered(found: Sequence[tuple[Asked, Answer]]) -> str:
    """Return when the questions were frozen, those of one sentence together."""
    names: dict[str, list[str]] = {}
    for asked, each in found:
        told = each.registered if not asked.in_prose else IN_PROSE
        names.setdefault(told, []).append(asked.text)
    lines = [f"{counted(len(texts), 'question')} {told}." for told, texts in names.items()]
    return f"By the times of plan and games: {' '.join(lines)}"


def _draw(found: Sequence[tuple[Asked, Answer]], name: str, titles: Sequence[str] = ()) -> None:
    with own_style():
        write([_forest(found, titles)], partial(_image, name), (".png", ".svg"))


def _image(name: str, suffix: str, page: int) -> Path:
    return IMAGES / f"{name}{'' if page == 1 else f'-{page}'}{suffix}"  # those of former pages are removed


def _write_table(name: str, table: pd.DataFrame) -> None:
    TABLES.mkdir(parents=True, exist_ok=True)
    table.to_csv(TABLES / f"{name}.csv", index=False, float_format="%.6g", lineterminator="\n")


def _sentence(asked: Asked, each: Answer) -> str:
    """Return question and answer, with interval, noise and control."""
    if not each.pairs:
        return f"**{asked.text}** No pairs yet."
    measured = asked.measured[0].upper() + asked.measured[1:]
    text = f"**{asked.text}** *{each.said}{' (exploratory)' * asked.in_prose}.* "
    text += f"{measured} {each.value_from:.0%} {asked.first}, "
    text += f"{each.value_to:.0%} {asked.second}: {_interval(each)}"
    few = each.pairs < FEWEST_PAIRS
    text += f" over {counted(each.pairs, 'pair')}"
    at = " at any time" * each.stopped
    text += "." if few or np.isnan(each.p) else f", p{at} {_p(each.p)}, corrected {_p(each.p_holm)}."
    text += f" {each.note[0].upper()}{each.note[1:]}." if each.note and not few else ""
    text += "" if np.isnan(each.smallest) else f" Smallest that matters: {100 * each.smallest:g}."
    text += "" if np.isnan(each.noise) else f" Noise alone: ±{100 * each.noise:.1f}."
    text += "" if np.isnan(each.control) else f" Control: {_points(each.control)}, *{each.control_answer.lower()}*"
    text += "" if np.isnan(each.control) else _NO_POWER if each.control_answer == "Open" else "."
    return text + (f" {asked.note}" if asked.note else "")


def _interval(each: Answer) -> str:
    known = each.pairs >= FEWEST_PAIRS and not np.isnan(each.low)
    limits = f" [{_points(each.low)}, {_points(each.high)}]" if known else ""
    return f"{_points(each.difference)} points{limits}"


def _points(share: float) -> str:
    return f"{100 * share:+.1f}"


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _forest(found: Sequence[tuple[Asked, Answer]], titles: Sequence[str]) -> Figure:
    """Draw the answers: difference and interval, the band of the noise, and the control's answer.

    `titles`, one for each answer, or none: answers of one title stand together under it.
    """
    figure = Figure((7.5, 1.1 + 0.42 * len(found)), layout="constrained")
    FigureCanvasAgg(figure)
    ax: Axes = figure.subplots()
    for place, (_, each) in enumerate(found):
        for edge in (-each.smallest, each.smallest):
            ax.plot([100 * edge] * 2, [place - 0.4, place + 0.4], color="#999999", lw=0.8, ls=(0, (2, 2)))
        if not np.isnan(each.noise):
            ax.barh(place, 200 * each.noise, left=-100 * each.noise, height=0.6, color="#DDDDDD")
        known = each.pairs >= FEWEST_PAIRS
        _point(ax, (each.difference, each.low if known else _NAN, each.high), place - 0.1, "o", _MODEL)
        _point(ax, (each.control, each.control_low, each.control_high), place + 0.2, "D", _CONTROL)
    for place, (title, above) in enumerate(zip(titles, ["", *titles], strict=False)):
        if title != above:
            ax.axhline(place - 0.5, color="#BBBBBB", linewidth=0.8)
            ax.annotate(
                title,
                (1, place - 0.5),
                (-4, -4),
                ("axes fraction", "data"),
                "offset points",
                ha="right",
                va="top",
                weight="bold",
            )
    ax.axvline(0, color="#333333", linewidth=0.8)
    ax.set_yticks(range(len(found)), [_label(asked, each.pairs) for asked, each in found])
    ax.set_ylim(len(found) - 0.4, -0.6)
    ax.set_xlim(-105, 105)
    ax.set_xlabel("difference in percentage points, with its 95% interval")
    drawn = [
        Line2D([], [], color=_MODEL, marker="o", ms=5, label="model"),
        Line2D([], [], color=_CONTROL, marker="D", ms=5, label="scripted control"),
        *([Patch(color="#DDDDDD", label="noise alone")] if any(not np.isnan(each.noise) for _, each in found) else []),
        Line2D([], [], color="#999999", lw=0.8, ls=(0, (2, 2)), label="smallest that matters"),
    ]
    figure.legend(handles=drawn, loc="outside upper center", ncols=4, frameon=False)
    return figure


def _label(asked: Asked, pairs: int) -> str:
    sides = f"{asked.first} \N{RIGHTWARDS ARROW} {asked.second}"
    return f"{asked.measured.rstrip(':')}:\n{sides} ({counted(pairs, 'pair')})"


def _point(ax: Axes, of: tuple[float, float, float], place: float, marker: str, color: str) -> None:
    value, low, high = (100 * each for each in of)
    if np.isnan(value):
        return
    ax.plot([value], [place], marker=marker, ms=5, color=color, mfc="white" if np.isnan(low) else color)
    if not np.isnan(low):
        ax.plot([low, high], [place, place], color=color, lw=1.2)


if __name__ == "__main__":
    main()
