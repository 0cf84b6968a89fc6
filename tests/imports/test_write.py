"""Imported games are records like others: in tables, report and replay; marked as imported wherever they are shown."""

import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from parley import paths
from parley.analysis.summarize import summarize
from parley.errors import RecordError, UsageError
from parley.figures.make import figures
from parley.imports import games as formats
from parley.imports.write import Imported, import_games
from parley.play.record import read_record, read_summary
from parley.play.replay import replay
from parley.play.simulate import simulate
from parley.report.page import report
from parley.study import load_study
from support.commands import Parley, one_line_error
from support.forging import forge
from support.imported import cheap_talk, reply_lines, write_cheap_talk, write_lines

pytestmark = pytest.mark.usefixtures("folder")


def pay(content: dict[str, Any]) -> None:
    content["rounds_data"][1]["payoffs"]["Agent_2"] = 7


@pytest.fixture
def raw() -> Path:
    """Six games of two conditions in the published layout; who is the adversary differs."""
    folder = Path("raw")
    for trial, adversary in enumerate((3, 1, 2), 1):
        actions = "".join("h" if place == adversary else "s" for place in (1, 2, 3))
        write_cheap_talk(folder / "hard", trial, cheap_talk([actions, "hhh"], adversary))
        write_cheap_talk(folder / "soft", trial, cheap_talk(["sss", actions], adversary, defect_prob=0.5))
    return folder


def imported(raw: Path, name: str = "theirs", form: str = "byzantine-cheap-talk", **more: Any) -> Imported:
    Path("config").mkdir(exist_ok=True)
    return import_games(form, raw, name, **more)


def records(name: str = "theirs") -> list[Path]:
    return sorted(path for path in paths.simulations(name).rglob("seed=*.parquet") if paths.is_record(path))


def test_every_game_becomes_the_record_of_a_simulation(raw: Path) -> None:
    found = imported(raw)
    assert list(found.lines()) == [
        "6 files, 6 games, 12 rounds, 0 defects",
        "config/theirs.yaml: 6 games in 2 conditions",
    ]
    study = load_study(found.study)
    assert [simulation.record("theirs") for simulation in study.simulations()]
    assert {simulation.record("theirs") for simulation in study.simulations()} == set(records())
    assert {condition.axes["byzantine"] for condition in study.conditions} == {
        "imported-betray",
        "imported-betray-0.5",
    }
    assert {condition.threat_model for condition in study.conditions} == {"unknown: imported"}


def test_a_record_names_source_file_hash_and_license(raw: Path) -> None:
    imported(raw, source="a paper", license_note="CC BY 4.0")
    told = [read_summary(path).provenance["imported"] for path in records()]
    assert {each["file"] for each in told} == {
        f"{which}/trial_0{trial}/results.json" for which in ("hard", "soft") for trial in (1, 2, 3)
    }
    assert {(each["source"], each["license"], each["format"]) for each in told} == {
        ("a paper", "CC BY 4.0", "byzantine-cheap-talk")
    }
    assert all(len(each["sha256"]) == 64 and each["defects"] == [] for each in told)


def test_importing_again_changes_nothing(raw: Path) -> None:
    imported(raw)
    before = {path: path.read_bytes() for path in records()}
    imported(raw)
    assert {path: path.read_bytes() for path in records()} == before
    moved = raw.rename("elsewhere")
    imported(moved)
    assert {path: path.read_bytes() for path in records()} == before


def test_other_games_have_other_identities(raw: Path) -> None:
    imported(raw)
    write_cheap_talk(raw / "hard", 4, cheap_talk(["hss", "sss"], 1))
    imported(raw, "more")
    first, second = (load_study(paths.study_file(name)).conditions for name in ("theirs", "more"))
    assert first[0].identity != second[0].identity
    assert first[1].identity == second[1].identity


def test_another_study_of_that_name_is_left_alone(raw: Path) -> None:
    Path("config").mkdir()
    Path("config/theirs.yaml").write_text("game: stag_hunt\n")
    with pytest.raises(UsageError, match=r"config/theirs\.yaml: is there already, with other content"):
        imported(raw)
    assert Path("config/theirs.yaml").read_text() == "game: stag_hunt\n"
    assert not records()


