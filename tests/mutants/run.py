"""Which faults the tests find: puts each mutant of mutants.yaml into a copy of a tree, and runs the tests there.

Of each mutant first the fast tests that name its module or function, then those of its room, then the slow ones of its
room and of the files that it names, up to the first that fails. A test that fails in the tree as it is finds nothing:
it is named at the end.

    python tests/mutants/run.py --fast --out found.tsv
    python tests/mutants/run.py --tree ../other-checkout --only retry-draws-the-same-seed

The tree needs its tests committed, and the packages of the Python that runs this. Exits 1 if a mutant is missed.
"""

import argparse
import importlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
import yaml

HERE = Path(__file__).resolve().parent
LONGEST_TEST = 300.0  # seconds; one that takes longer hangs
FAST, SLOW = "not slow and not model and not rare", "(slow or rare) and not model"
OPTIONS = [
    "-q",
    *(f"-pno:{name}" for name in ("cacheprovider", "xdist", "xdist.looponfail", "pytest_cov", "hydra_pytest")),
]
OPTIONS += [
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",
    "-o",
    "addopts=--import-mode=importlib --strict-markers --mpl",
]
# Imported once, and not once a mutant: that halves the time of most. Nothing of Parley is among them.
HEAVY = (
    *(
        "pandas",
        "scipy.stats",
        "scipy.optimize",
        "statsmodels.api",
        "networkx",
        "pyarrow.parquet",
        "pydantic",
        "rich.live",
    ),
    *("matplotlib.pyplot", "matplotlib.testing.compare", "hypothesis", "httpx", "jinja2", "psutil", "click.testing"),
    *("cryptography.hazmat.primitives.asymmetric.ed25519", "statsmodels.genmod.generalized_estimating_equations"),
)
MAX_FILES = 3  # of the tests that are chosen for one mutant
_moments = count(1_000_000_000)  # Python tells sources apart by second and size: each state of a file gets its own


