"""Imported games are records like others: in tables, report and replay; marked as imported wherever they are shown."""

import shutil
from contextlib import chdir
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from parley import paths
from parley.analysis.summarize import summarize
from parley.errors import UsageError
from parley.imports.byzantine_cheap_talk import FORMAT
from parley.imports.import_games import Imported, import_games
from parley.play.record import read_summary
from parley.play.simulate import simulate
from parley.report.page import report
from parley.study import Study, load_study
from support.commands import Parley, one_line_error
from support.records import cheap_talk, write_cheap_talk

pytestmark = [
    pytest.mark.promise("Imported games are records like others, marked as imported wherever they are shown."),
    pytest.mark.usefixtures("folder"),
]


def pay(content: dict[str, Any]) -> None:
    content["rounds_data"][1]["payoffs"]["Agent_2"] = 7


def write_raw(folder: Path) -> Path:
    """Write six games of two conditions in the published layout; who is the adversary differs."""
    for trial, adversary in enumerate((3, 1, 2), 1):
        actions = "".join("h" if place == adversary else "s" for place in (1, 2, 3))
        write_cheap_talk(folder / "hard", trial, cheap_talk([actions, "hhh"], adversary))
        write_cheap_talk(folder / "soft", trial, cheap_talk(["sss", actions], adversary, defect_prob=0.5))
    return folder