def test_tables_figures_and_report_show_them_as_imported(raw: Path) -> None:
    imported(raw)
    study = load_study(paths.study_file("theirs"))
    summarize(study)
    simulations = pd.read_csv(paths.table("theirs", "simulations", ".csv"))
    assert set(simulations["engine"]) == {"imported from byzantine-cheap-talk"}
    assert set(simulations["model"]) == {"imported-llama+mixtral+qwen"}
    turns = pd.read_csv(paths.table("theirs", "turns", ".csv"))
    # The seat is its model's, but where a rule took it.
    one = turns[(turns["agent"] == "Agent_1") & (turns["byzantine"] == "imported-betray")]
    assert set(one[~one["is_byzantine"]]["player"]) == {"imported-mixtral"}
    assert set(one[one["is_byzantine"]]["player"]) == {"imported-betray"}
    assert turns[(turns["round"] == 1) & ~turns["is_byzantine"]]["points"].tolist().count(10) == 6
    players = pd.read_csv(paths.table("theirs", "players", ".csv"))
    assert {"imported-mixtral", "imported-qwen", "imported-llama"} <= set(players["player"])
    contrasts = pd.read_csv(paths.table("theirs", "contrasts", ".csv"))
    assert set(contrasts[contrasts["axis"] == "byzantine"]["pairs"].dropna()) == {0}  # games share no seeds
    figures(study)
    page = report(study).read_text()
    assert "imported: played elsewhere, not by Parley" in page
    assert "imported from byzantine-cheap-talk (6 simulations)" in page


def test_what_has_no_prompts_cannot_be_replayed(raw: Path, parley: Parley) -> None:
    imported(raw)
    told = one_line_error(parley("replay", records()[0]), 1)
    assert "imported from byzantine-cheap-talk without its prompts, so it cannot be replayed" in told


def test_what_has_prompts_replays(parley: Parley) -> None:
    lines = reply_lines(["ssh", "shh"], byzantine="liar")
    imported(write_lines(Path("a.jsonl"), lines), form="jsonl")
    [path] = records()
    assert replay(path).identical
    _, entries = read_record(path)
    assert all(len(entry.ask) == 64 for entry in entries)
    assert parley("replay", path).out.splitlines()[1].startswith("identical")


@pytest.mark.parametrize("column", ["text", "user"])
def test_a_changed_reply_or_prompt_does_not_replay(column: str) -> None:
    imported(write_lines(Path("a.jsonl"), reply_lines(["ss", "ss"])), form="jsonl")
    [path] = records()

    def change(rows: list[dict[str, Any]]) -> None:
        rows[3][column] = rows[3][column].replace("Stag", "Hare").replace("act", "acts")

    forge(path, change)
    assert not replay(path).identical


def test_an_imported_game_cannot_be_played(raw: Path, parley: Parley) -> None:
    imported(raw)
    told = one_line_error(parley("play", "theirs"), 2)
    assert "was played elsewhere and cannot be played again" in told
    lost = records()[0]
    lost.unlink()
    paths.kept_record(lost).unlink(missing_ok=True)
    told = one_line_error(parley("simulate", "theirs", lost), 2)
    assert "`parley import` makes its record" in told


def test_show_says_that_it_was_imported(raw: Path, parley: Parley) -> None:
    imported(raw)
    shown = parley("show", records()[0]).out
    assert "imported: played elsewhere, not by Parley" in " ".join(shown.split())
    assert "# No study file: " in shown
    assert "no study file plays it again" in shown


def test_damaged_games_are_listed_counted_and_left_out(raw: Path, parley: Parley) -> None:
    Path("config").mkdir()
    write_cheap_talk(raw / "hard", 9, cheap_talk(["ssh", "hhh"], 3), pay)
    ran = parley("import", "byzantine-cheap-talk", raw, "--study", "theirs")
    assert ran.out.splitlines() == [
        "hard/trial_09/results.json: payoffs do not follow from the actions: round 1: Agent_2 has 7 points for Hunt "
        "Stag, by the rules 0",
        "payoffs do not follow from the actions: 1",
        "7 files, 7 games, 14 rounds, 1 defect",
        "1 damaged game left out; --keep-damaged imports those that the rules can play",
        "config/theirs.yaml: 6 games in 2 conditions",
    ]
    assert len(records()) == 6


