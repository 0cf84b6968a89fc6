"""Croissant: the validator finds nothing, and the records load."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import mlcroissant as mlc
import pandas as pd
import pytest

from parley import paths
from parley.analysis.summarize import summarize
from parley.export.about import NO_LICENSE, license_url
from parley.imports.write import import_games
from parley.study import Study, load_study
from support.commands import Parley
from support.imported import reply_lines, write_lines
from support.studies import make_study

pytestmark = [
    pytest.mark.slow,
    # mlcroissant uses what its libraries are about to remove.
    pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The inplace keyword"),
]
GRIDS = "[{model: majority, n: 4, b: [0, 1], byzantine: random, prompt: may_exist}]"


@pytest.fixture
def study(folder: Path) -> Study:
    return make_study(GRIDS, title="Do they agree?")


def test_the_validator_finds_nothing_and_records_load(study: Study, parley: Parley) -> None:
    ran = parley(
        "export", "tiny", "--to", "croissant", "--license", "CC-BY-4.0", "--author", "Jo Doe", "--out", "data"
    )
    assert (ran.status, ran.out) == (0, "data\n")
    checked = subprocess.run(
        [Path(sys.executable).with_name("mlcroissant"), "validate", "--jsonld", "data/croissant.json"],
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0
    assert "Done." in checked.stderr
    assert not [line for line in checked.stderr.splitlines() if "warning" in line or "error" in line]

    data = mlc.Dataset("data/croissant.json")
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


def test_every_field_says_what_it_means_and_every_file_has_a_checksum(study: Study, parley: Parley) -> None:
    parley("export", "tiny", "--to", "croissant", "--out", "data")
    content = json.loads(Path("data/croissant.json").read_text())
    assert {file["@id"] for file in content["distribution"]} == {path.name for path in Path("data").glob("*.parquet")}
    for file in content["distribution"]:
        assert hashlib.sha256(Path("data", file["contentUrl"]).read_bytes()).hexdigest() == file["sha256"]
    fields = {field["@id"]: field for of in content["recordSet"] for field in of["field"]}
    assert fields["simulations/outcome"]["description"] == "how it ended, in the game's own classes"
    assert fields["replies/seconds"]["description"] == "time from the question to the reply (s)"
    assert fields["replies/started"]["dataType"] == "sc:DateTime"
    assert all(field["description"] for field in fields.values())
    for key in ("dataCollection", "dataBiases", "dataLimitations", "dataSocialImpact", "personalSensitiveInformation"):
        assert content[f"rai:{key}"]
    assert content["license"] == NO_LICENSE


def test_games_played_elsewhere_keep_their_source_and_license(folder: Path, parley: Parley) -> None:
    Path("config").mkdir()
    file = write_lines(Path("games.jsonl"), reply_lines(["ss", "hh"], game="stag_hunt"))
    import_games("jsonl", file, "theirs", False, "their paper", "CC-BY-NC-4.0")
    summarize(load_study(Path("config/theirs.yaml")))
    ran = parley("export", "theirs", "--to", "croissant", "--out", "data")
    assert ran.status == 0, ran.err
    content = json.loads(Path("data/croissant.json").read_text())
    assert content["license"] == "CC-BY-NC-4.0"
    assert "their paper (license: CC-BY-NC-4.0)" in content["rai:dataCollection"]
    assert content["rai:dataCollectionType"] == "Secondary Data Analysis"


def test_a_license_is_an_identifier_a_url_or_words() -> None:
    assert license_url("MIT") == "https://spdx.org/licenses/MIT"
    assert license_url("https://example.org/terms") == "https://example.org/terms"
    assert license_url("ask us first") == "ask us first"
    assert license_url("") == ""
