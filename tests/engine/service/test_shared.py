import asyncio
import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from parley.engine.service.shared import SharedState, peek
from parley.errors import JournalError

COUNTING = """
import asyncio, sys
from pathlib import Path
from parley.engine.service.shared import SharedState

async def run():
    async with SharedState(Path("s")) as shared:
        async def count():
            for _ in range(50):
                async with shared.changing() as state:
                    before = state.get("count", 0)
                    await asyncio.sleep(0)  # others want it now
                    state["count"] = before + 1
        await asyncio.gather(*(count() for _ in range(4)))

asyncio.run(run())
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "s"


@pytest.mark.slow
def test_changes_of_all_tasks_of_all_processes_are_kept() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    processes = [subprocess.Popen([sys.executable, "-c", COUNTING], env=environment) for _ in range(3)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0, 0]
    assert peek(Path("s")) == {"count": 600}


def test_an_error_keeps_what_was(folder: Path) -> None:
    async def run() -> None:
        async with SharedState(folder) as shared:
            async with shared.changing() as state:
                state["kept"] = 1
            with pytest.raises(ZeroDivisionError):
                async with shared.changing() as state:
                    state["kept"] = 1 / 0
            async with shared.changing() as state:
                assert state == {"kept": 1}

    asyncio.run(run())


def test_only_the_dead_are_buried_and_nothing_of_them_stays(folder: Path) -> None:
    async def run() -> None:
        async with SharedState(folder) as one, SharedState(folder) as two, one.changing():
            assert one.bury([one.owner, two.owner, "never-there"]) == {"never-there"}
        assert [path.name for path in folder.iterdir()] == ["state"]

    asyncio.run(run())


def test_a_file_system_without_locks_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    async def run() -> None:
        async with SharedState(folder):
            raise AssertionError("unreachable")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(JournalError):
        asyncio.run(run())


def test_a_folder_that_cannot_be_made_is_named(folder: Path) -> None:
    folder.write_text("a file")

    async def run() -> None:
        async with SharedState(folder):
            raise AssertionError("unreachable")

    with pytest.raises(JournalError, match="s: cannot be used"):
        asyncio.run(run())


def test_nothing_is_shared_where_nobody_was(folder: Path) -> None:
    assert peek(folder) == {}
