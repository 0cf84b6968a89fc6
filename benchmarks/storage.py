"""What it costs to store and fetch a study's records with DVC: 5,000 files, a remote on the same disk.

To play 5,000 simulations would take more than an hour and say nothing about DVC. So one is played, and its record is
written 5,000 times, each with another seed in its metadata: files of real size, at real paths, all different.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pyarrow.parquet as pq
import yaml

from benchmarks.measure import REPOSITORY, SNAKEMAKE, Row, cost, temporary_folder
from parley import paths
from parley.play.simulate import simulate
from parley.study import Study, load_study

RECORDS = 5_000
DVC = (sys.executable, "-m", "dvc")


def rows() -> Iterator[Row]:
    """Yield the measurements, in a folder that goes away."""
    with temporary_folder():
        Path("author/config").mkdir(parents=True)
        shutil.move("models.yaml", "author/config")
        with chdir("author"):
            yield from _author()
        _do("git", "clone", "--quiet", "author", "reader")
        with chdir("reader"):
            yield from _reader()


def _author() -> Iterator[Row]:
    size = _write_records(_study())
    yield Row(f"{RECORDS:,} records of {size / 1000:.0f} kB", f"{RECORDS * size / 1e6:.0f} MB", "")
    _do("git", "init", "--quiet")
    _do(*DVC, "init", "--quiet")
    _do(*DVC, "config", "core.analytics", "false")
    _do(*DVC, "remote", "add", "--quiet", "--default", "store", str(Path("../store").absolute()))
    records = str(paths.simulations("many"))
    yield Row("`dvc add`", _seconds(*DVC, "add", records), "")
    yield Row("`dvc add` again: nothing is new", _seconds(*DVC, "add", records), "")
    yield Row("`dvc push` to the folder", _seconds(*DVC, "push"), "")
    yield Row("`dvc push` again: nothing is new", _seconds(*DVC, "push"), "")
    _do("git", "add", "--all")
    identity = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")
    _do("git", *identity, "commit", "--quiet", "--message", "records")


def _reader() -> Iterator[Row]:
    yield Row("`dvc pull` into a new clone", _seconds(*DVC, "pull"), "")
    found = len(list(paths.simulations("many").rglob("*.parquet")))
    if found != RECORDS:
        sys.exit(f"{found} records were pulled, not {RECORDS}")
    yield Row("`dvc status` of it", _seconds(*DVC, "status"), "")
    dry = (*SNAKEMAKE, "--snakefile", str(REPOSITORY / "Snakefile"), "--dry-run", "--cores", "2", "--quiet", "all")
    yield Row("`snakemake -n` of it", _seconds(*dry, "--config", "study=many"), "")


def _seconds(*command: str) -> str:
    return f"{cost(*command).seconds:.1f} s"


def _do(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _study() -> Study:
    grid = {"model": "stubborn", "n": 8, "prompt": "may_exist"}
    content = {"game": "consensus", "seeds": RECORDS, "parameters": {"max_rounds": 50}, "grids": [grid]}
    file = paths.study_file("many")
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    return load_study(file)


def _write_records(study: Study) -> int:
    """Write all records of `study` from the first one; return the size of one, in bytes."""
    records = [simulation.record(study.name) for simulation in study.simulations()]
    simulate(study, records[0], [], 0.0)
    table = pq.read_table(records[0], partitioning=None)
    shutil.rmtree(paths.journals(study.name))
    for seed, record in enumerate(records):
        record.parent.mkdir(parents=True, exist_ok=True)
        metadata = {**table.schema.metadata, b"seed": str(seed).encode()}
        pq.write_table(table.replace_schema_metadata(metadata), record, compression="zstd", write_page_checksum=True)
    return records[-1].stat().st_size
