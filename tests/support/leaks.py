"""All that a study keeps, as text."""

import json
from collections.abc import Iterator

import pyarrow.parquet as pq

from parley import paths
from parley.play import record, show
from parley.study import Study


def everything(study: Study) -> Iterator[tuple[str, str]]:
    """Yield name and content of all results, decompressed."""
    for simulation in study.simulations():
        path = simulation.record(study.name)
        rows = pq.read_table(path, partitioning=None)
        metadata = {key.decode(): value.decode() for key, value in rows.schema.metadata.items()}
        yield f"{path} metadata", json.dumps(metadata)
        yield f"{path} rows", json.dumps(rows.to_pylist(), default=str)
        yield f"{path} as it is", path.read_bytes().decode("latin-1")
        summary = record.read_summary(path)
        yield f"{path} shown", show.summary_text(path, summary) + show.study_text(show.study_files(path, summary))
    for path in paths.results(study.name).rglob("*.*"):
        if path.suffix in (".csv", ".html", ".svg"):
            yield str(path), path.read_text()
