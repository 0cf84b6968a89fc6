import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from parley import __version__, cli, paths
from parley.engine import supervisor
from parley.errors import EngineError
from parley.play.record import read_summary
from support.commands import Parley, one_line_error
from support.records import forge
from support.studies import StudyFactory


@pytest.fixture
def study(study_factory: StudyFactory) -> list[str]:
    """A study of four simulations; return the paths of its records."""
    made = study_factory({"n": [3, 4], "b": 1, "byzantine": "random"}, seeds=2, parameters={"max_rounds": 3})
    return [str(simulation.record("small")) for simulation in made.simulations()]


def commands_of(group: click.Group, *name: str) -> Iterator[tuple[str, ...]]:
    for each, command in group.commands.items():
        yield (*name, each)
        if isinstance(command, click.Group):
            yield from commands_of(command, *name, each)


@pytest.mark.promise("Every command has `--help` with an example.")
def test_every_command_has_help_with_an_example(parley: Parley) -> None:
    for command in commands_of(cli.commands):
        ran = parley(*command, "--help")
        assert ran.status == 0
        assert "Example" in ran.out, command
        assert f"parley {' '.join(command)}" in ran.out, command
    assert parley("--version").out.strip().endswith(__version__)


@pytest.mark.promise("Errors are one line and exit 1, bad usage exits 2, an interrupt 130; no traceback.")
def test_an_error_exits_1_and_an_interrupt_130_without_a_traceback(
    parley: Parley, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("parley.study.load_study", fail)
    error: BaseException = EngineError("the engine died:\nout of \x1b[31mmemory")
    assert one_line_error(parley("expand", "demo"), 1) == "parley: the engine died: out of [31mmemory\n"
    error = KeyboardInterrupt()
    ran = parley("expand", "demo")
    assert ran.status == 130
    assert "Traceback" not in ran.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (["--help"], {"parley.study", "pydantic", "yaml", "rich", "asyncio"}),
        (["expand", "demo"], {"numpy", "pyarrow", "pandas", "scipy", "matplotlib", "snakemake", "networkx"}),
        (["status", "demo"], {"pandas", "scipy", "matplotlib", "snakemake", "networkx", "pyarrow.compute"}),
    ],
)
def test_what_a_command_does_not_need_is_not_imported(arguments: list[str], heavy: set[str]) -> None:
    code = (
        "import sys, parley.cli\n"
        f"sys.argv[1:] = {arguments}\n"
        "try: parley.cli.main()\n"
        f"finally: print('imported:', sorted({heavy} & set(sys.modules)))\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.endswith("imported: []\n")


def test_expand_lists_conditions_and_records(parley: Parley, study: list[str]) -> None:
    lines = parley("expand", "small.yaml").out.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("model=majority/n=3/b=1/prompt=may_exist/spec=")
    assert lines[0].endswith("seeds=2")
    assert lines[2] == "4 simulations in 2 conditions, 1 shard"
    assert parley("expand", "small.yaml", "--paths").out.splitlines() == study
    os.renames("small.yaml", "config/small.yaml")
    os.renames("models.yaml", "config/models.yaml")
    assert parley("expand", "small", "--paths").out.splitlines() == study


@pytest.mark.slow
def test_a_study_is_simulated_summarized_and_replayed(parley: Parley, study: list[str]) -> None:
    error = one_line_error(parley("summarize", "small.yaml"), 1)
    assert "none of its 4 simulations is played; run: parley run small.yaml" in error
    for record in study:
        ran = parley("simulate", "small.yaml", record)
        assert ran.status == 0
        assert "rounds" in ran.out.splitlines()[-1]
    assert "4 simulations in 2 conditions" in parley("summarize", "small.yaml").out
    assert paths.table("small", "conditions", ".csv").exists()
    replayed = parley("replay", *study)
    assert replayed.status == 0
    _, *rows = [line.split() for line in replayed.out.splitlines()]
    assert rows == [["identical", read_summary(Path(record)).digest[:12], record] for record in study]

    # Damaged records are left out.
    Path(study[1]).write_bytes(b"no")
    loose = parley("summarize", "small.yaml")
    assert loose.status == 0
    assert "3 simulations in" in loose.out


def test_replays_beside_records_that_differ_or_are_damaged_are_told(parley: Parley, study: list[str]) -> None:
    for record in study[:2]:
        parley("simulate", "small.yaml", record)
    Path("x.parquet").write_bytes(b"no")
    ran = parley("replay", "x.parquet", study[1])
    assert ran.status == 1
    assert [line.split()[0] for line in ran.out.splitlines()] == ["replay", "identical"]
    assert "1 of 2 records" in ran.err
    assert "x.parquet: cut short or not Parquet" in ran.err
    forge(Path(study[0]), lambda rows: rows[-1].update(text=rows[-1]["text"] + " "))
    ran = parley("replay", *study[:2])
    assert ran.status == 1
    _, *rows = ran.out.splitlines()
    assert rows[0].startswith("the content digests differ  ")
    assert rows[1].startswith("identical  ")


def test_a_server_ends_with_the_job_that_started_it_if_told_to(
    study: list[str], parley: Parley, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[bool] = []
    monkeypatch.setattr(supervisor, "serve", lambda *given, **_: told.append(given[-1]))
    for option in ((), ("--exit-with-parent",)):
        assert parley("serve", "tiny", "--endpoint", "e.json", "--models", "models.yaml", *option).status == 0
    assert told == [False, True]


@pytest.mark.slow
def test_letters_that_an_encoding_lacks_end_nothing() -> None:
    code = "import click; from parley import cli; "
    code += "cli.commands.add_command(click.Command('say', callback=lambda: click.echo('a \u2192 b'))); cli.main()"
    ran = subprocess.run(
        [sys.executable, "-c", code, "say"],
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "a \\u2192 b\n", "")
