"""A study for the tests of the API, with its results."""

from pathlib import Path

import pytest

import parley
from support.demo_study import MIXED, make_demo, play_study, write_study


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the study `demo`, its results and its tables, which no test changes."""
    folder = tmp_path_factory.mktemp("demo")
    make_demo(folder, **MIXED)
    return folder


@pytest.fixture
def results(root: Path) -> parley.Results:
    return parley.load("demo", root).results()


@pytest.fixture
def loose(tmp_path: Path) -> Path:
    """A folder with the study `demo` played and not summarized."""
    write_study(tmp_path, **MIXED)
    play_study(tmp_path)
    return tmp_path
