"""What it costs to look at 10,000 simulations from Python: `parley.load(...).results()` and its data frames.

Each line is a process of its own. Seconds and memory are what comes on top of importing Parley and loading the study.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Row, consensus_study, cost, temporary_folder
from parley import paths
from parley.analysis.summarize import summarize
from parley.play.simulate import simulate_shard
from parley.study.condition import SCRIPTED

SEEDS = 500
_MEASURED = """
import sys, time
import parley

def megabytes():  # the largest resident memory of this process; that of rusage may be its parent's
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024

study = parley.load("many")
before, start = megabytes(), time.process_time()
frame = eval(sys.argv[1], {"results": study.results()})
print(f"{time.process_time() - start:.2f} s of a CPU, {megabytes() - before:.0f} MB, {len(frame):,} rows")
"""


def rows() -> Iterator[Row]:
    """Yield the measurements, in a folder that goes away."""
    with temporary_folder():
        _write_and_play()
        yield from _looked_at("from the tables", aim="2 s, 300 MB")
        for mark in paths.stamp("many", "tables", "*").parent.glob("plan-*.json"):
            mark.unlink()
        yield from _looked_at("from the records, without tables", aim="")
        some = 'model="majority", b=1'
        yield _row(f"`frame('rounds', {some})`", f"results.frame('rounds', {some})")
        yield _row(
            f"`frame('attempts', ['agent', 'text'], {some})`", f"results.frame('attempts', ['agent', 'text'], {some})"
        )
        yield Row("`python -c 'import parley'`", f"{cost(sys.executable, '-c', 'import parley').seconds:.2f} s", "")


def _looked_at(how: str, aim: str) -> Iterator[Row]:
    yield _row(f"`results.simulations` {how}", "results.simulations", aim)
    yield _row(f"`results.conditions` {how}", "results.conditions")


def _row(what: str, expression: str, aim: str = "") -> Row:
    command = (sys.executable, "-c", _MEASURED, expression)
    return Row(what, subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip(), aim)


def _write_and_play() -> None:
    """Play 10,000 games of two rounds and write their tables."""
    grid = {"model": ["majority", "stubborn"], "n": [3, 4, 5, 6, 7], "b": [0, 1], "byzantine": "random"}
    paths.CONFIG.mkdir()
    Path("models.yaml").rename(paths.CONFIG / "models.yaml")
    study = consensus_study(paths.study_file("many"), grid, SEEDS, {"max_rounds": 2})
    for number in range(len(set(study.shards().values()))):
        simulate_shard(study, SCRIPTED, number)
    summarize(study)
