"""Exports, read by the tools that they are for: inspect_ai, the validator of RO-Crates, Croissant's library."""

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

from parley import paths
from parley.analysis.summarize import summarize
from parley.cli import commands
from parley.export import export
from parley.export.about import NO_LICENSE, license_url
from parley.games.registry import GAMES
from parley.imports.import_games import import_games
from parley.study import Study, load_study
from parley.study.own_prompts import write_templates
from support import REPOSITORY
from support.exports import read_beside
from support.pages import with_pictures
from support.records import reply_lines, write_lines
from support.studies import make_study

beside_this_one = pytest.mark.rare  # needs the second environment (`make exports`)
pytestmark = [
    pytest.mark.promise("Exports open in inspect_ai; RO-Crates and Croissant files pass their validators."),
    pytest.mark.slow,
    # mlcroissant uses what its libraries are about to remove.
    pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The inplace keyword"),
]
GRIDS = "[{model: majority, n: 4, b: [0, 1], byzantine: random, prompt: may_exist}]"
TERMS = ("--license", "CC-BY-4.0", "--author", "Jo Doe")
THEIRS = ("their paper", "CC-BY-NC-4.0")


def exported(study: str, form: str, *options: str) -> Path:
    """Run the command in this process and return the folder that it names."""
    ran = CliRunner().invoke(commands, ["export", study, "--format", form, *options])
    assert ran.exit_code == 0, ran.output
    return Path(ran.stdout.strip())


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a scripted study, one of which a record is damaged, and imported games with a failed reply."""
    folder = tmp_path_factory.mktemp("home")
    shutil.copy(REPOSITORY / "Snakefile", folder)
    shutil.copytree(REPOSITORY / "workflow", folder / "workflow")
    with chdir(folder):
        broken = make_study(GRIDS, name="broken")
        record = next(iter(broken.simulations())).record("broken")
        record.write_bytes(record.read_bytes()[:-30])
        lines = reply_lines(["ss", "hh"], game="stag_hunt")
        lines[0]["text"] = "no JSON \u202e</script>"
        import_games("jsonl", write_lines(Path("games.jsonl"), lines), "theirs", True, *THEIRS)
        summarize(load_study(Path("config/theirs.yaml")))
        make_study("[{model: random, n: 3, prompt: may_exist}]", name="again", extra="repeats: 2\n")
        yield folder


@pytest.fixture(scope="module")
def study(home: Path) -> Study:
    return with_pictures(make_study(GRIDS, title="Do they agree?", extra="# notes: /home/zaphod/secret/notes.txt\n"))


@pytest.fixture(scope="module")
def crate(study: Study) -> Path:
    return exported("tiny", "ro-crate", *TERMS)


@pytest.fixture(scope="module")
def found(crate: Path, home: Path, beside: Path) -> Any:
    """What one process finds in the logs of three studies, in the crate, and in one that is wrong."""
    shutil.copytree(crate, "wrong")
    file = Path("wrong/ro-crate-metadata.json")
    file.write_text(file.read_text().replace('"instrument"', '"tool"'))
    return read_beside(
        beside, home, {"inspect_reads": ["tiny", "broken", "theirs", "again"], "crate_is_valid": [crate, "wrong"]}
    )


@pytest.fixture(scope="module")
def read(found: Any) -> Any:
    return found["inspect_reads"]


# inspect_ai


@beside_this_one
def test_each_repeat_of_a_seed_is_an_epoch_of_its_sample(read: Any) -> None:
    samples = [(sample["id"], sample["epoch"]) for log in read["again"]["logs"] for sample in log["samples"]]
    assert sorted(samples) == [(0, 1), (0, 2), (1, 1), (1, 2)]


@beside_this_one
def test_a_log_is_a_condition_and_a_sample_a_simulation(read: Any, study: Study) -> None:
    logs = {log["task"]: log for log in read["tiny"]["logs"]}
    assert set(logs) == {f"tiny/model=majority,n={n},b={b},prompt=may_exist" for n, b in ((4, 0), (4, 1))}
    samples = [sample for log in logs.values() for sample in log["samples"]]
    assert {sample["uuid"] for sample in samples} == {simulation.id for simulation in study.simulations()}
    table = pd.read_parquet(paths.table("tiny", "simulations", ".parquet")).set_index("id")
    for sample in samples:
        row = table.loc[sample["uuid"]]
        scores = sample["scores"]
        assert (sample["id"], scores["outcome"]) == (row["seed"], row["outcome"])
        assert (scores["value_changes"], len(sample["models"])) == (row["value_changes"], row["calls"])
    for log in logs.values():
        assert log["status"] == "success"
        assert sum(log["scores"]["outcome"].values()) == pytest.approx(1)
    assert sum(len(log["samples"]) for log in read["broken"]["logs"]) == 3  # a damaged record is left out
    # Its data frames open the logs.
    calls = sum(len(sample["models"]) for sample in samples)
    frames = read["tiny"]["frames"]
    assert [frames[name]["rows"] for name in ("evals", "samples", "events")] == [2, len(samples), calls]


@beside_this_one
def test_attempts_are_events_in_the_span_of_their_agent(read: Any, study: Study) -> None:
    sample = read["tiny"]["logs"][0]["samples"][0]
    simulation = next(simulation for simulation in study.simulations() if simulation.id == sample["uuid"])
    rows = pd.read_parquet(simulation.record("tiny"), partitioning=None)
    assert sorted(model["text"] for model in sample["models"]) == sorted(rows["text"])
    assert sample["messages"] == list(rows["text"])
    by_text = {(row.agent, row.user): row for row in rows.itertuples()}
    spans = {span[2]: span for span in sample["spans"]}
    for model in sample["models"]:
        row = by_text[model["agent"], model["input"][-1]]
        assert (model["input"], model["seed"]) == ([row.system, row.user], row.request_seed)
        assert model["seconds"] == pytest.approx(row.seconds)
        kind, name, _, parent = spans[model["span"]]
        assert (kind, name) == ("agent", row.agent)
        assert spans[parent][:2] == ["phase", row.phase]
        assert spans[spans[parent][3]][:2] == ["round", f"round {row.round}"]


@beside_this_one
def test_imported_games_keep_failed_replies_hostile_text_source_and_license(read: Any) -> None:
    [log] = read["theirs"]["logs"]
    [sample] = log["samples"]
    [failed] = [model for model in sample["models"] if model["error"]]
    assert failed["text"] == "no JSON \u202e</script>"
    assert failed["error"].startswith("invalid_json")
    told = {"format": "jsonl", "source": THEIRS[0], "license": THEIRS[1]}
    assert log["metadata"]["imported"] == told
    assert told.items() <= sample["metadata"]["imported"].items()


@beside_this_one
def test_reasoning_and_tokens_are_where_its_readers_look(read: Any) -> None:
    reasoned = read["reasoned"]
    assert (reasoned["reasoning"], reasoned["text"]) == (["Let me think."], "the reply")
    assert (reasoned["error"], reasoned["stop"]) == ("length: cut off", "max_tokens")
    # Of 100 tokens of the question 60 were in the cache: inspect_ai counts those apart.
    usage = {"input_tokens": 40, "input_tokens_cache_read": 60, "output_tokens": 30, "reasoning_tokens": 20}
    assert reasoned["usage"] == usage | {"total_tokens": 130}


# RO-Crate


@beside_this_one
def test_the_validator_finds_nothing_in_a_crate_that_is_right(found: Any) -> None:
    right, wrong = found["crate_is_valid"]
    assert right == []
    assert any("instrument" in problem for problem in wrong)


def test_the_crate_holds_the_run_and_what_came_of_it(study: Study, crate: Path) -> None:
    graph = json.loads((crate / "ro-crate-metadata.json").read_text())["@graph"]
    entities = {entity["@id"]: entity for entity in graph}
    run = entities["#run"]
    assert run["instrument"] == entities["./"]["mainEntity"] == {"@id": "Snakefile"}
    assert run["startTime"] <= run["endTime"]
    results = {each["@id"] for each in run["result"]}
    assert {str(paths.figure("tiny", spec.name, ".svg")) for spec in study.figures} <= results
    assert {"results/tiny/simulations/", "results/tiny/tables/manifest.parquet"} <= results
    files = [entity for entity in entities.values() if entity["@type"] == "File" and "sha256" in entity]
    assert files
    for entity in files:
        assert hashlib.sha256((crate / entity["@id"]).read_bytes()).hexdigest() == entity["sha256"]
    records = {str(path.relative_to(crate)) for path in crate.rglob("seed=*.parquet")}
    assert records == {str(simulation.record("tiny")) for simulation in study.simulations()}


def test_prompts_that_a_study_brings_travel_with_it(home: Path) -> None:
    write_templates(GAMES["consensus"], "may_exist", Path("config/prompts/mine"))
    grids, extra = "[{model: majority, n: 3, prompt: mine}]", "prompts: {mine: prompts/mine}\n"
    study = make_study(grids, name="own", extra=extra)
    with chdir(exported("own", "ro-crate", *TERMS)):
        again = load_study(Path("config/own.yaml"))
        assert [s.id for s in again.simulations()] == [s.id for s in study.simulations()]


def test_paths_of_this_machine_stay_out_of_the_study_file(study: Study, caplog: pytest.LogCaptureFixture) -> None:
    text = (export(study, "ro-crate", Path("again")) / "config" / "tiny.yaml").read_text()
    assert ["zaphod" in text, "notes.txt" in text] == [False, True]
    assert "paths of this machine stand in it" in caplog.text


# Croissant


@pytest.fixture(scope="module")
def croissant(study: Study) -> Path:
    return exported("tiny", "croissant", *TERMS, "--output", "data")


def test_croissant_s_library_finds_nothing_and_loads_the_records(croissant: Path, study: Study) -> None:
    import mlcroissant as mlc  # with PyTorch, which takes seconds to import

    data = mlc.Dataset(str(croissant / "croissant.json"))  # raises what it finds wrong
    assert not data.metadata.ctx.issues.warnings
    assert data.metadata.license == ["https://spdx.org/licenses/CC-BY-4.0"]
    assert data.metadata.creators[0].name == "Jo Doe"
    rows = list(data.records("simulations"))
    table = pd.read_parquet(paths.table("tiny", "simulations", ".parquet"))
    assert [row["simulations/id"].decode() for row in rows] == list(table["id"])
    assert [row["simulations/rounds"] for row in rows] == list(table["rounds"])
    replies = list(data.records("replies"))
    assert len(replies) == table["calls"].sum()
    records = pd.concat(pd.read_parquet(path, partitioning=None) for path in study.records(by_shard=True))
    assert [row["replies/text"].decode() for row in replies] == list(records["text"])


def test_every_field_says_what_it_means_and_every_file_has_a_checksum(croissant: Path) -> None:
    content = json.loads((croissant / "croissant.json").read_text())
    assert {file["@id"] for file in content["distribution"]} == {path.name for path in croissant.glob("*.parquet")}
    for file in content["distribution"]:
        assert hashlib.sha256((croissant / file["contentUrl"]).read_bytes()).hexdigest() == file["sha256"]
    fields = {field["@id"]: field for of in content["recordSet"] for field in of["field"]}
    assert fields["simulations/outcome"]["description"] == "how it ended"
    assert fields["replies/seconds"]["description"] == "time from the question to the reply (s)"
    assert all(field["description"] for field in fields.values())


def test_licenses_are_told_and_games_played_elsewhere_keep_theirs(home: Path, study: Study) -> None:
    theirs = json.loads((exported("theirs", "croissant") / "croissant.json").read_text())
    assert theirs["license"] == THEIRS[1]
    assert "their paper (license: CC-BY-NC-4.0)" in theirs["rai:dataCollection"]
    own = json.loads((exported("tiny", "croissant") / "croissant.json").read_text())
    assert own["license"] == NO_LICENSE
    url = "https://example.org/terms"
    told = {"MIT": "https://spdx.org/licenses/MIT", url: url, "ask us first": "ask us first", "": ""}
    assert {given: license_url(given) for given in told} == told
