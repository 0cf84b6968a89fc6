"""How tests run, what a person sees of it, and the fixtures that several test modules use."""

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# The same examples in every run, and no time limit for one of them: a busy machine fails no test.
settings.register_profile("parley", derandomize=True, deadline=None)
settings.load_profile("parley")

# Where the keys of tests may go.
PLACES = ("TINY_API_KEY", "SERVICE_API_KEY", "NO_SUCH_KEY")
os.environ["PARLEY_ALLOW_KEYS"] = ",".join(f"{name}=127.0.0.1" for name in PLACES)
# What a test prepares of a model lies in its own folder.
os.environ["PARLEY_MODELS"] = "models"

pytest.register_assert_rewrite("support")
pytest_plugins = ["support.answering", "support.commands", "support.exports", "support.studies", "support.workflows"]


# Which tests may start processes, so that `make test-fast` runs no other

STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"}
SECONDS = {"model": 40.0, "rare": 5.0, "slow": 2.0}  # that a test with such a mark takes, about
_started: list[str] = []


def _note_starts(event: str, arguments: tuple[Any, ...]) -> None:
    # Provenance asks git, and hardware nvidia-smi, once in the process of many tests: in whichever comes first.
    if event in STARTS and not (event == "subprocess.Popen" and arguments[0] in ("git", "nvidia-smi")):
        _started.append(str(arguments[0] if arguments else event))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    _started.clear()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    result = yield
    if _started and not any(item.get_closest_marker(name) for name in SECONDS):
        pytest.fail(f"starts a process ({_started[0]}): mark it slow, so that `make test-fast` leaves it out")
    return result


# How processes share the tests: by files, which share what is set up once


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--progress", action="store_true", help="instead of dots: how far it is and what is left")


def pytest_configure(config: pytest.Config) -> None:
    sys.addaudithook(_note_starts)
    # A shell has what it starts in the background ignore Ctrl-C, and so would all that tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("progress") and not _worker():
        config.pluginmanager.register(Progress(), "parley-progress")


def _worker() -> str:
    return os.environ.get("PYTEST_XDIST_WORKER", "")


def _weight(item: pytest.Item) -> float:
    seconds = next((seconds for name, seconds in SECONDS.items() if item.get_closest_marker(name)), 0.02)
    return seconds * (4 if item.path.parent.name == "workflow" and seconds > 1 else 1)  # whole runs of Snakemake


@pytest.hookimpl(trylast=True)  # after those are gone that -m leaves out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files that take longest first: processes that share the tests by files then end together."""
    weights: dict[Path, float] = {}
    for item in items:
        weights[item.path] = weights.get(item.path, 0.0) + _weight(item)
    items.sort(key=lambda item: (-weights[item.path], item.path))
    if _worker() == "gw0" and WEIGHTS in os.environ:
        Path(os.environ[WEIGHTS]).write_text(json.dumps({item.nodeid: _weight(item) for item in items}))


@pytest.fixture(scope="module")
def own_core() -> Iterator[None]:
    """Give this process, of several, cores of its own: an engine's threads wait for each other."""
    cores = sorted(os.sched_getaffinity(0))
    if worker := _worker():
        number, workers = int(worker.removeprefix("gw")), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        first, end = (len(cores) * place // workers for place in (number, number + 1))
        os.sched_setaffinity(0, cores[first:end] or cores)
    yield
    os.sched_setaffinity(0, cores)


# What a person sees

WEIGHTS = "PARLEY_TEST_WEIGHTS"  # variable: the file in which the first process says how long each test may take


class Progress:
    """Says how far the tests are and what is left; what a failed one promised is said at once, and at the end."""

    def __init__(self) -> None:
        handle, name = tempfile.mkstemp(prefix="parley-tests-")
        os.close(handle)
        self.file, self.weights = Path(name), dict[str, float]()
        os.environ[WEIGHTS] = name
        self.every = 1.0 if sys.stdout.isatty() else 20.0
        self.begun = self.last = time.monotonic()
        self.done: set[str] = set()
        self.broken: list[str] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Without processes beside this one, the tests are here."""
        self.weights = {item.nodeid: _weight(item) for item in session.items}

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Leave out the dots."""
        return ("passed", "", "") if report.passed and report.when == "call" else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test, and say what is left."""
        if report.failed:
            self.broken.append(f"{promise(report.nodeid)}  ({report.nodeid.split('::')[0]})")
            self.say(f"no longer true: {self.broken[-1]}")
        if report.when == "teardown":
            self.done.add(report.nodeid)
        now = time.monotonic()
        if now - self.last >= self.every:
            self.last = now
            self.say(self.state(now - self.begun), passing=True)

    def state(self, elapsed: float) -> str:
        """Return how many tests are done, and about how long the others take."""
        if not self.weights:
            with suppress(ValueError, OSError):
                self.weights = json.loads(self.file.read_text())
        total, done = sum(self.weights.values()), sum(self.weights.get(test, 0.0) for test in self.done)
        left = f", about {clock(elapsed * (total - done) / done)} left" if done > 0.1 * total > 0 else ""
        failed = f", {len(self.broken)} failed" if self.broken else ""
        return f"{len(self.done):,} of {len(self.weights) or '?':,} tests{failed}, {clock(elapsed)}{left}"

    def say(self, text: str, passing: bool = False) -> None:
        """Print a line; on a terminal a passing one is overwritten by the next."""
        terminal = sys.stdout.isatty()
        print(f"\r\x1b[K{text}" if terminal else text, end="" if terminal and passing else "\n", flush=True)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say what users can no longer count on."""
        self.file.unlink(missing_ok=True)
        if self.broken:
            terminalreporter.section("no longer true")
            for line in self.broken:
                terminalreporter.line(line)


def promise(nodeid: str) -> str:
    """Return what a test promises: its name as a sentence."""
    name, _, case = nodeid.split("::")[-1].partition("[")
    return name.removeprefix("test_").replace("_", " ") + (f" [{case}" if case else "")


def clock(seconds: float) -> str:
    """Return a time in minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
