"""Several studies on one page."""

import pytest

from parley import paths
from parley.errors import ParleyError
from parley.report.page import compare
from parley.study import Study
from support.figures import played, study_of
from support.pages import Page

pytestmark = pytest.mark.promise("Several studies stand beside each other on one page.")


@pytest.fixture(scope="module")
def two() -> list[Study]:
    """Two studies of one game: one condition is in both."""
    first = study_of({"n": [3, 4]}, name="first", seeds=4, title="The <first>")
    second = study_of({"n": [4, 5]}, name="second", seeds=3, parameters={"max_rounds": 7})
    return [played(first), played(second)]


@pytest.mark.slow
def test_outcomes_stand_beside_each_other_with_what_differs(two: list[Study]) -> None:
    path = compare(two)
    assert path == paths.compared(["first", "second"])
    html = path.read_text()
    shown = Page(html).words
    assert "first: The <first>. 8 simulations of the game consensus in 2 conditions: n 3 or 4." in shown
    assert "<first>" not in html
    together = shown[shown.index("[95% Wilson interval]") : shown.rindex("What differs")]
    assert "n=4first valid consensus: 100%, 4 of 4 4 100% [51%, 100%]" in together
    assert "second valid consensus: 100%, 3 of 3 3 100% [44%, 100%]" in together
    assert together.index("n=4") < together.index("n=3") < together.index("n=5")  # what both have comes first
    differs = shown[shown.rindex("What differs") : shown.rindex("What is alike")]
    assert "parameter max_rounds507" in differs
    assert "Seeds0 to 3 (2 conditions)0 to 2 (2 conditions)" in differs
    assert "retries" not in differs
    assert compare(two).read_text() == html


@pytest.mark.slow
def test_links_lead_to_each_studys_own_explorer_and_report(two: list[Study]) -> None:
    page, report = paths.view_page(paths.view("second")), paths.report("second")
    for path in (page, report):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    html = compare(two).read_text()
    for path in (page, report):
        path.unlink()
    assert 'href="../../second/report/../view/index.html#/?axis.model=majority' in html
    assert "first/report/../view" not in html
    assert '<a href="../../second/report/report.html">second</a>' in html
    assert "second/report/" not in compare(two).read_text()


@pytest.mark.slow
def test_studies_that_cannot_be_compared_are_one_line(two: list[Study]) -> None:
    other = study_of({"model": "grim_trigger", "prompt": "plain"}, name="hunt", game="stag_hunt", seeds=1)
    for studies, words in (
        ([two[0], other], "first is of the game consensus, hunt of stag_hunt"),
        (two[:1], "at least two studies"),
        ([two[0], study_of(name="unplayed")], "parley summarize"),
    ):
        with pytest.raises(ParleyError, match=words):
            compare(studies)
