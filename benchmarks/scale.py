"""How the stages of a run grow: a study of 77 conditions with more and more seeds, from the plan to the explorer."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import yaml

from benchmarks.measure import REPOSITORY, SNAKEMAKE, Cost, Row, cost, temporary_folder
from parley import paths

SEEDS = (13, 130, 1298)
_AIMS = {  # of 100,000 simulations
    "playing": "20 min, all shards on two cores",
    "tables": "2 min, 1.5 GB",
    "figures": "30 s",
    "report": "20 s",
    "explorer": "1 min",
    "nothing": "15 s",
    "add": "30 s",
    "push": "5 min",
}
DVC = (sys.executable, "-m", "dvc")
_RUN = (*SNAKEMAKE, "--snakefile", str(REPOSITORY / "Snakefile"), "--quiet", "all", "--cores", "2")


def rows() -> Iterator[Row]:
    """Yield the time and memory of each stage by size, as Snakemake measured them, in a folder that goes away."""
    found: dict[tuple[str, str], list[str]] = {}
    for seeds in SEEDS:
        with temporary_folder():
            for what, aim, measured in _stages(seeds):
                found.setdefault((what, aim), []).append(measured)
    for (what, aim), measured_by_size in found.items():
        yield Row(what, "; ".join(measured_by_size), _AIMS.get(aim, ""))


def _stages(seeds: int) -> Iterator[tuple[str, str, str]]:
    content = yaml.safe_load((REPOSITORY / "config" / "theory.yaml").read_text(encoding="utf-8"))
    Path("large.yaml").write_text(yaml.safe_dump(content | {"seeds": seeds}), encoding="utf-8")
    whole = cost(*_RUN, "--config", "study=large.yaml")
    shards = [
        _measured(path) for path in sorted(paths.benchmark("large", "simulate_shard").parent.rglob("shard=*.tsv"))
    ]
    both = Cost(sum(each.seconds for each in shards) / 2, max(each.megabytes for each in shards))
    yield "playing, two shards at once", "playing", str(both)
    for what, rule in (("tables", "summarize"), ("figures", "figures"), ("report", "report"), ("explorer", "view")):
        yield what, what, str(_measured(paths.benchmark("large", rule)))
    yield "all of it", "", str(whole)
    yield "the same again, nothing to do", "nothing", str(cost(*_RUN, "--config", "study=large.yaml"))
    for command in (["git", "init", "--quiet"], [*DVC, "init", "--quiet"], [*DVC, "remote", "add", "-d", "s", "../s"]):
        subprocess.run(command, check=True, capture_output=True)
    records = str(paths.simulations("large"))
    yield "`dvc add` of the records", "", str(cost(*DVC, "add", records))
    yield "`dvc add` again", "add", str(cost(*DVC, "add", records))
    yield "`dvc push` to a folder", "push", str(cost(*DVC, "push"))


def _measured(path: Path) -> Cost:
    if not path.exists():
        sys.exit(f"{path}: Snakemake measured nothing")
    [row] = pd.read_csv(path, sep="\t").to_dict("records")
    return Cost(float(row["s"]), float(row["max_rss"]))
