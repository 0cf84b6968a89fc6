"""`--json`: the tables of commands for programs, with nothing else on standard output."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from parley import paths
from support.commands import Parley, one_line_error
from support.studies import StudyFactory, make_study

pytestmark = pytest.mark.promise("Commands that print tables print one JSON value with `--json`, and nothing else.")


def printed(parley: Parley, *arguments: object) -> Any:
    ran = parley(*arguments, "--json")
    assert ran.status == 0, ran.err
    return json.loads(ran.out)


@pytest.mark.slow
def test_tables_are_printed_as_json(parley: Parley, folder: Path) -> None:
    study = make_study()
    records = [simulation.record("tiny") for simulation in study.simulations()]
    records[-1].write_bytes(b"no")  # warned of on stderr

    conditions = printed(parley, "expand", "tiny")
    assert [(c["n"], c["b"], c["seeds"]) for c in conditions][-1] == (7, 3, [0, 1])
    assert printed(parley, "expand", "tiny", "--paths") == [str(record) for record in records]

    rows = printed(parley, "summarize", "tiny")
    table = pd.read_parquet(paths.table("tiny", "conditions", ".parquet"))
    assert [row["simulations"] for row in rows] == table["simulations"].tolist() == [3] * 7 + [2] * 3
    assert rows[0]["valid_consensus_rate"] == table["valid_consensus_rate"][0]

    status = printed(parley, "status", "tiny")
    assert (status["simulations"], status["finished"], len(status["conditions"])) == (28, 28, 10)
    assert (status["seconds_left"], status["former_records"]) == (None, 0)
    assert status["problems"] == []

    planned = printed(parley, "plan", "tiny")
    assert planned["takes"]["tokens"] == 0
    assert planned["questions"] == []

    assert printed(parley, "replay", *records[:2])[1]["record"] == str(records[1])
    [found] = printed(parley, "problems", "arithmetic", "--show", 2)
    assert [problem["seed"] for problem in found["first"]] == [0, 1]


def test_what_no_record_tells_is_null(parley: Parley, study_factory: StudyFactory) -> None:
    study_factory({"model": "tiny"})
    planned = printed(parley, "plan", "small.yaml")
    assert [planned["takes"][part] for part in ("hours", "gpu_hours", "money")] == [None] * 3
    assert planned["takes"]["tokens"] < planned["takes_at_most"]["tokens"]
    assert planned["known_from"] == {"no record": ["tiny"]}
    assert "--json: not used with --watch" in one_line_error(parley("status", "small.yaml", "--watch", "--json"), 2)
