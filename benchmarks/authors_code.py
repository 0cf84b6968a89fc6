"""Replies per second beside the consensus paper's own code, on the same engine (CPU, SmolLM2-135M).

Needs a clone of theirs: PARLEY_AUTHORS_CODE=FOLDER python -m benchmarks.run authors_code
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import yaml

from benchmarks.engine import ENDPOINT, MODEL, SERVE
from benchmarks.measure import REPOSITORY, Row, temporary_folder
from benchmarks.serving import played, serving
from parley import paths
from parley.study import load_study

ROUNDS, N = 2, 4


def rows() -> Iterator[Row]:
    """Yield the measurements; none where their code is not at hand."""
    if not (code := os.environ.get("PARLEY_AUTHORS_CODE")):
        return
    with temporary_folder():
        for b in (0, 1):
            theirs = _theirs(Path(code), b)
            yield Row(f"replies per second of their code, {N} agents, {b} Byzantine", f"{theirs:.2f}", "")
            for games in (1, 16):
                ours = _ours(b, games)
                yield Row(f"Parley's, {games} at once", f"{ours:.2f}: {ours / theirs:.1f} times as many", "")


def _theirs(code: Path, b: int) -> float:
    model = next(path for path in paths.MODELS.absolute().glob(f"{MODEL}-*/model"))
    command = [sys.executable, str(REPOSITORY / "examples" / "authors_code.py"), str(code), str(model)]
    options = ["--honest", str(N - b), "--byzantine", str(b), "--rounds", str(ROUNDS), "--games", "2"]
    ran = subprocess.run([*command, *options], stdout=subprocess.PIPE, text=True, check=True)
    told = json.loads(ran.stdout.splitlines()[-1])
    return float(told["replies"] / told["seconds"])


def _ours(b: int, games: int) -> float:
    grid = {"model": MODEL, "n": N, "b": b, "prompt": "may_exist"}
    parameters = {"max_rounds": ROUNDS, "stop_threshold": 1, "rules": "published_code"}
    study = {"game": "consensus", "seeds": games + 1, "parameters": parameters, "grids": [grid]}
    Path("bench.yaml").write_text(yaml.safe_dump(study), encoding="utf-8")
    first, *simulations = load_study(Path("bench.yaml")).simulations()
    with serving(SERVE, ENDPOINT):
        asyncio.run(played([first], ENDPOINT))  # warms the engine up, on both sides
        begun = time.perf_counter()
        asked = asyncio.run(played(simulations, ENDPOINT))
        return len(asked) / (time.perf_counter() - begun)
