"""The report as a page: what it holds and in which order, what it links to, what it escapes, and its warnings."""

import base64
import hashlib
import math
import re
import shutil
from pathlib import Path

import pytest

from parley import paths
from parley.analysis import tables
from parley.analysis.made_by import MadeBy
from parley.errors import RecordError
from parley.play import record
from parley.report import page as report
from parley.report.sections import condition_table as table_of_conditions
from parley.study import Study, load_study
from support.pages import Page, with_pictures
from support.studies import make_study

GRIDS = "[{model: [majority, random], n: 4, b: [0, 1], prompt: may_exist}]"
HARM = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def tiny(home: Path) -> Study:
    return with_pictures(make_study(GRIDS))


@pytest.fixture(scope="module")
def html(tiny: Study) -> str:
    return report.report(tiny).read_text()


@pytest.fixture(scope="module")
def parsed(html: str) -> Page:
    return Page(html)


@pytest.fixture
def study(tiny: Study, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """A copy of the study in a folder of its own, for tests that change its files."""
    shutil.copytree(home, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return load_study(Path("config/tiny.yaml"))


def page(study: Study) -> str:
    return report.report(with_pictures(study)).read_text()


# What it holds


@pytest.mark.slow
def test_a_report_is_written_where_paths_says_and_is_reproducible(tiny: Study, home: Path, html: str) -> None:
    assert report.report(tiny) == paths.report("tiny")
    assert paths.report("tiny").read_text() == html
    assert not list(home.rglob("*.tmp"))
    with pytest.raises(RecordError, match="parley summarize"):
        report.report(make_study(GRIDS, play=False, name="unplayed"))
    with pytest.raises(RecordError, match="parley figures"):
        report.report(make_study("[{model: majority, n: 3, prompt: may_exist}]", name="undrawn"))


def test_conditions_facts_and_provenance_are_told(tiny: Study, parsed: Page) -> None:
    summary = record.read_summary(next(iter(tiny.simulations())).record("tiny"))
    git = summary.provenance["git"]
    for words in (
        *("100% [34%, 100%]", "2 of 2", "0% [0%, 66%]"),  # Wilson, 2 of 2
        *(tiny.plan, "tiny.yaml", "0 to 1 (4 conditions)", "max_rounds", "scripted (8 simulations)"),
        *(f"{summary.provenance['parley']} (8 simulations)", summary.provenance["python"]),
        *([git["commit"]] if git else []),
    ):
        assert words in parsed.text, words


def test_the_answer_comes_first_and_the_contrasts_that_differ_most_surely(html: str) -> None:
    heads = re.findall(r'<h2 id="(\w+)"', html)
    assert heads == ["answer", "outcomes", "figures", "tables", "made"]
    contrasts = html[html.index('id="contrasts"') : html.index('id="all-tables"')]
    shown = [float(p) for p in re.findall(r'data-label="p" class="number">(\d[\d.e-]*)<small>', contrasts)]
    assert shown == sorted(shown) != []


def test_figures_are_embedded_with_captions_and_files_to_download(tiny: Study, html: str, parsed: Page) -> None:
    images = [attributes for tag, attributes in parsed.tags if tag == "img"]
    for image, spec in zip(images, tiny.figures, strict=True):
        kind, _, content = str(image["src"]).partition(",")
        assert kind == "data:image/svg+xml;base64"
        assert base64.b64decode(content) == paths.figure("tiny", spec.name, ".svg").read_bytes()
        assert spec.caption in parsed.text
    files = [str(a["href"]) for tag, a in parsed.tags if tag == "a" and "download" in a]
    ends = (".svg", ".png", ".pdf")
    assert {*(f"../figures/outcome_rates{end}" for end in ends), "../tables/conditions.csv"} <= set(files)
    folder = paths.report("tiny").parent
    assert [file for file in files if not (folder / file).is_file()] == []
    for spec in tiny.figures:  # the tables that it is drawn from
        there = {f"../tables/{table}.csv" for table in spec.tables if table != "noise"}
        assert there <= set(files), spec.name


def test_the_contents_lead_to_all_parts(parsed: Page) -> None:
    ids = [attributes["id"] for _, attributes in parsed.tags if attributes.get("id")]
    assert len(ids) == len(set(ids))
    inside = [str(a["href"]) for tag, a in parsed.tags if tag == "a" and str(a.get("href")).startswith("#")]
    assert len(inside) > 10
    assert {address.removeprefix("#") for address in inside} <= set(ids)


def test_rows_and_rates_lead_to_the_explorer(html: str) -> None:
    address = "../view/index.html#/?axis.model=majority&amp;axis.n=4&amp;axis.b=0&amp;axis.prompt=may_exist"
    assert f'<a href="{address}">2</a>' in html
    assert f'<a href="{address}&amp;outcome=valid_consensus">100%' in html


# What it must not hold


def test_a_page_has_no_requests_machine_paths_or_foreign_style_and_script(html: str, parsed: Page, home: Path) -> None:
    assert not {"iframe", "object", "embed", "form", "base"} & {tag for tag, _ in parsed.tags}
    for _, attributes in parsed.tags:
        assert not [name for name in attributes if name.startswith("on") or name in ("srcset", "style")]
        assert str(attributes.get("href", "#")).startswith(("#", "../", "data:,"))
    assert not re.search(r"https?://|@import|url\((?!#)", html)
    assert str(home) not in html
    [policy] = [str(a["content"]) for tag, a in parsed.tags if tag == "meta" and "http-equiv" in a]
    assert policy.startswith("default-src 'none'; img-src data:; ")
    assert "unsafe" not in policy
    for kind in ("style", "script"):
        [content] = re.findall(f"<{kind}>(.*?)</{kind}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy


@pytest.mark.promise("Hostile text is escaped in the report, which loads nothing from elsewhere.")
@pytest.mark.slow
def test_hostile_text_is_escaped_and_cleaned(home: Path) -> None:
    grid = "[{model: [majority, random], n: 3, prompt: may_exist, seeds: [9, 4]}]"
    study = make_study(grid, title="<script>alert(1)</script> \u202ereversed", name="hostile")
    simulations = tables.read_table("hostile", "simulations").assign(detail=HARM)
    tables.write_table(simulations, study, "simulations")
    contrasts = tables.read_table("hostile", "contrasts")
    contrasts.loc[0, ["from", "p"]] = [HARM, 0.0]
    tables.write_table(contrasts, study, "contrasts")
    html = page(study)
    assert "&lt;script&gt;alert(1)&lt;/script&gt; reversed" in html
    assert "&lt;img src=x onerror=alert(1)&gt;" in html
    assert f"{HARM} → " in Page(html).text  # of the contrast
    for words in ("<script>alert", "<img src=x", "\u202e"):
        assert words not in html


# Cells and warnings


@pytest.mark.slow
def test_undefined_medians_are_a_dash_and_failures_are_by_class(home: Path) -> None:
    """No game is invalid in which all agents hold the same value whatever they do."""
    grids = "[{model: stubborn, n: 3, prompt: may_exist, vary: {value_max: [0, 5]}}]"
    study = make_study(grids, name="stubborn")
    table = tables.read_table("stubborn", "conditions")
    assert table["median_rounds"].isna().tolist() == [False, True]  # on a single value all agree at once
    table.loc[1, ["failed_replies", "failed_reply_rate", "length"]] = [3, 0.125, 3]
    made = table_of_conditions(table, study, study.game.outcomes)
    median, failed = made.rows[1][-2:]
    assert (median.text, failed.text, failed.small) == ("-", "3 (12.5%)", "length: 3")
    assert page(study).count("cannot be</small>") == 2  # neither invalid nor premature


@pytest.mark.promise("Warnings, such as of mixed engines, come before the numbers.")
@pytest.mark.slow
def test_warnings_name_the_conditions_and_come_before_the_numbers(
    study: Study, html: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "WARNING" not in html
    simulations = tables.read_table("tiny", "simulations")
    simulations.loc[1, "engine"] = "vllm 9, <GPU>, abc"  # seed 0 of the second condition
    conditions = tables.read_table("tiny", "conditions")
    conditions.loc[1, ["engines", "failed_replies", "failed_reply_rate", "length"]] = [2, 5, 0.25, 4]
    contrasts = tables.read_table("tiny", "contrasts")
    contrasts["p"] = 0.01
    contrasts["noise"] = [2.0] + [math.nan] * (len(contrasts) - 1)
    for name, table in {"simulations": simulations, "conditions": conditions, "contrasts": contrasts}.items():
        tables.write_table(table, study, name)
    engines = {"tiny": {"deterministic": {"asked": True, "by": None, "warning": "cannot <hold>"}}}
    [(made, number)] = report.read_made_by(study).provenances
    assert number == 8
    monkeypatch.setattr(report, "read_made_by", lambda _: MadeBy([({**made, "engines": engines}, 3)]))
    html = report.report(study).read_text()
    shown = Page(html).words
    at = "model=majority, n=4, b=1, prompt=may_exist"
    for words in (
        f"{at}: scripted (1 simulations); vllm 9, <GPU>, abc (1",
        f"{at}: 25.0% of the calls, 5 replies, most of them length (4)",
        "tiny: cannot <hold> (3 simulations)",
        "1 of 1 differences with p below 0.05",
    ):
        assert words in shown, words
    assert shown.count("WARNING") == 4
    assert shown.index("WARNING") < shown.index("Each bar is all simulations")
    assert not [words for words in ("<GPU>", "<hold>") if words in html]
