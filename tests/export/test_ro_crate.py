"""RO-Crate: the validator of the profile finds nothing, and the crate holds what it lists."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from parley.export.write import export
from parley.figures.make import figures
from parley.study import Study
from support import REPOSITORY
from support.commands import Parley, one_line_error
from support.exports import run_beside
from support.studies import make_study

pytestmark = pytest.mark.slow
GRIDS = "[{model: majority, n: 4, b: [0, 1], byzantine: random, prompt: may_exist}]"


@pytest.fixture
def study(folder: Path) -> Study:
    shutil.copy(REPOSITORY / "Snakefile", folder)
    shutil.copytree(REPOSITORY / "workflow", folder / "workflow")
    study = make_study(GRIDS, title="Do they agree?", extra="# notes: /home/zaphod/secret/notes.txt\n")
    return study


def entities(crate: Path) -> dict[str, Any]:
    graph = json.loads((crate / "ro-crate-metadata.json").read_text())["@graph"]
    return {entity["@id"]: entity for entity in graph}


def test_the_validator_finds_nothing(study: Study, parley: Parley, beside: Path, tmp_path: Path) -> None:
    ran = parley(
        "export", "tiny", "--to", "ro-crate", "--license", "CC-BY-4.0", "--author", "Jo Doe", "--out", "crate"
    )
    assert (ran.status, ran.out) == (0, "crate\n")
    shutil.copytree("crate", "wrong")
    file = Path("wrong/ro-crate-metadata.json")
    file.write_text(file.read_text().replace('"instrument"', '"tool"'))
    right, wrong = run_beside(beside, "crate_is_valid.py", tmp_path, "crate", "wrong")
    assert right == []
    assert any("instrument" in problem for problem in wrong)


def test_the_crate_holds_the_run_and_what_came_of_it(study: Study, tmp_path: Path) -> None:
    drawn = figures(study)
    crate = export(study, "ro-crate")
    found = entities(crate)
    run = found["#run"]
    assert run["instrument"] == {"@id": "Snakefile"}
    assert run["startTime"] <= run["endTime"]
    assert found["./"]["mainEntity"] == {"@id": "Snakefile"}
    results = {each["@id"] for each in run["result"]}
    assert {str(path) for path in drawn} <= results
    assert {"results/tiny/simulations/", "results/tiny/tables/manifest.parquet"} <= results
    for entity in found.values():
        if entity["@type"] == "File" and "sha256" in entity:
            assert hashlib.sha256((crate / entity["@id"]).read_bytes()).hexdigest() == entity["sha256"]
    records = {str(path.relative_to(crate)) for path in crate.rglob("seed=*.parquet")}
    assert records == {str(simulation.record("tiny")) for simulation in study.simulations()}
    versions = {e["name"]: e["softwareVersion"] for e in found.values() if e["@type"] == "SoftwareApplication"}
    assert {"parley", "python", "numpy"} <= set(versions)
    assert not list(crate.rglob("plan-*.json"))


def test_paths_of_this_machine_stay_out_of_the_study_file(study: Study, caplog: pytest.LogCaptureFixture) -> None:
    crate = export(study, "ro-crate")
    text = (crate / "config" / "tiny.yaml").read_text()
    assert "zaphod" not in text
    assert "notes.txt" in text
    assert "paths of this machine stand in it" in caplog.text


def test_without_the_workflow_it_is_refused_before_a_record_is_read(study: Study, parley: Parley) -> None:
    Path("Snakefile").unlink()
    for simulation in study.simulations():  # read, they would be named instead
        simulation.record("tiny").write_bytes(b"")
    assert "no Snakefile here" in one_line_error(parley("export", "tiny", "--to", "ro-crate"), 2)
