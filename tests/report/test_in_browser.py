"""The report and the pages of `parley view` in a real browser, opened from a file. One browser runs all of it."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from parley.cli import commands
from parley.report.page import report
from support.pages import (
    HOSTILE,
    LIARS,
    ROUNDS,
    chromium,
    simulation_id,
    study_index,
    with_pictures,
    write_explorer,
)
from support.studies import make_study

pytestmark = [
    pytest.mark.promise(
        "Report and explorer work in a real browser, with keys, on a phone, in print, without JavaScript; "
        "axe-core finds nothing serious."
    ),
    pytest.mark.rare,
]
SEEDS = 8
ALL = len(LIARS) * SEEDS
# Of the first condition: a plain game, the hostile one, the damaged one; and the same seed as the first in the others.
PLAIN, HARMFUL, DAMAGED = (simulation_id(place)[:8] for place in range(3))
ONE_LIAR, TWO_LIARS = (simulation_id(SEEDS * liars)[:8] for liars in LIARS[1:])
PLACES = (
    "#/",
    f"#/game/{HARMFUL}?agent=agent_2&round=2&diff=prev",
    f"#/compare/{PLAIN}/{TWO_LIARS}?agent=agent_4&round=3",
    f"#/read/{HARMFUL}",
    "#/?q=nothing",
)
MINE = re.compile(r"^(file|data):")
Open = Callable[..., Any]

GRIDS = """
  - {model: [majority, random], n: [4, 6], b: [0, 1], byzantine: [random, silent], prompt: [may_exist, none_exist]}
"""
QUESTION = """
questions:
  - {name: who, outcome: valid_consensus, compare: model, over: [n, prompt, b, byzantine], smallest: 0.2}
