"""A real browser for tests of pages: Chromium of the system, driven by Playwright."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def chromium() -> Iterator[Any]:
    """Yield a running browser; skips the test where there is none."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make setup")
    with sync_api.sync_playwright() as started:
        # Chromium's own sandbox cannot be had by root, nor in most containers.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = started.chromium.launch(executable_path=program, args=arguments)
        try:
            yield browser
        finally:
            browser.close()
