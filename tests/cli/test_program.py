import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from parley import __version__, paths
from parley.cli import program as cli
from parley.errors import EngineError
from parley.play.record import read_summary
from support.commands import Parley, one_line_error
from support.forging import forge
from support.studies import StudyFactory


@pytest.fixture
def study(study_factory: StudyFactory) -> list[str]:
    """A study of four simulations; return the paths of its records."""
    made = study_factory({"n": [3, 4], "b": 1, "byzantine": "random"}, seeds=2, parameters={"max_rounds": 3})
    return [str(simulation.record("small")) for simulation in made.simulations()]


# The whole


COMMANDS = sorted(cli.commands.commands)


def test_the_commands_of_the_stages_and_of_people_are_there() -> None:
    expected = {
        "expand",
        "fetch-model",
        "serve",
        "simulate",
        "summarize",
        "figures",
        "report",
        "play",
        "replay",
        "verify",
        "prompts",
    }
    assert expected <= set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(parley: Parley, command: str) -> None:
    ran = parley(command, "--help")
    assert ran.status == 0
    assert "Example" in ran.out
    assert f"parley {command}" in ran.out


def test_the_version_is_printed(parley: Parley) -> None:
    assert parley("--version").out.strip().endswith(__version__)


@pytest.mark.parametrize("arguments", [["no-such-command"], ["expand"], ["expand", "demo", "--no-such-option"]])
def test_bad_usage_exits_2(parley: Parley, arguments: list[str]) -> None:
    ran = parley(*arguments)
    assert ran.status == 2
    assert "Error: " in ran.err
    assert ran.out == ""


