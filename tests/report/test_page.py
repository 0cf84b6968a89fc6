import base64
import dataclasses
import hashlib
import itertools
import json
import math
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest

from parley import paths
from parley.analysis import tables
from parley.analysis.conditions import condition_table
from parley.engine.models import ModelEntry
from parley.errors import RecordError
from parley.figures import make as figures
from parley.play import record, usable
from parley.report import page as report
from parley.report.about import mixed_engines, model_text, parameters
from parley.report.sections import condition_row, ending_rows
from parley.report.sections import endings as count_endings
from parley.study import Study, load_study
from support.pages import Page
from support.studies import make_study

GRIDS = "[{model: [majority, random], n: 4, b: [0, 1], prompt: may_exist}]"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def drawn_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a study whose figures are drawn; tests work on copies."""
    made = tmp_path_factory.mktemp("drawn")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        figures.figures(make_study(GRIDS))
    return made


@pytest.fixture
def study(drawn_once: Path, here: Path) -> Study:
    """A study whose figures are drawn, in the working directory."""
    shutil.copytree(drawn_once, here, dirs_exist_ok=True)
    return load_study(Path("config/tiny.yaml"))


def page(study: Study) -> str:
    figures.figures(study)
    return report.report(study).read_text()


@pytest.mark.slow
def test_report_is_written_where_paths_says_and_is_reproducible(study: Study, here: Path) -> None:
    first = report.report(study).read_text()
    assert report.report(study) == paths.report("tiny")
    assert paths.report("tiny").read_text() == first
    assert not list(here.rglob("*.tmp"))


@pytest.mark.slow
def test_report_holds_the_conditions_with_intervals_and_counts(study: Study) -> None:
    shown = Page(report.report(study).read_text()).text
    assert "100% [34%, 100%]" in shown  # Wilson, 2 of 2
    assert "2 of 2" in shown
    assert "0% [0%, 66%]" in shown
    for label in ("valid consensus", "invalid consensus", "no consensus", "median rounds", "unusable replies"):
        assert label in shown


@pytest.mark.slow
def test_undefined_medians_are_a_dash_and_failures_are_by_class(here: Path) -> None:
    study = make_study("[{model: stubborn, n: 4, prompt: may_exist}]")
    table = tables.read_table("tiny", "conditions")
    assert table["median_rounds"].isna().all()
    row = table.iloc[0].copy()
    row["failed_replies"], row["failed_reply_rate"], row["length"] = 3, 0.125, 3
    cells = condition_row(row, study.axes, study.game.outcomes)
    assert cells["median_rounds"] == "-"
    assert cells["failed"] == "3 (12.5%)"
    assert cells["failures"] == "length: 3"
    assert '<td data-label="median rounds" class="number">-</td>' in page(study)


@pytest.mark.slow
def test_an_outcome_that_a_condition_cannot_have_is_a_dash_or_no_column(here: Path) -> None:
    """No game is invalid in which all agents hold the same value whatever they do."""
    grids = "[{model: stubborn, n: 3, prompt: may_exist, vary: {value_max: [0, 5]}}]"
    html = page(make_study(grids))
    assert re.search('<td data-label="invalid consensus" class="number">-<small>cannot be</small></td>', html)
    assert html.count("cannot be</small>") == 2  # neither invalid nor premature
    shown = Page(page(make_study(grids.replace("0, 5", "0")))).text
    assert "no consensus" in shown
    assert "invalid consensus" not in shown
    assert "premature stop" not in shown


@pytest.mark.slow
def test_diagnoses_and_details_are_counted(study: Study) -> None:
    simulations = tables.read_table("tiny", "simulations")
    simulations.loc[:, "diagnosis"] = ["stuck"] * 3 + [None] * 5
    simulations.loc[:, "detail"] = [None] * 6 + ["early"] * 2
    endings = count_endings(simulations, study.axes)
    assert endings["kinds"] == [("diagnosis", "stuck"), ("detail", "early")]
    assert endings["total"] == [3, 2]
    assert [counts for _, _, counts in endings["rows"]] == [[1, 0], [1, 0], [1, 1], [0, 1]]
    rows = ending_rows(endings)
    assert [(row["diagnosis"], row["detail"]) for row in rows][2:] == [("stuck: 1", "early: 1"), ("", "early: 1")]
    html = report.report(study).read_text()
    assert "agreed_not_stopped" in html or "never_agreed" in html


@pytest.mark.slow
def test_figures_are_embedded_as_images_with_captions(study: Study) -> None:
    parsed = Page(report.report(study).read_text())
    images = [attributes for tag, attributes in parsed.tags if tag == "img"]
    assert len(images) == len(study.figures)
    for image, spec in zip(images, study.figures, strict=True):
        kind, _, content = str(image["src"]).partition(",")
        assert kind == "data:image/svg+xml;base64"
        assert base64.b64decode(content) == paths.figure("tiny", spec.name, ".svg").read_bytes()
        assert spec.caption in parsed.text
        assert spec.title in str(image["alt"])


@pytest.mark.slow
def test_page_has_no_requests_or_machine_paths(study: Study, here: Path) -> None:
    html = report.report(study).read_text()
    parsed = Page(html)
    assert not {"link", "iframe", "object", "embed", "form", "base"} & {tag for tag, _ in parsed.tags}
    for _, attributes in parsed.tags:
        assert not [name for name in attributes if name.startswith("on") or name in ("srcset", "style")]
        assert str(attributes.get("href", "#")).startswith(("#", "../"))
    assert not re.search(r"https?://|@import|url\((?!#)", html)
    assert str(here) not in html
    assert "prefers-color-scheme: dark" in html
    assert "@media print" in html


@pytest.mark.slow
def test_hostile_text_is_escaped_and_cleaned(here: Path) -> None:
    study = make_study(GRIDS, title="<script>alert(1)</script> \u202ereversed")
    html = page(study)
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt; reversed" in html
    assert "\u202e" not in html


@pytest.mark.slow
def test_hostile_text_in_a_table_is_escaped(study: Study) -> None:
    simulations = tables.read_table("tiny", "simulations")
    simulations["detail"] = "<img src=x onerror=alert(1)>"
    tables.write_table(simulations, study, "simulations")
    html = report.report(study).read_text()
    assert "<img src=x" not in html
    assert "&lt;img src=x onerror=alert(1)&gt;" in html


@pytest.mark.slow
def test_study_facts_and_provenance_are_told(study: Study) -> None:
    shown = Page(report.report(study).read_text()).text
    summary = record.read_summary(next(iter(study.simulations())).record("tiny"))
    assert study.plan in shown
    assert "tiny.yaml" in shown
    assert "0 to 1 (4 conditions)" in shown
    assert "max_rounds" in shown
    assert f"{summary.provenance['parley']} (8 simulations)" in shown
    assert "scripted (8 simulations)" in shown
    assert summary.provenance["python"] in shown
    if summary.provenance["git"]:
        assert summary.provenance["git"]["commit"] in shown


@pytest.mark.slow
def test_a_condition_that_mixes_engines_is_a_warning(study: Study) -> None:
    assert "WARNING" not in report.report(study).read_text()
    simulations = tables.read_table("tiny", "simulations")
    simulations.loc[1, "engine"] = "vllm 9, <GPU>, abc"  # seed 0 of the second condition
    conditions = condition_table(simulations, study.axes, study.game)
    tables.write_table(simulations, study, "simulations")
    tables.write_table(conditions, study, "conditions")
    html = report.report(study).read_text()
    assert "WARNING" in html
    shown = " ".join(Page(html).text.split())
    assert "model=majority, n=4, b=1, prompt=may_exist: scripted (1 simulations); vllm 9, <GPU>, abc (1" in shown
    assert "<GPU>" not in html


@pytest.mark.slow
def test_warnings_of_the_engines_are_told(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "WARNING" not in report.report(study).read_text()

    def warned() -> usable.Records:
        found = usable.read_records(study)
        engines = {"tiny": {"deterministic": {"asked": True, "by": None, "warning": "cannot <hold>"}}}
        told = [dataclasses.replace(s, provenance={**s.provenance, "engines": engines}) for s in found.summaries[:3]]
        return dataclasses.replace(found, summaries=told)

    with monkeypatch.context() as patched:
        summaries = warned()
        patched.setattr(report, "read_records", lambda *_: summaries)
        html = report.report(study).read_text()
    assert "tiny: cannot <hold> (3 simulations)" in Page(html).text
    assert "<hold>" not in html


@pytest.mark.slow
def test_the_answer_comes_first_and_what_does_not_differ_last(study: Study) -> None:
    html = report.report(study).read_text()
    heads = re.findall(r'<h2 id="(\w+)"', html)
    assert heads == ["answer", "outcomes", "figures", "tables", "methods", "made", "rest"]
    assert "8 simulations of the game consensus in 4 conditions: model majority or random; b 0 or 1." in html
    first_table = html.index('<table class="sorted')
    assert html.index("<figure") < first_table
    assert html.index('id="contrasts"') < html.index('id="methods"') < html.index('id="no-difference"')
    assert html.index('id="no-difference"') < html.index('id="mean-seconds"')
    contrasts = html[html.index('id="contrasts"') : html.index('id="margins"')]
    assert all(float(p) < 0.05 for p in re.findall(r'data-label="p" class="number">([\d.e-]+)<small>', contrasts))


@pytest.mark.slow
def test_headings_are_in_order_and_the_contents_lead_to_all_parts(study: Study) -> None:
    html = report.report(study).read_text()
    levels = [int(level) for level in re.findall(r"<h([1-6])", html)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later <= level + 1 for level, later in itertools.pairwise(levels))
    parsed = Page(html)
    ids = [attributes["id"] for _, attributes in parsed.tags if attributes.get("id")]
    assert len(ids) == len(set(ids))
    inside = [str(a["href"]) for tag, a in parsed.tags if tag == "a" and str(a.get("href")).startswith("#")]
    assert len(inside) > 15
    assert {address.removeprefix("#") for address in inside} <= set(ids)
    assert all(attributes.get("scope") for tag, attributes in parsed.tags if tag == "th")


@pytest.mark.slow
def test_only_the_own_style_and_script_are_allowed(study: Study) -> None:
    html = report.report(study).read_text()
    [policy] = [str(a["content"]) for tag, a in Page(html).tags if tag == "meta" and "http-equiv" in a]
    assert policy.startswith("default-src 'none'; img-src data:; ")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        [content] = re.findall(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


@pytest.mark.slow
def test_each_figure_and_table_can_be_downloaded_and_says_what_makes_it(study: Study) -> None:
    html = report.report(study).read_text()
    files = [str(a["href"]) for tag, a in Page(html).tags if tag == "a" and "download" in a]
    assert {"../figures/outcome_rates.svg", "../figures/outcome_rates.png", "../tables/conditions.csv"} <= set(files)
    folder = paths.report("tiny").parent
    assert all((folder / file).is_file() for file in files)
    assert html.count("parley figures tiny") == len(study.figures)
    assert '<a href="../figures/outcome_rates.svg"><img ' in html
    figures = paths.figure("tiny", "outcome_rates", ".svg").parent
    (figures / "outcome_rates.pdf").write_bytes(b"%PDF")
    assert "../figures/outcome_rates.pdf" in report.report(study).read_text()


@pytest.mark.slow
def test_all_pages_of_a_figure_are_shown_with_their_notes(study: Study) -> None:
    name = study.figures[0].name
    first = paths.figure("tiny", name, ".svg")
    shutil.copy(first, first.with_name(f"{name}-2.svg"))
    listed = first.with_name("figures.json")
    listed.write_text(json.dumps([{"name": name, "pages": [name, f"{name}-2"], "notes": "Bars <are> rates."}]))
    html = report.report(study).read_text()
    assert f"../figures/{name}-2.svg" in html
    assert "page 2 of 2" in html
    assert "Bars &lt;are&gt; rates." in html
    listed.write_text("[{")
    with pytest.raises(RecordError, match=r"figures.json: damaged; run: parley figures"):
        report.report(study)


@pytest.mark.slow
def test_rows_and_bars_lead_to_the_explorer_only_where_there_is_one(study: Study) -> None:
    alone = report.report(study).read_text()
    assert "view/index.html" not in alone
    assert "its marks lead to the games" not in alone
    planned = report.report(study, explored=True).read_text()
    page = paths.view_page(paths.view("tiny"))
    page.parent.mkdir()
    page.touch()
    html = report.report(study).read_text()
    assert html == planned
    assert "its marks lead to the games" in html
    address = "../view/index.html#/?axis.model=majority&amp;axis.n=4&amp;axis.b=0&amp;axis.prompt=may_exist"
    assert f'<a href="{address}">2</a>' in html
    assert f'<a href="{address}&amp;outcome=valid_consensus" aria-label="valid consensus: 100%, 2 of 2">' in html
    assert "../view/index.html#/pairs?a.model=" in html


@pytest.mark.slow
def test_replies_that_fail_and_differences_within_the_noise_are_warnings(study: Study) -> None:
    conditions = tables.read_table("tiny", "conditions")
    conditions.loc[1, ["failed_replies", "failed_reply_rate", "length"]] = [5, 0.25, 4]
    tables.write_table(conditions, study, "conditions")
    contrasts = tables.read_table("tiny", "contrasts")
    contrasts["p"] = 0.01
    contrasts["noise"] = [2.0] + [math.nan] * (len(contrasts) - 1)
    tables.write_table(contrasts, study, "contrasts")
    shown = " ".join(Page(report.report(study).read_text()).text.split())
    assert "WARNING: replies that failed" in shown
    assert (
        "model=majority, n=4, b=1, prompt=may_exist: 25.0% of the calls, 5 replies, most of them length (4)" in shown
    )
    assert "WARNING: differences below the noise floor 1 of 1 differences with p below 0.05" in shown
    assert shown.index("WARNING") < shown.index("Each bar is all simulations")


def test_a_local_folder_is_named_without_its_path(here: Path) -> None:
    entry = ModelEntry.model_validate({"source": {"folder": "/home/someone/models/tuned"}})
    text = model_text(entry)
    assert "tuned" in text
    assert "someone" not in text


@pytest.mark.slow
def test_missing_figures_and_tables_say_what_to_run(here: Path) -> None:
    with pytest.raises(RecordError, match="parley summarize"):
        report.report(make_study(GRIDS, play=False))
    with pytest.raises(RecordError, match="parley figures"):
        report.report(make_study(GRIDS))


@pytest.mark.slow
def test_listed_seeds_are_told_in_the_report(here: Path) -> None:
    study = make_study("[{model: [majority, random], n: 4, prompt: may_exist, seeds: [9, 4]}]")
    assert "9, 4 (2 conditions)" in Page(page(study)).text


def test_parameters_that_are_axes_say_so(here: Path) -> None:
    study = make_study("[{model: random, n: 4, prompt: may_exist, vary: {retries: [1, 2]}}]", play=False)
    found = dict(parameters(study, study.axes))
    assert found["retries"] == "an axis"
    assert found["max_rounds"] == "3"
    assert found["reply_format"] == "json"


def test_mixed_is_empty_for_a_table_of_one_engine() -> None:
    conditions = pd.DataFrame({"model": ["a"], "engines": [1]})
    assert mixed_engines(conditions, pd.DataFrame({"model": ["a"], "engine": ["x"]}), ["model"]) == []
