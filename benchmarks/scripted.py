"""What Parley itself costs, without an engine."""

import os
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import PARLEY, REPOSITORY, SNAKEMAKE, Cost, Row, best, consensus_study, cost, temporary_folder
from parley import paths
from parley.study import Study, load_study


def rows() -> Iterator[Row]:
    """Yield the measurements, in a folder that goes away."""
    with temporary_folder():
        yield from _one_simulation()
        yield from _own_code()
        yield from _ten_thousand()
        yield from _plan()


_SNAKEMAKE = (*SNAKEMAKE, "--snakefile", str(REPOSITORY / "Snakefile"), "--cores", "2")


def _write(name: str, grid: dict[str, object], seeds: int, max_rounds: int) -> Study:
    return consensus_study(Path(f"{name}.yaml"), grid, seeds, {"max_rounds": max_rounds}, shard_size=10_000)


def _one_simulation() -> Iterator[Row]:
    # Stubborn agents never agree, so all 50 rounds are played: 800 calls.
    study = _write("long", {"model": "stubborn", "n": 8}, seeds=3, max_rounds=50)
    costs = []
    for simulation in study.simulations():
        record = simulation.record("long")
        costs.append(cost(*PARLEY, "simulate", "long.yaml", str(record)))
    cheapest = min(costs, key=lambda c: c.seconds)
    yield Row("a scripted simulation, 8 agents, 50 rounds, as a process", str(cheapest), "1 s, 200 MB")
    yield Row("its record of 800 calls", f"{record.stat().st_size / 1000:.0f} kB", "")
    yield Row("replay of 800 recorded calls, as a process", str(best(3, *PARLEY, "replay", str(record))), "2 s")


def _own_code() -> Iterator[Row]:
    """Play 100 games of a policy of one's own, each in a process that is forked."""
    os.environ["PYTHONPATH"] = str(REPOSITORY / "examples")
    _write("own", {"model": "own_policy:Median", "n": 8}, seeds=100, max_rounds=50)
    played = cost(*PARLEY, "simulate-shard", "own.yaml", "0", "--services", "own_code")
    yield Row("100 games of a policy of one's own, 8 agents, one shard in one job", str(played), "10 s")


def _played() -> Cost:
    """Return what it costs to play a shard of the study, and play the others too."""
    played = cost(*PARLEY, "simulate-shard", "large.yaml", "0")
    study = load_study(Path("large.yaml"))
    shards = study.shards()
    assert all(record.exists() == (shards[record][1] == 0) for record in shards)
    for number in range(1, len(set(shards.values()))):
        cost(*PARLEY, "simulate-shard", "large.yaml", str(number))
    return played


def _plan() -> Iterator[Row]:
    """Plan 10,000 games of a model: a job for each."""
    grid: dict[str, object] = {"model": "smollm2-135m", "n": [4, 8], "vary": {"max_rounds": list(range(10, 20))}}
    Path("models.yaml").write_text((REPOSITORY / "config" / "models.yaml").read_text(encoding="utf-8"))
    _write("planned", grid, seeds=500, max_rounds=10)
    planned = cost(*_SNAKEMAKE, "--dry-run", "--quiet", "all", "--config", "study=planned.yaml")
    yield Row("plan (`snakemake -n`) of 10,000 model games", str(planned), "10 s")


def _ten_thousand() -> Iterator[Row]:
    grid = {"model": ["majority", "stubborn"], "n": [3, 4, 5, 6, 7], "b": [0, 1], "byzantine": "random"}
    _write("large", grid, seeds=500, max_rounds=2)
    yield Row("expansion of 10,000 simulations", str(best(2, *PARLEY, "expand", "large.yaml")), "")
    dry = (*_SNAKEMAKE, "--dry-run", "--quiet", "all")
    yield Row(
        "expansion and dry run of 10,000, played a shard per job",
        str(cost(*dry, "--config", "study=large.yaml")),
        "30 s",
    )
    yield Row("500 of them, which are a shard, in one process", str(_played()), "")
    yield Row("tables of 10,000 simulations", str(cost(*PARLEY, "summarize", "large.yaml")), "30 s")
    assert paths.table("large", "conditions", ".csv").exists()
