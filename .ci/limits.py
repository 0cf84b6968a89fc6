"""Fails if source, pages or tests have become larger, or tests slower, than .ci/limits.yaml allows.

    python .ci/limits.py                    # lines, modules, words, cases
    python .ci/limits.py .ci/bare           # runs a command, and holds its CPU time against the limit

CPU time is counted over all processes of the command. A slow or crowded machine has as much more of it as a fixed loop
takes longer there, again and again while the command runs, so the limit is one of the tests and not of the machine.
"""

import json
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
_MADE = re.compile(r"<!-- made by .*?<!-- end -->", re.DOTALL)  # of code, where its words are counted as lines
LIMITS = yaml.safe_load((ROOT / ".ci" / "limits.yaml").read_text(encoding="utf-8"))


def lines(files: Iterable[Path]) -> int:
    """Return how many lines files have together."""
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def words(page: Path) -> int:
    """Return how many words of a page somebody wrote."""
    return len(_MADE.sub("", page.read_text(encoding="utf-8")).split())


def size() -> dict[str, int]:
    """Return how large source, pages and tests are."""
    committed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = [ROOT / name for name in committed.splitlines() if (ROOT / name).is_file()]
    python = [file for file in files if file.suffix == ".py"]
    source, tests, benchmarks = (
        [file for file in python if file.is_relative_to(ROOT / folder)] for folder in ("src", "tests", "benchmarks")
    )
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    collected = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {
        "source": lines(source),
        "modules": len(source),
        "pages": lines(file for file in files if file.suffix in (".js", ".css", ".html")),
        "benchmarks": lines(benchmarks),
        "words": sum(words(file) for file in files if file.suffix == ".md"),
        "tests": lines(tests),
        "cases": sum("::" in line for line in collected.splitlines()),
        "support": sum(file.parent.name == "support" and file.name != "__init__.py" for file in tests),
    }


def loop() -> float:
    """Return the CPU seconds of a fixed piece of work: what tests do most, objects and JSON."""
    begun = time.thread_time()
    for number in range(40_000):
        rows = [{"agent": f"agent_{k}", "value": (number * k) % 51, "text": "a" * k} for k in range(8)]
        json.loads(json.dumps(sorted(rows, key=lambda row: row["value"])))
    return time.thread_time() - begun


def run(command: list[str]) -> dict[str, float]:
    """Run a command; return the CPU seconds of all its processes, as they would be on the machine of the limit."""
    process = subprocess.Popen(command)
    loops = [loop()]
    while process.poll() is None:
        time.sleep(10)
        loops.append(loop())
    if process.returncode:
        sys.exit(process.returncode)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    slowness = max(1.0, statistics.median(loops) / LIMITS["cpu_reference"])
    seconds = used.ru_utime + used.ru_stime
    print(
        f"{' '.join(command)}: {seconds:.0f} s of CPU, on a machine {slowness:.2f} times as slow as that of the limit"
    )
    return {"cpu_seconds": seconds / slowness}


def main() -> None:
    """Print what there is beside what is allowed; exit with 1 beyond it."""
    found = run(sys.argv[1:]) if sys.argv[1:] else size()
    for name, value in found.items():
        print(f"{name}: {value:,.0f} of {LIMITS[name]:,}")
    if beyond := [name for name, value in found.items() if value > LIMITS[name]]:
        sys.exit(
            f"limits: beyond .ci/limits.yaml: {', '.join(beyond)}; take something away, or raise the limit there "
            "and say why in docs/decisions.md"
        )


if __name__ == "__main__":
    main()
