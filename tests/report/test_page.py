import base64
import dataclasses
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