@pytest.mark.slow
def test_the_installed_command_exits_2_in_one_line(folder: Path) -> None:
    command = shutil.which("parley", path=str(Path(sys.executable).parent))
    assert command is not None
    ended = subprocess.run([command, "expand", "missing"], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "parley: config/missing.yaml: no such file\n"


def test_an_error_while_working_exits_1(parley: Parley, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise EngineError("the engine died:\nout of \x1b[31mmemory")

    monkeypatch.setattr("parley.study.load_study", fail)
    assert one_line_error(parley("expand", "demo"), 1) == "parley: the engine died: out of [31mmemory\n"


def test_an_interrupt_exits_130_without_a_traceback(parley: Parley, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("parley.study.load_study", interrupt)
    ran = parley("expand", "demo")
    assert ran.status == 130
    assert "Traceback" not in ran.err


# expand


def test_expand_lists_conditions(parley: Parley, study: list[str]) -> None:
    lines = parley("expand", "small.yaml").out.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("model=majority/n=3/b=1/prompt=may_exist/spec=")
    assert lines[0].endswith("seeds=2")
    assert lines[2] == "4 simulations in 2 conditions, 1 shard"


def test_expand_tells_how_many_growing_seeds_may_be(parley: Parley, study_factory: StudyFactory) -> None:
    growing = {"from": 4, "by": 3, "to": 9, "until": {"outcome": "valid_consensus", "width": 0.9}}
    study_factory({"n": [3, 4], "seeds": growing}, {"n": 5}, seeds=2)
    lines = parley("expand", "small.yaml").out.splitlines()
    assert lines[0].endswith("seeds=4 (up to 9)")
    assert lines[3] == "at least 10, at most 20 simulations in 3 conditions, 1 shard"


def test_expand_tells_listed_seeds_from_a_count(parley: Parley, study_factory: StudyFactory) -> None:
    study_factory({"n": 3}, {"n": 4, "seeds": 7}, seeds=[7, 3])
    lines = parley("expand", "small.yaml").out.splitlines()
    assert [line.split("  ")[1] for line in lines[:2]] == ["seeds=[7, 3]", "seeds=7"]


def test_expand_prints_the_paths_of_all_records(parley: Parley, study: list[str]) -> None:
    assert parley("expand", "small.yaml", "--paths").out.splitlines() == study


def test_expand_finds_a_study_by_its_name(parley: Parley, study: list[str]) -> None:
    os.renames("small.yaml", "config/small.yaml")
    os.renames("models.yaml", "config/models.yaml")
    assert parley("expand", "small", "--paths").out.splitlines() == study


def test_expand_takes_other_model_entries(parley: Parley, study: list[str]) -> None:
    Path("small.yaml").write_text("game: consensus\ngrids: [{model: tiny, n: 3, prompt: may_exist}]\n")
    os.rename("models.yaml", "entries.yaml")
    assert "models.yaml: no such file" in one_line_error(parley("expand", "small.yaml"), 2)
    assert parley("expand", "small.yaml", "--models", "entries.yaml").status == 0


def test_a_bad_study_is_refused_in_one_line_by_every_stage(parley: Parley, folder: Path) -> None:
    Path("bad.yaml").write_text("game: consensus\ngrids: [{model: majority, n: 3, b: 4, prompt: may_exist}]\n")
    for command in (["expand"], ["simulate"], ["summarize"], ["figures"], ["report"]):
        extra = ["x.parquet"] if command == ["simulate"] else []
        error = one_line_error(parley(*command, "bad.yaml", *extra), 2)
        assert error == "parley: bad.yaml: grids[0].b: 4: more Byzantine agents than agents (n = 3); lower b\n"
    assert not Path("results").exists()


# simulate, summarize, replay


@pytest.mark.slow
def test_a_study_is_simulated_summarized_and_replayed(parley: Parley, study: list[str]) -> None:
    for record in study:
        ran = parley("simulate", "small.yaml", record)
        assert ran.status == 0
        assert "rounds" in ran.out.splitlines()[-1]
    ran = parley("summarize", "small.yaml")
    assert ran.status == 0
    assert "4 simulations in 2 conditions" in ran.out
    for part in ("simulations", "valid consensus", "majority"):
        assert part in ran.out
    assert paths.table("small", "conditions", ".csv").exists()
    replayed = parley("replay", *study)
    assert replayed.status == 0
    header, *rows = [line.split() for line in replayed.out.splitlines()]
    assert header == ["replay", "digest", "record"]
    assert rows == [["identical", read_summary(Path(record)).digest[:12], record] for record in study]


def test_a_summary_without_records_exits_1_and_says_what_makes_them(parley: Parley, study: list[str]) -> None:
    error = one_line_error(parley("summarize", "small.yaml"), 1)
    told = f"none of its {len(study)} simulations is played; run: snakemake --cores all --config study=small.yaml"
    assert told in error


def test_simulating_what_is_not_in_the_study_exits_2(parley: Parley, study: list[str]) -> None:
    record = study[0].replace("seed=0", "seed=7")
    assert f"{record}: not a simulation of small.yaml" in one_line_error(parley("simulate", "small.yaml", record), 2)


def test_simulating_a_model_without_an_engine_exits_2(parley: Parley, study_factory: StudyFactory) -> None:
    record = next(study_factory({"model": "tiny"}).simulations()).record("small")
    assert "name its endpoint file" in one_line_error(parley("simulate", "small.yaml", record), 2)


def test_a_replay_that_differs_exits_1(parley: Parley, study: list[str]) -> None:
    for record in study[:2]:
        parley("simulate", "small.yaml", record)
    forge(Path(study[0]), lambda rows: rows[-1].update(text=rows[-1]["text"] + " "))
    ran = parley("replay", *study[:2])
    assert ran.status == 1
    header, *rows = ran.out.splitlines()
    assert rows[0].startswith("the content digests differ  ")
    assert rows[1].startswith("identical                   ")  # aligned
    assert [row.index(record) for row, record in zip(rows, study[:2], strict=True)] == [header.index("record")] * 2


def test_replays_before_a_damaged_record_are_told(parley: Parley, study: list[str]) -> None:
    parley("simulate", "small.yaml", study[0])
    Path("x.parquet").write_bytes(b"no")
    ran = parley("replay", study[0], "x.parquet")
    assert ran.status == 1
    assert [line.split()[0] for line in ran.out.splitlines()] == ["replay", "identical"]
    assert "x.parquet: cut short or not Parquet" in ran.err


def test_a_damaged_record_ends_no_replay_of_the_others(parley: Parley, study: list[str]) -> None:
    parley("simulate", "small.yaml", study[0])
    Path("x.parquet").write_bytes(b"no")
    ran = parley("replay", "x.parquet", study[0])
    assert ran.status == 1
    assert [line.split()[0] for line in ran.out.splitlines()] == ["replay", "identical"]
    assert "1 of 2 records did not replay identically" in ran.err


def test_a_summary_may_be_strict(parley: Parley, study: list[str]) -> None:
    for record in study:
        parley("simulate", "small.yaml", record)
    Path(study[1]).write_bytes(b"no")
    loose = parley("summarize", "small.yaml")
    assert loose.status == 0
    assert "3 simulations in" in loose.out
    assert f"{study[1]}: cut short or not Parquet" in one_line_error(parley("summarize", "small.yaml", "--strict"), 1)


def test_a_replay_of_no_record_exits_1(parley: Parley, folder: Path) -> None:
    Path("x.parquet").write_bytes(b"no")
    assert "x.parquet: cut short or not Parquet" in one_line_error(parley("replay", "x.parquet"), 1)


def test_a_replay_of_nothing_is_bad_usage(parley: Parley) -> None:
    assert parley("replay").status == 2


def test_a_game_can_be_watched(parley: Parley, study: list[str]) -> None:
    ran = parley("play", "small.yaml", "--n", "4")
    assert ran.status == 0
    for part in ("Round 1", "agent_1", "agent_4", "propose", "vote", "Outcome", "consensus"):
        assert part in ran.out
    assert not Path("results").exists()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--where", "n"], "--where n: write AXIS=VALUE"),
        (["--n", "3", "--where", "n=4"], "--where n=4: --n says 3; give one of them"),
        (["--where", "size=4"], "size: not an axis of this study"),
        (["--n", "5"], "no condition has n=5"),
    ],
)
def test_a_game_that_is_in_no_study_is_not_played(
    parley: Parley, study: list[str], given: list[str], words: str
) -> None:
    assert words in one_line_error(parley("play", "small.yaml", *given), 2)


def test_fetching_an_unknown_model_exits_2(parley: Parley, folder: Path) -> None:
    error = one_line_error(parley("fetch-model", "gpt", "--models", "models.yaml"), 2)
    assert error == "parley: models.yaml: 'gpt': unknown model; choose one of: tiny, other\n".replace(
        "tiny, other", "other, tiny"
    )
