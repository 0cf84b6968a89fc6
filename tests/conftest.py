"""Fixtures that several test modules use: small scripted studies in a folder of their own."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import settings

from answering import KEY, VARIABLE, StandInService, service
from council import CouncilGame
from parley.engine.service import hosted
from parley.games.registry import GAMES
from parley.study import Study
from parley.study import study as parley_study

# The same examples in every run, and no time limit for one of them: a busy machine fails no test.
settings.register_profile("parley", derandomize=True, deadline=None)
settings.load_profile("parley")

MODELS = {
    "models": {
        "tiny": {"source": {"repo": "owner/tiny", "revision": "a" * 40}},
        "other": {"source": {"repo": "owner/other", "revision": "b" * 40}, "dtype": "float16"},
    }
}
GRID = {"model": "majority", "n": 3, "prompt": "may_exist"}

StudyFactory = Callable[..., Study]


# Which tests may start processes, so that `make test-fast` runs no other

STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"}
_started: list[str] = []


def _note_starts(event: str, arguments: tuple[Any, ...]) -> None:
    # Provenance asks git, and hardware nvidia-smi, once in the process of many tests: in whichever comes first.
    if event in STARTS and not (event == "subprocess.Popen" and arguments[0] in ("git", "nvidia-smi")):
        _started.append(str(arguments[0] if arguments else event))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--split-cores", action="store_true", help="give each process of pytest-xdist cores of its own")


def pytest_configure(config: pytest.Config) -> None:
    sys.addaudithook(_note_starts)
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if config.getoption("split_cores") and worker:
        number, workers = int(worker.removeprefix("gw")), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        cores = sorted(os.sched_getaffinity(0))
        first, end = (len(cores) * place // workers for place in (number, number + 1))
        os.sched_setaffinity(0, cores[first:end] or cores)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files that are slow as a whole first: processes that share the tests by files then end together."""
    items.sort(key=lambda item: not any(mark.name == "slow" for mark in item.parent.own_markers) if item.parent else 1)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    _started.clear()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    result = yield
    if _started and not any(item.get_closest_marker(name) for name in ("slow", "model", "slurm")):
        pytest.fail(f"starts a process ({_started[0]}): mark it slow, so that `make test-fast` leaves it out")
    return result


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory with a models file."""
    monkeypatch.chdir(tmp_path)
    Path("models.yaml").write_text(yaml.safe_dump(MODELS), encoding="utf-8")
    return tmp_path


@pytest.fixture
def study_factory(folder: Path) -> StudyFactory:
    """Write a study file into the working directory and load it.

    `grids` are merged into a grid of three `majority` agents; other keywords are keys of the file.
    """

    def make(
        *grids: dict[str, Any], name: str = "small", models: dict[str, Any] | None = None, **content: Any
    ) -> Study:
        if models is not None:
            Path("models.yaml").write_text(yaml.safe_dump({"models": models}), encoding="utf-8")
        # A grid that says how many honest agents there are has no use for the default n.
        merged = [{**{k: v for k, v in GRID.items() if k != "n" or "honest" not in g}, **g} for g in grids or ({},)]
        merged = [{k: v for k, v in grid.items() if v is not None} for grid in merged]  # None: without this key
        body = {"game": "consensus", **content, "grids": merged}
        file = Path(f"{name}.yaml")
        file.write_text(yaml.safe_dump(body), encoding="utf-8")
        return parley_study.load_study(file)

    return make


@pytest.fixture
def council(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the game of `council.py` one that studies may name."""
    monkeypatch.setitem(GAMES, CouncilGame.name, CouncilGame)


@pytest.fixture
def quiet() -> Callable[[str], None]:
    """Swallow progress messages."""
    return lambda text: None


@pytest.fixture
def server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandInService]:
    """A service on this machine whose key is in the environment."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv(VARIABLE, KEY)
    with service() as found:
        yield found


@pytest.fixture
def pauses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were asked for; none is made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv(VARIABLE, KEY)
    found: list[float] = []

    async def sleep(seconds: float) -> None:
        found.append(seconds)

    monkeypatch.setattr(hosted, "_sleep", sleep)
    return found
