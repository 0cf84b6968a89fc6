"""How tests run, and the fixtures that several test modules use."""

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

# The same examples in every run, and no time limit for one of them: a busy machine fails no test.
settings.register_profile("parley", derandomize=True, deadline=None)
settings.load_profile("parley")


pytest.register_assert_rewrite("support")
pytest_plugins = [
    *("support.answering", "support.commands", "support.exports", "support.studies", "support.watching"),
    "support.workflows",
]


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
