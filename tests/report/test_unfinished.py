"""The report of a study that is not finished: all that it makes says so, and nothing of the study is touched."""

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from parley import paths
from parley.play.simulate import simulate
from parley.study import Study
from support.commands import Parley, one_line_error
from support.studies import StudyFactory

pytestmark = pytest.mark.promise("A report on an unfinished study says so everywhere and touches nothing.")

QUESTION = {"name": "size", "outcome": "valid_consensus", "compare": "n", "smallest": 0.1}
SAID = "UNFINISHED: 6 of 8 simulations; the rest is not played."
MADE = Path("results/small/unfinished")


@pytest.fixture
def study(study_factory: StudyFactory) -> Study:
    """A study of two conditions and a third of which nothing is played."""
    made = study_factory({"n": [3, 4]}, {"n": 5, "seeds": 2}, seeds=3, questions=[QUESTION])
    for simulation in made.simulations():
        if simulation.condition.axes["n"] != 5:
            simulate(made, simulation.record(made.name), [], 0.0)
    return made


def contents(*folders: str) -> dict[Path, bytes]:
    return {path: path.read_bytes() for folder in folders for path in Path(folder).rglob("*") if path.is_file()}


@pytest.mark.slow
def test_tables_figures_page_and_explorer_say_so(study: Study, parley: Parley) -> None:
    ran = parley("report", "small.yaml", "--unfinished")
    assert (ran.status, ran.out.splitlines()[-1]) == (0, f"{MADE}/report/report.html")
    page = (MADE / "report/report.html").read_text()
    assert page.count(SAID) >= 3  # the head, the methods, the captions
    assert "<title>UNFINISHED: " in page
    assert "Nothing is counted yet of: model=majority, n=5" in page
    assert "parley summarize small" not in page
    for name in paths.TABLES:
        parquet = pq.read_table(MADE / f"tables/{name}.parquet")
        assert parquet.schema.metadata[b"parley.unfinished"].decode() == SAID
        assert set(parquet["unfinished"].to_pylist()) <= {"6 of 8 simulations"}
        rows = list(csv.reader((MADE / f"tables/{name}.csv").read_text().splitlines()))
        assert rows[0][-1] == "unfinished"
        assert {row[-1] for row in rows[1:]} <= {"6 of 8 simulations"}
    for figure in json.loads((MADE / "figures/figures.json").read_text()):
        assert figure["notes"].startswith(SAID)
        assert "UNFINISHED: 6 of 8" in (MADE / f"figures/{figure['name']}.svg").read_text()
    assert (MADE / "view/index.html").is_file()


@pytest.mark.slow
def test_nothing_of_the_study_is_touched_until_it_is_finished(study: Study, parley: Parley) -> None:
    before = contents("results")
    ran = parley("summarize", "small.yaml", "--unfinished")
    assert (ran.status, ran.out.splitlines()[1]) == (0, SAID)
    made = (MADE, paths.processes(paths.results("small")))  # processes say what they do, whatever that is
    assert {path: data for path, data in contents("results").items() if not {*made} & {*path.parents}} == before
    # A question whose conditions are not played stays in its family.
    questions = pq.read_table(MADE / "tables/questions.parquet").to_pylist()
    assert [(row["to"], row["pairs"], row["answer"] == "no pairs") for row in questions] == [
        ("4", 3, False),
        ("5", 0, True),
    ]
    for simulation in study.simulations():
        simulate(study, simulation.record(study.name), [], 0.0)
    assert parley("summarize", "small.yaml").status == 0
    assert not MADE.exists()
    header = Path("results/small/tables/conditions.csv").read_text().splitlines()[0].split(",")
    assert not {"unfinished", "planned"}.intersection(header)
    assert "leave --unfinished" in one_line_error(parley("report", "small.yaml", "--unfinished"), 2)


@pytest.mark.slow
def test_a_damaged_record_is_counted_as_damaged_and_strict_refuses_it(study: Study, parley: Parley) -> None:
    record = next(study.simulations()).record(study.name)
    record.write_bytes(record.read_bytes()[:200])
    said = "UNFINISHED: 5 of 8 simulations; 1 record damaged and left out; the rest is not played."
    ran = parley("summarize", "small.yaml", "--unfinished")
    assert (ran.status, ran.out.splitlines()[1]) == (0, said)
    assert str(record) in ran.err
    conditions = pq.read_table(MADE / "tables/conditions.parquet").to_pylist()
    assert [(row["n"], row["simulations"], row["left_out"]) for row in conditions] == [(3, 2, 1), (4, 3, 0)]
    assert str(record) in one_line_error(parley("summarize", "small.yaml", "--unfinished", "--strict"), 1)
