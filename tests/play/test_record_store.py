"""The table of conditions beside records, which tells what their paths do not."""

import json

import pandas as pd
import pyarrow.dataset as ds

from parley import paths
from parley.play.record_store import write_conditions
from support.studies import StudyFactory, play_all


def test_plain_readers_join_what_the_path_does_not_say(study_factory: StudyFactory) -> None:
    vary = {"topology": ["ring", {"kind": "watts_strogatz", "k": 2, "p": 0.5}], "max_rounds": [1, 2]}
    study = study_factory({"b": [0, 1], "byzantine": "random", "vary": vary}, seeds=1, parameters={"value_max": 9})
    play_all(study)
    records = ds.dataset(paths.simulations(study.name), partitioning="hive").to_table(columns=["id", "spec"])
    joined = pd.read_parquet(paths.conditions(study.name)).merge(records.to_pandas().drop_duplicates(), on="spec")
    assert len(joined) == 8
    for simulation in study.simulations():
        [row] = joined[joined["id"] == simulation.id].to_dict("records")
        assert {axis: row[axis] for axis in study.axes} == dict(simulation.condition.axes)
        assert (row["value_max"], row["identity"]) == (9, simulation.condition.identity)
        assert json.loads(row["propose"])["max_tokens"] == 300
    file = paths.conditions(study.name)
    before = file.stat().st_ino
    write_conditions(study)
    assert file.stat().st_ino == before, "written once for a set of conditions"
    write_conditions(study_factory(seeds=1))
    assert len(pd.read_parquet(file)) == 1