def test_damaged_games_are_kept_on_demand_and_say_so(raw: Path) -> None:
    write_cheap_talk(raw / "hard", 9, cheap_talk(["ssh", "hhh"], 3), pay)
    assert imported(raw, keep_damaged=True).imported == 7
    [told] = [found for path in records() for found in read_summary(path).provenance["imported"]["defects"]]
    assert told.startswith("hard/trial_09/results.json: payoffs do not follow")


def test_a_game_that_is_there_twice_is_imported_once(raw: Path) -> None:
    Path("raw/copy.d").mkdir()
    Path("raw/copy.d/results.json").write_bytes(Path("raw/hard/trial_01/results.json").read_bytes())
    assert imported(raw, keep_damaged=True).imported == 6


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("chess", "raw"), "'chess': unknown format; "),
        (("jsonl", "raw"), "raw: holds no .jsonl"),
        (("jsonl", "none"), "none: no such file or folder"),
    ],
)
def test_what_cannot_be_imported_is_one_line(raw: Path, parley: Parley, arguments: tuple[str, str], told: str) -> None:
    assert told in one_line_error(parley("import", *arguments, "--study", "theirs"), 2)
    assert not Path("config/theirs.yaml").exists()


@pytest.mark.parametrize("name", ["../theirs", "a/b", "", "theirs.yaml"])
def test_a_study_lies_under_config(raw: Path, parley: Parley, name: str) -> None:
    told = one_line_error(parley("import", "byzantine-cheap-talk", raw, "--study", name), 2)
    assert "becomes a file under config/" in told


def test_a_format_of_one_s_own_is_a_plug_in(raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("their_format.py").write_text(
        "from parley.imports.byzantine_cheap_talk import ByzantineCheapTalk\nFORMAT = ByzantineCheapTalk()\n"
    )
    monkeypatch.syspath_prepend(str(Path.cwd()))
    monkeypatch.setattr(formats, "entry_points", lambda group: {"own": ("their_format:FORMAT",)})
    assert imported(raw, form="own").imported == 6
    sys.modules.pop("their_format")


def test_the_study_file_says_what_it_is(raw: Path) -> None:
    text = imported(raw).study.read_text()
    assert text.startswith("# Written by `parley import`.")
    content = yaml.safe_load(text)
    assert content["title"] == "Games played elsewhere: github.com/saleml/byzantine-cheap-talk"
    assert str(Path.cwd()) not in text


def test_a_record_without_its_seating_is_refused(raw: Path) -> None:
    imported(write_lines(Path("a.jsonl"), reply_lines(["ss"])), form="jsonl")
    [path] = records()
    forge(path, None, lambda meta: meta["simulation"]["material"]["imported"]["roles"].pop("agent_1"))
    with pytest.raises(RecordError, match="describes no simulation that can be played"):
        replay(path)


def test_conditions_of_our_own_stand_beside_them(raw: Path) -> None:
    file = imported(raw).study
    content = yaml.safe_load(file.read_text())
    own = {"model": "grim_trigger", "n": 3, "b": 1, "byzantine": ["betray"], "prompt": "plain", "seeds": 2}
    file.write_text(yaml.safe_dump({**content, "grids": [*content["grids"], own]}))
    study = load_study(file)
    before = {path: path.read_bytes() for path in records()}
    for simulation in study.simulations():
        simulate(study, simulation.record(study.name), [], 1.0)
    assert {path: path.read_bytes() for path in before} == before
    summarize(study)
    conditions = pd.read_csv(paths.table("theirs", "conditions", ".csv"))
    assert conditions["simulations"].tolist() == [3, 3, 2]
    assert conditions["model"].tolist() == ["imported-llama+mixtral+qwen"] * 2 + ["grim_trigger"]