class Copy:
    """A clone of a tree in which mutants are put and tests run."""

    def __init__(self, tree: Path, folder: Path) -> None:
        subprocess.run(["git", "clone", "--quiet", "--shared", str(tree), str(folder)], check=True)
        (folder / ".venv").symlink_to(tree / ".venv")
        self.folder = folder

    @contextmanager
    def mutated(self, mutant: dict[str, Any]) -> Iterator[None]:
        """Put a mutant into the copy; raises SystemExit if its text is not there once."""
        text = (self.folder / mutant["file"]).read_text()
        if text.count(mutant["old"]) != 1:
            sys.exit(f"{mutant['id']}: its old text stands {text.count(mutant['old'])} times in {mutant['file']}")
        self._write(mutant["file"], text.replace(mutant["old"], mutant["new"]))
        try:
            yield
        finally:
            self._write(mutant["file"], text)

    def _write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)
        os.utime(self.folder / name, (moment := next(_moments), moment))

    def test(self, arguments: Sequence[str], seconds: float) -> str:
        """Run pytest up to the first test that fails, and return that, or the one that the time limit ended.

        All that it started ends with it.
        """
        notes = self.folder.with_suffix(".notes")
        notes.write_text("")
        if not (child := os.fork()):
            self._child(arguments, notes)
        end, hung = time.monotonic() + seconds, False
        try:
            while not hung and os.waitpid(child, os.WNOHANG) == (0, 0):
                hung = time.monotonic() > end or time.time() - notes.stat().st_mtime > LONGEST_TEST
                time.sleep(0.1)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
        lines = [line.partition(" ") for line in notes.read_text().splitlines()]
        if hung:
            return f"time-out in {[test for mark, _, test in lines if mark == 'started'][-1:]}"
        return next((test for mark, _, test in lines if mark == "failed"), "")

    def _child(self, arguments: Sequence[str], notes: Path) -> None:
        os.setsid()
        os.chdir(self.folder)
        os.environ["PYTHONPATH"] = sys.path[0] = str(self.folder / "src")  # before where the package is installed
        os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        output = os.open(self.folder.with_suffix(".output"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for stream in (1, 2):
            os.dup2(output, stream)
        status = 1
        with notes.open("a", buffering=1) as file, suppress(BaseException):
            status = pytest.main([*OPTIONS, "-x", *arguments], plugins=[_Notes(file)])
            if status not in (0, 1, 5):  # of which pytest names no test
                file.write("failed pytest\n")
        os._exit(status)


class _Notes:
    """Notes which tests start and fail."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._file.write(f"started {nodeid}\n")

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self._file.write(f"failed {report.nodeid}\n")

    pytest_collectreport = pytest_runtest_logreport


def chosen(tests: dict[str, str], mutant: dict[str, Any], source: str) -> list[str]:
    """Return the test files that name the mutated module or the function, the likeliest first; `tests` has texts."""
    if not mutant["file"].endswith(".py"):
        return []
    parts = Path(mutant["file"]).with_suffix("").parts
    package, stem = ".".join(parts[1:-1]), parts[-1]
    imported = rf"{package}(?:\.| import [^\n]*\b| import \([^)]*\b){stem}" if package else stem
    module = re.compile(rf"\b{imported}\b")
    before = source[: source.index(mutant["old"])] + mutant["old"]
    names = re.findall(r"^\s*(?:async )?(?:def|class|function|rule) (\w+)", before, re.MULTILINE)[-2:]
    named = re.compile(rf"\b(?:{'|'.join(filter(lambda name: name[0] != '_', names)) or 'NOTHING'})\b")
    scores = {}
    for path, text in tests.items():
        likely = 3 * bool(module.search(text)) + 2 * bool(named.search(text))
        likely += 3 * (Path(path).stem == f"test_{stem}") + (Path(path).parent == Path("tests", mutant["room"]))
        scores[path] = likely
    return [path for path in sorted(scores, key=lambda path: -scores[path]) if scores[path] > 2][:MAX_FILES]


def main() -> None:
    """Read the arguments, run, and print a line for each mutant: id, found by, test, seconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", type=Path, default=HERE.parents[1], help="the checkout to test; default: this one")
    parser.add_argument("--only", nargs="+", metavar="ID", help="only these mutants")
    parser.add_argument("--fast", action="store_true", help="only tests that are not marked slow")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at once")
    parser.add_argument("--limit", type=float, default=900, help="seconds that one kind of tests of a mutant may take")
    parser.add_argument("--out", type=Path, help="also write the lines into this file, as they come")
    given = parser.parse_args()
    mutants = yaml.safe_load((HERE / "mutants.yaml").read_text())
    if unknown := set(given.only or []) - {m["id"] for m in mutants}:
        parser.error(f"no mutant is called {min(unknown)}")
    mutants = [m for m in mutants if not given.only or m["id"] in given.only]
    tree = given.tree.resolve()
    if subprocess.run(["git", "-C", str(tree), "status", "--porcelain"], capture_output=True, text=True).stdout:
        print("what is not committed is not tested", file=sys.stderr)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    for name in HEAVY:
        importlib.import_module(name)
    lines = given.out.open("a", buffering=1) if given.out else None

    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies: Queue[Copy] = Queue()
        for number in range(given.jobs):
            copies.put(copy := Copy(tree, Path(folder) / f"copy-{number}"))
        files = [file for file in (copy.folder / "tests").rglob("test_*.py") if "mutants" not in file.parts]
        tests = {str(file.relative_to(copy.folder)): file.read_text() for file in sorted(files)}

        def found(mutant: dict[str, Any]) -> tuple[str, str]:
            """Return which kind of tests finds a mutant, and which test."""
            own, began = copies.get(), time.monotonic()
            likely = chosen(tests, mutant, (own.folder / mutant["file"]).read_text())
            named = [f"tests/{mutant['room']}", *mutant.get("tests", [])]
            steps = [("fast", likely, FAST), ("fast", named, FAST), *[("slow", named, SLOW)] * (not given.fast)]
            by, test = "MISSED", ""
            with own.mutated(mutant):
                for kind, places, marks in steps:
                    there = [place for place in places if (own.folder / place).exists()]
                    if there and (test := own.test([*there, "-m", marks], given.limit)):
                        by = kind
                        break
            copies.put(own)
            line = f"{mutant['id']}\t{by}\t{test}\t{time.monotonic() - began:.0f}"
            print(line, file=lines) if lines else None
            print(line, flush=True)
            return by, test

        with ThreadPoolExecutor(given.jobs) as pool:
            try:
                results = list(pool.map(found, mutants))
            except BaseException:  # stopped: what runs now is the last
                pool.shutdown(cancel_futures=True)
                raise
        failing = sorted({test for _, test in results if "::" in test and not test.startswith("time-out")})
        broken = copy.test(failing, 20 * given.limit) if failing else ""
    if broken:
        print(f"{broken} fails without a mutant, too", file=sys.stderr)
    sys.exit(bool(broken) or any(by == "MISSED" for by, _ in results))


if __name__ == "__main__":
    main()
