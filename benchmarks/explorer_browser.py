"""What the explorer costs its reader: the seconds in which its pages open in a real browser."""

import shutil
import statistics
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import sync_playwright

from benchmarks.measure import Row

_GAME = """async () => {
    const began = performance.now();
    location.hash = document.querySelector(".row.game a").getAttribute("href");
    while (!document.querySelector(".matrix")) await new Promise((resolve) => setTimeout(resolve, 5));
    return performance.now() - began;
}"""


def in_browser(page: Path) -> Iterator[Row]:
    """Yield what a page takes in a browser, if there is one: to open its list and a game."""
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
        browser.close()
    yield Row("its list in Chromium, from a file", f"{statistics.median(opened):.2f} s", "2 s")
    yield Row("a game, with the data file of its condition", f"{statistics.median(games):.2f} s", "")