"""


@pytest.fixture(scope="module")
def reports(home: Path) -> Path:
    """The folder of the report of a study, and, beside it, its explorer."""
    study = with_pictures(make_study(GRIDS, extra=QUESTION))
    made = CliRunner().invoke(commands, ["view", str(study.file)])
    assert made.exit_code == 0, made.output
    report(study)
    return home / "results" / "tiny" / "report"


@pytest.fixture(scope="module")
def browser(reports: Path) -> Iterator[Any]:
    """A browser, once the studies are played: while Playwright runs, nothing else can run an event loop."""
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_explorer(tmp_path_factory.mktemp("view"), study_index(SEEDS))


@pytest.fixture
def opened(browser: Any, site: Path) -> Iterator[Open]:
    """Return a function that opens an address. What the page complains of, or asks of a network, fails the test."""
    contexts, complaints = [], []

    def open_(address: str = "#/", page: Path = site, **settings: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1300, "height": 800}, **settings})
        contexts.append(context)
        tab = context.new_page()
        tab.set_default_timeout(10_000)
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("console", lambda said: said.type in {"error", "warning"} and complaints.append(said.text))
        tab.on("request", lambda asked: MINE.match(asked.url) or complaints.append(asked.url))
        tab.goto(page.as_uri() + address)
        return tab

    yield open_
    for context in contexts:
        context.close()
    assert not complaints


def go(tab: Any, address: str, until: str) -> None:
    """Open another address in a tab, and wait for something there."""
    tab.evaluate("where => { location.hash = where; }", address)
    tab.wait_for_selector(until)


def texts(tab: Any, selector: str) -> list[str]:
    return [text.strip() for text in tab.locator(selector).all_inner_texts()]


def games_listed(tab: Any) -> int:
    return tab.locator(".row.game").count()


def cells(tab: Any, game: int) -> list[str]:
    """Return what stands in the row of a game of the list, by its place among those."""
    return texts(tab, f".row.game >> nth={game} >> [role=cell]")


def address(tab: Any) -> str:
    return tab.evaluate("decodeURIComponent(location.hash)")


def focused(tab: Any) -> str:
    return tab.evaluate("document.activeElement.getAttribute('aria-label') ?? document.activeElement.innerText")


# The explorer: the list


def test_the_list_shows_each_simulation_and_counts_by_condition(opened: Open) -> None:
    tab = opened(viewport={"width": 1300, "height": 1300})
    assert games_listed(tab) == ALL
    # By hand: of the first eight, outcome 7 * place % 3; the third is damaged.
    counts = texts(tab, ".row.group small")[0]
    assert counts == "3 agreed on a value, 3 no agreement, 1 agreed on a wrong value, 1 damaged record"
    told, short = cells(tab, 2)[-2:]
    assert ("its checksum does not fit" in told, short) == (True, DAMAGED)
    assert "1" in texts(tab, "#outcome-\\(damaged\\) b")


def test_filters_and_order_live_in_the_address(opened: Open) -> None:
    tab = opened()
    tab.click("#outcome-split")
    tab.select_option("#filter-liars", "1")
    shown = games_listed(tab)
    assert 0 < shown < SEEDS
    assert address(tab) == "#/?outcome=split&axis.liars=1"
    tab.click("#sort-seed")
    tab.click("#sort-seed")
    assert address(tab).endswith("&sort=-seed")
    seeds = [int(cells(tab, row)[2]) for row in range(shown)]
    assert seeds == sorted(seeds, reverse=True)
    assert games_listed(opened(tab.evaluate("location.hash"))) == shown
    tab.click("#clear")
    assert address(tab) == "#/?sort=-seed"
    tab.fill("#search", f"liars=2 {ONE_LIAR}")
    assert "No simulation fits these filters." in tab.inner_text("main")
    tab.click(".empty button")
    assert games_listed(tab) > shown


# Keys


def test_keys_walk_through_cells_and_links_through_games(opened: Open) -> None:
    tab = opened("#/?outcome=agreed")
    tab.click(".row.game a >> nth=1")
    tab.wait_for_selector(".matrix")
    first = address(tab)
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        tab.keyboard.press(key)
    assert focused(tab).startswith("agent_2, round 2")
    assert address(tab).endswith("?agent=agent_2&round=2")
    tab.keyboard.press("Enter")
    assert focused(tab) == "agent_2 · round 2"
    tab.keyboard.press("Escape")
    assert address(tab) == first
    tab.click("text=Next →")
    # The address changes at once, the page with the next event.
    shown = "was => location.hash !== was && document.title.startsWith(location.hash.split('/')[2])"
    tab.wait_for_function(shown, arg=first)
    assert "agreed on a value" in tab.inner_text(".outcome-line")
    tab.keyboard.press("Escape")
    tab.wait_for_selector(".rows")
    assert address(tab) == "#/?outcome=agreed"


# One game


def test_a_cell_opens_what_was_sent_and_answered(opened: Open) -> None:
    tab = opened(f"#/game/{HARMFUL}")
    tab.hover("td[aria-label^='agent_1, round 1']")
    assert tab.inner_text(".hearing") == "agent_1 hears agent_2, agent_4"
    assert texts(tab, ".heard .name") == ["agent_2", "agent_4"]
    tab.click("td[aria-label^='agent_2, round 2']")
    failed, good = texts(tab, ".attempt")
    assert "Attempt 1 of 2" in failed
    assert texts(tab, ".unheard s")[1:] == ["agent_4: 9"]
    assert "left out by the filter" in tab.inner_text(".legend")
    assert "invalid_json" in failed
    assert "122 tokens in · 14 out · 0.25 s · temperature 0.7 · ended by stop · seed 1001" in good
    assert "Your number is 22." in good
    tab.click("#phase-vote")
    assert "go on" in tab.inner_text(".fields-read")
    tab.click("td[aria-label^='agent_1, round 2']")
    assert tab.locator(".unheard").count() == 0
    tab.click("#phase-propose")
    tab.click("text=Reasoning (8 characters)")
    tab.wait_for_selector(".reasoning >> text=I think.")


def test_a_prompt_is_compared_word_by_word(opened: Open) -> None:
    tab = opened(f"#/game/{PLAIN}?agent=agent_2&round=3")
    tab.wait_for_selector("#panel")
    tab.select_option("#diff", "prev")
    tab.wait_for_selector(".sent ins")
    assert texts(tab, ".sent del") == ["2", "22"]
    assert texts(tab, ".sent ins") == ["3", "In round 2 they said 20.", "11"]
    tab.select_option("#diff", "agent:agent_3")
    tab.wait_for_selector("text=System (65 characters, changed)")
    assert texts(tab, ".sent .system ins") == ["agent_2"]
    tab.select_option("#diff", f"sim:{TWO_LIARS}")
    tab.wait_for_selector("text=/User .*, the same/")


# Two games


def test_two_games_are_aligned_and_part_where_a_cell_differs(opened: Open) -> None:
    tab = opened(f"#/compare/{PLAIN}/{TWO_LIARS}")
    tab.wait_for_selector(".matrix")
    assert "The two games part in round 3" in tab.inner_text(".parting-note")
    dashed = {
        label.split(":")[0] for label in tab.locator("td.differs").evaluate_all("all => all.map(one => one.ariaLabel)")
    }
    assert dashed == {f"{agent}, round {number}" for agent in ("agent_3", "agent_4") for number in ROUNDS[2:]}
    tab.click("td.differs >> nth=0")
    assert texts(tab, ".which") == ["A liars=0 · seed 0", "B liars=2 · seed 0"]
    tab.select_option("#diff-0", f"sim:{TWO_LIARS}")
    # Each with the other, not with itself.
    assert [tab.input_value(f"#diff-{which}") for which in (0, 1)] == [f"sim:{TWO_LIARS}", f"sim:{PLAIN}"]


def test_a_fork_is_shown_beside_its_recorded_game(opened: Open) -> None:
    tab = opened(f"#/game/{TWO_LIARS}")
    tab.click("text=Beside the recorded game")
    tab.wait_for_selector(".parting-note")
    assert texts(tab, ".game-title a") == ["liars=0 · seed 0", "liars=2 · seed 0"]


# What is hostile or damaged


def test_hostile_text_does_nothing_and_is_seen(opened: Open, tmp_path: Path) -> None:
    tab = opened(f"#/game/{HARMFUL}?agent=agent_2&round=2")
    tab.wait_for_selector("#panel")
    assert HOSTILE.split(" \u202e")[0] in tab.inner_text(".attempt.failed")
    assert {"202E", "200B", "001B"} <= set(texts(tab, ".odd"))
    index = study_index(SEEDS, title=HOSTILE, left_out=HOSTILE)
    for part in [*index["conditions"], *index["outcomes"], *index["axes"]]:
        part["label"] = HOSTILE
    other = opened("#/", page=write_explorer(tmp_path, index, []))
    assert games_listed(other) > 0
    for each in (tab, other):
        assert each.evaluate("window.harmed") is None
        assert each.locator("main img").count() == 0
        assert "\u202e" not in each.inner_text("body")


def test_what_is_damaged_or_missing_is_said_in_its_place(opened: Open, browser: Any, tmp_path: Path) -> None:
    tab = opened(f"#/game/{DAMAGED}")
    assert "its checksum does not fit" in tab.inner_text(".note.bad >> nth=0")
    tab.wait_for_selector(".loading", state="detached")
    assert tab.inner_text("main").count("its checksum does not fit") == 1
    go(tab, "#/game/123", "text=There is no simulation 123")
    page = write_explorer(tmp_path, study_index(SEEDS, left_out="Left out: 5 simulations. Choose with --where."), [0])
    (tmp_path / "data" / "0001.js").write_text('parleyData("0001", "AAAA")')
    context = browser.new_context()
    broken = context.new_page()
    for one, words in ((ONE_LIAR, "data/0001.js is damaged"), (TWO_LIARS, "data/0002.js could not be loaded")):
        broken.goto(page.as_uri() + f"#/game/{one}")
        broken.reload()
        broken.wait_for_selector(f"text={words}")
    go(broken, "#/", "text=Left out: 5 simulations.")
    context.close()


# Who reads it, and with what


def test_axe_finds_nothing_serious(opened: Open) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    found = []
    # The colors alone are others in the dark.
    for scheme, options in (("light", None), ("dark", {"runOnly": ["color-contrast"]})):
        tab = opened("#/", color_scheme=scheme)
        for where in PLACES:
            tab.evaluate("where => { location.hash = where; }", where)
            tab.wait_for_timeout(150)
            said = axe.run(tab, options=options).response["violations"]
            found += [(scheme, where, one["id"], node["html"][:150]) for one in said for node in one["nodes"]]
    assert not found


_BEYOND = """() => {
    const scrolled = ".scroll, .sr, .matrix-box";
    const beyond = (one) => !one.closest(scrolled) && one.getBoundingClientRect().right > innerWidth + 1;
    const cut = [...document.querySelectorAll("main *")].filter(beyond).map((one) => one.outerHTML.slice(0, 90));
    return [document.documentElement.scrollWidth, cut];
}"""


def test_nothing_is_cut_at_the_width_of_a_phone(opened: Open) -> None:
    tab = opened(viewport={"width": 360, "height": 700}, is_mobile=True)
    for where in PLACES:
        tab.evaluate("where => { location.hash = where; }", where)
        tab.wait_for_timeout(150)
        wide, cut = tab.evaluate(_BEYOND)
        assert (wide <= 360, cut) == (True, []), where


# The report

_CUT = """() => {
  document.querySelectorAll("details").forEach((each) => { each.open = true; });
  const cut = [...document.querySelectorAll(".wide")].filter((each) => each.scrollWidth > each.clientWidth);
  return [document.documentElement.scrollWidth > innerWidth, cut.map((each) => each.getAttribute("aria-label"))];
}"""


def test_nothing_of_a_report_is_cut_off_at_the_right(opened: Open, reports: Path) -> None:
    tab = opened("", reports / "report.html")
    for width in (1400, 1000, 375, 360):
        tab.set_viewport_size({"width": width, "height": 900})
        assert tab.evaluate(_CUT) == [False, []], width


def test_a_click_sorts_and_words_filter(opened: Open, reports: Path) -> None:
    tab = opened("", reports / "report.html")
    tab.click("#conditions summary")
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
    tab.fill("#conditions .filter", "random none_exist")
    shown = tab.locator("#table-conditions tbody tr:visible")
    assert 0 < shown.count() < len(rates)
    assert all("none_exist" in text for text in shown.all_inner_texts())


def test_a_report_can_be_read_without_scripts_and_on_paper(opened: Open, reports: Path) -> None:
    tab = opened("", reports / "report.html", java_script_enabled=False)
    assert tab.locator(".answer svg circle").first.is_visible()
    assert not tab.locator("#table-conditions").is_visible()
    tab.click("#conditions summary")
    assert tab.locator("#table-conditions").is_visible()
    tab.click("#contrasts summary")
    assert tab.locator("#table-contrasts").is_visible()
    assert tab.locator("button, input").count() == 0
    paper = opened("", reports / "report.html", viewport={"width": 800, "height": 900})
    paper.emulate_media(media="print")
    paper.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert paper.locator("#provenance table").first.is_visible()
    assert not paper.locator("nav").is_visible()


def test_marks_and_rows_lead_to_the_games_behind_them(opened: Open, reports: Path) -> None:
    tab = opened("", reports / "report.html")
    tab.click("#conditions summary")
    tab.locator("#table-conditions a", has_text="%").first.click()
    tab.wait_for_url("**/view/index.html#/?*outcome=*")
    assert "No simulation fits" not in tab.inner_text("main")
    tab.go_back()
    tab.click(".answer a >> nth=0")
    tab.wait_for_url("**/view/index.html#/compare/*/*")
    tab.wait_for_selector("main h1, main h2")
    assert "There is no simulation" not in tab.inner_text("main")
