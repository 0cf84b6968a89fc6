"""What Parley itself costs, without an engine."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import (
    PARLEY,
    REPOSITORY,
    SNAKEMAKE,
    Row,
    cheapest,
    consensus_study,
    cost,
    temporary_folder,
)

_PLAN = (*SNAKEMAKE, "--snakefile", str(REPOSITORY / "Snakefile"), "--cores", "2", "--dry-run", "--quiet", "all")


def rows() -> Iterator[Row]:
    """Yield the measurements, in a folder that goes away."""
    with temporary_folder():
        yield from _one_simulation()
        yield from _own_code()
        yield from _ten_thousand()
        yield from _plan()


def _one_simulation() -> Iterator[Row]:
    # Stubborn agents never agree, so all 50 rounds are played: 800 calls.
    study = consensus_study(Path("long.yaml"), {"model": "stubborn", "n": 8}, 3, {"max_rounds": 50})
    records = [str(simulation.record("long")) for simulation in study.simulations()]
    played = cheapest(*((*PARLEY, "simulate", "long.yaml", record) for record in records))
    yield Row("a scripted simulation, 8 agents, 50 rounds, as a process", played, "1 s, 200 MB")
    yield Row("its record of 800 calls", f"{Path(records[0]).stat().st_size / 1000:.0f} kB")
    replayed = cheapest(*((*PARLEY, "replay", record) for record in records))
    yield Row("replay of 800 recorded calls, as a process", replayed, "2 s")


def _own_code() -> Iterator[Row]:
    """Play 100 games of a policy of one's own."""
    shutil.copy(REPOSITORY / "examples" / "own_policy.py", Path())
    consensus_study(Path("own.yaml"), {"model": "own_policy:Median", "n": 8}, 100, {"max_rounds": 50})
    played = cost(*PARLEY, "simulate-shard", "own.yaml", "0", "--engine", "own_code")
    yield Row("100 games of a policy of one's own, 8 agents, one shard in one job", played, "10 s")


def _ten_thousand() -> Iterator[Row]:
    grid = {"model": ["majority", "stubborn"], "n": [3, 4, 5, 6, 7], "b": [0, 1], "byzantine": "random"}
    study = consensus_study(Path("many.yaml"), grid, 500, {"max_rounds": 2}, shard_size=500)
    expanded = cheapest(*[(*PARLEY, "expand", "many.yaml")] * 2)
    yield Row("expansion of 10,000 simulations", expanded)
    planned = cost(*_PLAN, "--config", "study=many.yaml")
    yield Row("expansion and dry run of 10,000, played a shard per job", planned, "30 s")
    shards = [cost(*PARLEY, "simulate-shard", "many.yaml", str(shard)) for _, shard in set(study.shards().values())]
    yield Row("500 of them, which are a shard, in one process", min(shards, key=lambda shard: shard.seconds))
    yield Row("tables of 10,000 simulations", cost(*PARLEY, "summarize", "many.yaml"), "30 s")


def _plan() -> Iterator[Row]:
    """Plan 10,000 games of a model: a job for each."""
    grid = {"model": "smollm2-135m", "n": [4, 8], "vary": {"max_rounds": list(range(10, 20))}}
    consensus_study(Path("planned.yaml"), grid, 500, {"max_rounds": 10})
    yield Row("plan (`snakemake -n`) of 10,000 model games", cost(*_PLAN, "--config", "study=planned.yaml"), "10 s")
