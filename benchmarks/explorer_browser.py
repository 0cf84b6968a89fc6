"""What the explorer costs its reader: the seconds in which its pages open in a real browser."""

import shutil
import statistics
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import sync_playwright

from benchmarks.measure import Row

_FRAME = 1000 / 60  # milliseconds
# As a wheel does, and as someone who drags the bar: from each frame that the browser shows to the next.
_SCROLL = """async (step) => {
    const took = [];
    let before = await new Promise(requestAnimationFrame);
    for (let frame = 1; frame <= 120; frame += 1) {
        scrollTo(0, frame * step);
        const now = await new Promise(requestAnimationFrame);
        took.push(now - before);
        before = now;
    }
    return took;
}"""
_SEARCH = """() => {
    const field = document.getElementById("search");
    field.value = "77";
    const began = performance.now();
    field.dispatchEvent(new Event("input"));
    return performance.now() - began;
}"""
_GAME = """async () => {
    const began = performance.now();
    location.hash = document.querySelector(".row.game a").getAttribute("href");
    while (!document.querySelector(".matrix")) await new Promise((resolve) => setTimeout(resolve, 5));
    return performance.now() - began;
}"""


def in_browser(page: Path) -> Iterator[Row]:
    """Yield what a page takes in a browser, if there is one: to open its list and a game, to scroll and to search."""
    program = shutil.which("chromium")
    if program is None:
        return
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=["--no-sandbox"])
        opened, games = [], []
        for _ in range(5):
            tab = browser.new_page(viewport={"width": 1300, "height": 900})
            tab.goto(page.resolve().as_uri())
            tab.wait_for_selector(".row.game")
            opened.append(tab.evaluate("performance.now()") / 1000)
            games.append(tab.evaluate(_GAME) / 1000)
            tab.go_back()
            tab.wait_for_selector(".row.game")
        wheel, bar = tab.evaluate(_SCROLL, 100), tab.evaluate(_SCROLL, 2500)
        searched = tab.evaluate(_SEARCH)
        browser.close()
    yield Row("its list in Chromium, from a file", f"{statistics.median(opened):.2f} s", "2 s")
    yield Row("a game, with the data file of its condition", f"{statistics.median(games):.2f} s", "")
    for how, took in (("3 rows", wheel), ("80 rows", bar)):
        slow = sum(each > 1.5 * _FRAME for each in took)
        yield Row(
            f"120 frames, {how} further down in each: median, longest, late",
            f"{statistics.median(took):.0f} ms, {max(took):.0f} ms, {slow}",
            f"{_FRAME:.0f} ms",
        )
    yield Row("two letters in the search", f"{searched:.0f} ms", "")
