"""Several studies on one page."""

import re

import pytest

from parley import paths
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
    rows = re.findall(r"([345]) ?(first|second) ?(\d) ?100% \[(\d+)%, 100%\]", together)
    # What both have comes first.
    assert rows == [
        ("4", "first", "4", "51"),
        ("4", "second", "3", "44"),
        ("3", "first", "4", "51"),
        ("5", "second", "3", "44"),
    ]
    differs = shown[shown.rindex("What differs") : shown.rindex("What is alike")]
    assert re.search(r"parameter max_rounds ?50 ?7 ", differs)
    assert "Seeds 0 to 3 (2 conditions) 0 to 2 (2 conditions)" in differs
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
