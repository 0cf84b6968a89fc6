"""SIGKILL anywhere: the same command finishes with the same content, and asks nothing that was answered."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parley import paths
from parley.play.record import read_summary
from parley.study import load_study
from support.commands import wait_until
from support.mortal import Key, Nursery, Undisturbed, World, finish

pytestmark = [
    pytest.mark.promise("SIGKILL in any step: the same command finishes with the same content."),
    pytest.mark.rare,
]


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as made:
        yield made


@pytest.fixture
def world(nursery: Nursery) -> Iterator[World]:
    # In memory where that can be had: the death of a process does not ask what the disk has.
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield World(nursery, Path(folder))


@pytest.fixture
def undisturbed(world: World) -> Undisturbed:
    return Undisturbed(world)


def test_killed_in_any_step_it_goes_on(world: World) -> None:
    undisturbed = Undisturbed(world)
    assert len(undisturbed.asked) == len(set(undisturbed.asked)) == 12
    recorded = 0
    for step in range(1, undisturbed.steps + 1):
        # Before it, or with a part of its bytes written; "after it" is before the next one.
        end = world.live(die_at=step, part=0.4)
        assert end.status == -signal.SIGKILL
        # Every reply but the one that came just then is in the journal, or in a record.
        assert len(set(end.asked) - world.answered(undisturbed)) <= 1
        recorded += world.record.exists()
        finish(world, undisturbed)
        world.reset()
    assert 0 < recorded < undisturbed.steps  # deaths before and after the record got its name


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    deaths=st.lists(st.tuples(st.integers(1, 80), st.floats(0, 1)), min_size=1, max_size=2),
)
def test_killed_again_and_again_at_random_points_it_goes_on(
    world: World, undisturbed: Undisturbed, deaths: list[tuple[int, float]]
) -> None:
    world.reset()
    answered: set[Key] = set()
    for step, part in deaths:
        end = world.live(die_at=step, part=part)
        assert end.status in (0, -signal.SIGKILL)
        assert not answered & set(end.asked)
        assert answered <= world.answered(undisturbed)
        assert len(set(end.asked) - world.answered(undisturbed)) <= 1
        answered = world.answered(undisturbed)
    finish(world, undisturbed)


def test_the_command_itself_killed_in_mid_game_asks_nothing_again(world: World) -> None:
    """Without the nursery: the process that a user starts, killed when its journal has grown to some size."""
    grid = {"model": "stubborn", "n": 8, "prompt": "may_exist"}
    study = {"game": "consensus", "parameters": {"max_rounds": 60, "stop_threshold": 1}, "grids": [grid]}
    (world.folder / "long.yaml").write_text(yaml.safe_dump(study))
    record = next(load_study(world.folder / "long.yaml").simulations()).record("long")
    command = [sys.executable, "-m", "parley.cli", "simulate", "long.yaml", str(record)]
    journal = world.folder / paths.journal(record)
    playing = subprocess.Popen(command, cwd=world.folder, stdout=subprocess.DEVNULL)
    wait_until(lambda: journal.exists() and journal.stat().st_size >= 40_000, pause=0.001)
    playing.kill()
    assert playing.wait() == -signal.SIGKILL
    assert not (world.folder / record).exists()
    kept = [json.loads(line[9:]) for line in journal.read_bytes().split(b"\n")[1:-1]]
    again = subprocess.run(command, cwd=world.folder, capture_output=True, text=True, timeout=60, check=False)
    assert (again.returncode, again.stderr) == (0, "")
    rows = pq.read_table(world.folder / record, partitioning=None).to_pylist()
    assert len(kept) < len(rows)
    # The very replies, to the millisecond at which they were asked for.
    for entry, row in zip(kept, rows, strict=False):
        assert (row["agent"], row["text"]) == (entry["agent"], entry["text"])
        assert row["started"].timestamp() == pytest.approx(entry["started"], abs=0.0011)


# Two at once


@pytest.mark.parametrize("patience", [30.0, 0.0], ids=["patient", "at once"])
def test_of_two_processes_at_once_one_plays(world: World, undisturbed: Undisturbed, patience: float) -> None:
    life = replace(world.life(), lock_patience=patience, answer_seconds=0.06)
    lives = [replace(life, notes=str(world.notes / name)) for name in ("one", "two")]
    refused = 0
    for _ in range(4):
        world.reset()
        processes = [world.nursery.start(life) for life in lives]
        ends = [world.nursery.end_of(life, process) for life, process in zip(lives, processes, strict=True)]
        winner, loser = sorted(ends, key=lambda end: -len(end.asked))
        assert (winner.status, winner.asked, loser.asked) == (0, undisturbed.asked, [])
        if loser.status == 0:  # it waited, or came when all was over
            assert loser.err == []
            assert loser.out[-1].endswith(("finished by another process", "finished before"))
        else:
            refused += 1
            assert loser.status == 1
            assert loser.err == [
                f"parley: {world.journal.relative_to(world.folder)}: another process is playing this simulation; "
                "wait for it or stop it"
            ]
        assert read_summary(world.record).digest == undisturbed.digest
        assert world.files() == undisturbed.files
    assert (refused > 0) == (patience == 0)
