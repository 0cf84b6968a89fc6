"""A study for the tests of the API, with its results."""

import shutil
from pathlib import Path

import pytest

import parley
from parley.study import load_study
from support.studies import MIXED, play_study, summarize_study, write_study


@pytest.fixture(scope="session")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("played") / "demo"
    write_study(folder, **MIXED)
    play_study(folder)
    return folder


@pytest.fixture(scope="session")
def root(played: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the study `demo`, its results and its tables, which no test changes."""
    folder = tmp_path_factory.mktemp("summarized") / "demo"
    shutil.copytree(played, folder)
    summarize_study(folder, load_study(folder / "config" / "demo.yaml"))
    return folder


@pytest.fixture
def results(root: Path) -> parley.Results:
    return parley.load("demo", root).results()


@pytest.fixture
def loose(played: Path, tmp_path: Path) -> Path:
    """A folder with the study `demo` played and not summarized."""
    folder = tmp_path / "loose"
    shutil.copytree(played, folder)
    return folder
