"""What it costs to look at 10,000 simulations from Python: `parley.load(...).results()` and its data frames.

Each line is a process of its own. Seconds and memory are what comes on top of importing Parley and loading the study.
"""

import subprocess
import sys
from collections.abc import Iterator

from benchmarks.measure import Row, cost, temporary_folder, ten_thousand
from parley import paths
from parley.analysis.summarize import summarize

_MEASURED = """
import sys, time
import parley

def megabytes():  # the largest resident memory of this process; that of rusage may be its parent's
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024

study = parley.load("many.yaml")
before, start = megabytes(), time.process_time()
frame = eval(sys.argv[1], {"results": study.results()})
print(f"{time.process_time() - start:.2f} s of a CPU, {megabytes() - before:.0f} MB, {len(frame):,} rows")
"""


def rows() -> Iterator[Row]:
    """Yield the measurements, in a folder that goes away."""
    with temporary_folder():
        summarize(ten_thousand())
        for how, aim in ("from the tables", "2 s, 300 MB"), ("from the records, without tables", ""):
            yield _row("results.simulations", f" {how}", aim)
            yield _row("results.conditions", f" {how}")
            for mark in paths.stamp("many", "tables", "*").parent.glob("plan-*.json"):
                mark.unlink()
        yield _row("results.frame('rounds', model='majority', b=1)")
        yield _row("results.frame('attempts', ['agent', 'text'], model='majority', b=1)")
        yield Row("`python -c 'import parley'`", f"{cost(sys.executable, '-c', 'import parley').seconds:.2f} s")


def _row(expression: str, how: str = "", aim: str = "") -> Row:
    command = (sys.executable, "-c", _MEASURED, expression)
    measured = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    return Row(f"`{expression}`{how}", measured, aim)