@pytest.fixture
def raw() -> Path:
    return write_raw(Path("raw"))


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the raw games as they were imported once."""
    folder = tmp_path_factory.mktemp("once")
    with chdir(folder):
        imported(write_raw(Path("raw")))
    return folder


@pytest.fixture
def study(once: Path, folder: Path) -> Study:
    """The imported study, in a copy of that folder."""
    shutil.copytree(once, folder, dirs_exist_ok=True)
    return load_study(paths.study_file("theirs"))


def imported(raw: Path, name: str = "theirs") -> Imported:
    Path("config").mkdir(exist_ok=True)
    return import_games("byzantine-cheap-talk", raw, name)


def records() -> list[Path]:
    return sorted(path for path in paths.simulations("theirs").rglob("seed=*.parquet") if paths.is_record(path))


def read_all(*files: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in files or records()}


def test_every_game_becomes_the_record_of_a_simulation_with_its_source(study: Study) -> None:
    assert sorted(simulation.record("theirs") for simulation in study.simulations()) == records()
    byzantine = {condition.axes["byzantine"] for condition in study.conditions}
    assert byzantine == {"imported-betray", "imported-betray-0.5"}
    assert {condition.threat_model for condition in study.conditions} == {"unknown: imported"}
    told = [read_summary(path).provenance["imported"] for path in records()]
    files = {f"{which}/trial_0{trial}/results.json" for which in ("hard", "soft") for trial in (1, 2, 3)}
    assert {each["file"] for each in told} == files
    about = {(each["source"], each["license"], each["format"]) for each in told}
    assert about == {(FORMAT.source, FORMAT.license, "byzantine-cheap-talk")}
    assert all(len(each["sha256"]) == 64 for each in told)
    text = paths.study_file("theirs").read_text()
    assert yaml.safe_load(text)["title"] == f"Games played elsewhere: {FORMAT.source}"
    assert "/raw" not in text


def test_importing_again_changes_nothing_and_other_games_have_other_identities(study: Study) -> None:
    before = read_all()
    elsewhere = Path("raw").rename("elsewhere")
    imported(elsewhere)
    assert read_all() == before
    write_cheap_talk(elsewhere / "hard", 4, cheap_talk(["hss", "sss"], 1))
    more = load_study(imported(elsewhere, "more").study)
    assert study.conditions[0].identity != more.conditions[0].identity
    assert study.conditions[1].identity == more.conditions[1].identity


def test_another_study_of_that_name_is_left_alone(raw: Path) -> None:
    Path("config").mkdir()
    Path("config/theirs.yaml").write_text("game: stag_hunt\n")
    with pytest.raises(UsageError, match=r"config/theirs\.yaml: is there already"):
        imported(raw)
    assert Path("config/theirs.yaml").read_text() == "game: stag_hunt\n"
    assert not records()


@pytest.mark.slow
def test_tables_and_report_show_them_as_imported_beside_conditions_of_our_own(study: Study) -> None:
    content = yaml.safe_load(study.file.read_text())
    own = {"model": "grim_trigger", "n": 3, "b": 1, "byzantine": ["betray"], "prompt": "plain", "seeds": 2}
    study.file.write_text(yaml.safe_dump({**content, "grids": [*content["grids"], own]}))
    study = load_study(study.file)
    before = read_all()
    for simulation in study.simulations():
        simulate(study, simulation.record("theirs"), [], 1.0)
    assert read_all(*before) == before
    summarize(study)
    assert pd.read_csv(paths.table("theirs", "conditions", ".csv"))["simulations"].tolist() == [3, 3, 2]
    simulations, turns, players, contrasts = (
        pd.read_csv(paths.table("theirs", name, ".csv")) for name in ("simulations", "turns", "players", "contrasts")
    )
    assert simulations["engine"].tolist().count("imported from byzantine-cheap-talk") == 6
    assert simulations["model"].tolist().count("imported-llama+mixtral+qwen") == 6
    # The seat is its model's, but where a rule took it.
    one = turns[(turns["agent"] == "Agent_1") & (turns["byzantine"] == "imported-betray")]
    assert set(one[~one["is_byzantine"]]["player"]) == {"imported-mixtral"}
    assert set(one[one["is_byzantine"]]["player"]) == {"imported-betray"}
    first = turns[(turns["round"] == 1) & ~turns["is_byzantine"] & turns["player"].str.startswith("imported")]
    assert first["points"].tolist().count(10) == 6
    assert {"imported-mixtral", "imported-qwen", "imported-llama"} <= set(players["player"])
    assert set(contrasts[contrasts["axis"] == "byzantine"]["pairs"].dropna()) == {0}  # games share no seeds
    for spec in study.figures:  # drawing them takes most of the time, and is tested elsewhere
        file = paths.figure("theirs", spec.name, ".svg")
        file.parent.mkdir(exist_ok=True)
        file.write_text("<svg/>")
    page = report(study).read_text()
    assert "imported: played elsewhere, not by Parley" in page
    assert "imported from byzantine-cheap-talk (6 simulations)" in page


def test_an_imported_game_is_shown_but_not_played_or_replayed_without_prompts(study: Study, parley: Parley) -> None:
    shown = parley("show", records()[0]).out
    assert "imported: played elsewhere, not by Parley" in " ".join(shown.split())
    assert "without its prompts" in one_line_error(parley("replay", records()[0]), 1)
    assert "played elsewhere" in one_line_error(parley("play", "theirs"), 2)
    lost = records()[0]
    lost.unlink()
    assert "played elsewhere" in one_line_error(parley("simulate", "theirs", lost), 2)


def test_damaged_games_are_listed_counted_and_left_out(raw: Path, parley: Parley) -> None:
    Path("config").mkdir()
    write_cheap_talk(raw / "hard", 9, cheap_talk(["ssh", "hhh"], 3), pay)
    Path("raw/copy.d").mkdir()  # one that is there twice is imported once
    Path("raw/copy.d/results.json").write_bytes(Path("raw/hard/trial_01/results.json").read_bytes())
    ran = parley("import", "byzantine-cheap-talk", raw, "--name", "theirs")
    payoffs = "hard/trial_09/results.json: payoffs do not follow from the actions: round 1: Agent_2 has 7 points"
    for words in (
        payoffs,
        "twice: 1\n",
        "2 damaged games left out",
        "6 games of 12 rounds in 2 cond",
    ):
        assert words in ran.out
    assert len(records()) == 6


def test_what_cannot_be_imported_is_one_line(raw: Path, parley: Parley) -> None:
    rows = [
        ("none", "theirs", "none: no such file or folder"),
        *(("raw", name, "a file under config/") for name in ("../theirs", "a/b", "")),
    ]
    for path, name, told in rows:
        assert told in one_line_error(parley("import", "byzantine-cheap-talk", path, "--name", name), 2), name
    assert not Path("config").exists()
