"""The findings' page: made from records alone, byte for byte, and of what was asked."""

import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from findings import besides
from findings import make as findings
from findings.data import study_of
from support import REPOSITORY


def with_workflow(folder: Path) -> None:
    folder.mkdir()
    shutil.copy(REPOSITORY / "Snakefile", folder)
    shutil.copytree(REPOSITORY / "workflow", folder / "workflow")
    (folder / "docs/images").mkdir(parents=True)


@pytest.mark.promise(
    "The findings' page, figures and tables follow byte for byte from the records, each of which replays."
)
@pytest.mark.rare
def test_the_published_page_follows_from_the_published_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "clone"
    with_workflow(folder)
    shutil.copytree(REPOSITORY / "config", folder / "config")
    shutil.copytree(REPOSITORY / "findings", folder / "findings", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "docs/findings-read.md", folder / "docs")
    monkeypatch.chdir(folder)
    findings.main()
    published = [REPOSITORY / "docs/findings.md", *(REPOSITORY / "docs/images").glob("findings*")]
    published += [file for part in ("games", "tables") for file in (REPOSITORY / "findings" / part).iterdir()]
    for file in published:
        assert (folder / file.relative_to(REPOSITORY)).read_bytes() == file.read_bytes(), file


def test_what_is_quoted_was_said() -> None:
    """In the game that the quotation's paragraph, or its section, links to."""
    games = {file.name: " ".join(file.read_text().split()) for file in (REPOSITORY / "findings/games").glob("*.txt")}
    quoted = 0
    for section in (REPOSITORY / "docs/findings-read.md").read_text().split("## ")[1:]:
        said = " ".join(games[name] for name in re.findall(r"games/([\w-]+\.txt)", section))
        for quotation in re.findall("“(.+?)”", " ".join(section.split())):
            for part in quotation.split(" ... "):
                assert part.strip() in said
                quoted += 1
    assert quoted > 15


# What the page may claim


def of_tables(**tables: pd.DataFrame) -> Any:
    return SimpleNamespace(table=tables.__getitem__)


def test_beside_a_reaction_stands_what_happens_without_a_reason() -> None:
    axes = {"model": "m", "n": 4, "prompt": "plain", "disclosure": "none", "topology": "complete"}
    measured = pd.DataFrame([{**axes, "b": b, "quantity": "detected", "simulations": 9, "mean": 1.0} for b in (0, 1)])
    reactions = pd.DataFrame([{**axes, "b": 1, "what": "detected", "value_without": 0.75}])
    none = measured.iloc[:0]
    tables = {"quantities": measured.assign(low=0.8, high=1.0), "rates": none, "outcomes": none}
    found = besides._means({"detected": "detected"}, study_of("hunt"), of_tables(**tables, reactions=reactions))
    assert [line.count("sham 0.75") for line in found.shown.splitlines()] == [0, 0, 0, 1]


def test_an_answer_of_what_was_stopped_is_that_of_any_time_and_an_open_control_is_said_to_show_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    numbers = {"question": "placebo", "value_from": 0.5, "value_to": 0.8, "difference": 0.3, "smallest": 0.2}
    fixed = {"low": 0.1, "high": 0.5, "p": 0.004, "p_holm": 0.012}
    at_any_time = {"anytime_low": -0.2, "anytime_high": 0.8, "anytime_p": 0.2, "anytime_p_holm": 0.6}
    others = {"together_low": 0.0, "together_high": 0.6, "note": "", "registered": "stopped at 12 of 40 games"}
    row = {**numbers, **fixed, **at_any_time, **others, "pairs": 12, "answer": "open", "stopped": True}
    control = {**row, "difference": 0.1, "p_holm": 0.3, "stopped": False}
    tables: dict[str, Any] = {"": {"placebo": row}, "-noise": {}, "-control": {"placebo": control}}
    monkeypatch.setattr(findings, "results", lambda name: None)
    monkeypatch.setattr(findings, "_differences", lambda name, kind, played: tables[kind])
    [answer] = findings.answers("equal-cost")
    assert (answer.low, answer.high, answer.p, answer.p_holm) == tuple(at_any_time.values())
    text = findings._sentence(findings.ASKED["equal-cost"]["placebo"], answer)
    assert "*Open.*" in text
    assert "[-20.0, +80.0] over 12 pairs, p at any time 0.200, corrected 0.600." in text
    assert "Control: +10.0, *open*: it does not show that a difference would be found." in text
