"""The report in a real browser: nothing is cut off, tables sort and filter, numbers lead to the games behind them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from parley.cli.program import commands
from parley.figures.make import figures
from parley.report.compare import compare
from parley.report.page import report
from support.browser import chromium
from support.studies import make_study

pytestmark = pytest.mark.slow

GRIDS = """
  - {model: [majority, random], n: [4, 6], b: [0, 1], byzantine: [random, silent], prompt: [may_exist, none_exist]}
"""
QUESTION = """
questions:
  - {name: who, outcome: valid_consensus, compare: model, over: [n, prompt, b, byzantine], smallest: 0.2}
"""
CUT = """() => {
  document.querySelectorAll("details").forEach((each) => { each.open = true; });
  const cut = [...document.querySelectorAll(".wide")].filter((each) => each.scrollWidth > each.clientWidth);
  return [document.documentElement.scrollWidth > innerWidth, cut.map((each) => each.getAttribute("aria-label"))];
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of two studies with their reports, one page that compares them, and the explorer of the first."""
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        studies = [make_study(GRIDS, extra=QUESTION), make_study(GRIDS.replace("[4, 6]", "4"), name="other")]
        figures(studies[0])
        made = CliRunner().invoke(commands, ["view", str(studies[0].file)])
        assert made.exit_code == 0, made.output
        report(studies[0])
        compare(studies)
    return folder / "results" / "tiny" / "report"


@pytest.fixture(scope="module")
def browser(site: Path) -> Iterator[Any]:
    """A browser for all tests here; while it runs, nothing else can run an event loop, such as playing a game."""
    with chromium() as running:
        yield running


def opened(browser: Any, page: Path, width: int, **options: Any) -> Any:
    tab = browser.new_page(viewport={"width": width, "height": 900}, **options)
    complaints: list[str] = []
    tab.on("console", lambda said: complaints.append(said.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.goto(page.as_uri())
    assert not complaints
    return tab


@pytest.mark.parametrize("width", [1400, 1000, 360])
def test_nothing_is_cut_off_at_the_right(browser: Any, site: Path, width: int) -> None:
    for page in site.glob("*.html"):
        assert opened(browser, page, width).evaluate(CUT) == [False, []], page.name


def test_a_long_hash_in_the_methods_breaks_on_a_phone(browser: Any, site: Path) -> None:
    tab = opened(browser, site / "report.html", 375)
    tab.evaluate("hash => { document.querySelector('.paper p').append(' ' + hash); }", "c" * 64)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 375


def test_a_click_sorts_and_words_filter(browser: Any, site: Path) -> None:
    tab = opened(browser, site / "report.html", 1400)
    header = tab.locator("#conditions thead th", has_text="valid consensus").first
    place = header.evaluate("each => each.cellIndex")
    rows = "[...document.querySelectorAll('#table-conditions tbody tr')]"
    column = f"() => {rows}.map((row) => parseFloat(row.cells[{place}].textContent))"
    header.locator("button").click()
    rates = tab.evaluate(column)
    assert rates == sorted(rates)
    assert len(set(rates)) > 1
    header.locator("button").press("Enter")
    assert tab.evaluate(column) == sorted(rates, reverse=True)
    assert header.get_attribute("aria-sort") == "descending"
    tab.fill("#conditions .filter", "random none_exist")
    shown = tab.locator("#table-conditions tbody tr:visible")
    assert 0 < shown.count() < len(rates)
    assert all("none_exist" in text for text in shown.all_inner_texts())


def test_contents_fold_on_a_phone_and_lead_into_what_is_folded(browser: Any, site: Path) -> None:
    tab = opened(browser, site / "report.html", 360)
    link = tab.locator("nav a", has_text="Contrasts that differ")
    assert not link.is_visible()
    tab.click("nav summary")
    assert not tab.locator("#table-contrasts").is_visible()
    link.click()
    assert tab.locator("#table-contrasts").is_visible()


def test_it_can_be_read_without_scripts(browser: Any, site: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto((site / "report.html").as_uri())
    assert tab.locator("#table-conditions").is_visible()
    assert tab.locator("nav a").first.is_visible()
    tab.click("#contrasts summary")
    assert tab.locator("#table-contrasts").is_visible()
    assert tab.locator("button, input").count() == 0


def test_marks_and_rows_lead_to_the_games_behind_them(browser: Any, site: Path) -> None:
    tab = opened(browser, site / "report.html", 1400)
    tab.locator(".bars a", has=tab.locator("rect")).first.click()
    tab.wait_for_url("**/view/index.html#/?*outcome=*")
    assert "No simulation fits" not in tab.inner_text("main")
    tab.go_back()
    tab.click(".answer a")
    tab.wait_for_url("**/view/index.html#/pairs?*")
    tab.wait_for_selector("main h1, main h2")


def test_folded_tables_are_on_paper(browser: Any, site: Path) -> None:
    tab = opened(browser, site / "report.html", 800)
    tab.emulate_media(media="print")
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert tab.locator("#table-contrasts").is_visible() == (tab.locator("#contrasts.printed").count() == 1)
    assert tab.locator("#parameters table").is_visible()
    assert not tab.locator("nav").is_visible()
