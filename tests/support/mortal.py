"""Real processes that run `parley` and can be killed with a real SIGKILL anywhere.

A start of Python and its imports take a second, so a nursery pays them once: it forks a process per life, which runs
the same `parley.cli.main` as the command. The life counts its steps (every byte range, sync and name that it gives to
the file system, and every reply of a policy), so that a test can name the point of its death; or a test kills it from
outside whenever it likes.
"""

import io
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

import yaml

from parley import paths
from parley.play.record import provenance, read_summary
from parley.study import load_study


@dataclass(frozen=True)
class Life:
    """One process: what it runs, where, and how it dies."""

    folder: str  # working directory
    arguments: list[str]  # of `parley`
    notes: str  # folder outside of it: what was asked, what was printed, how many steps it took
    die_at: int = 0  # number of the step in which it kills itself; 0: never
    part: float = 0.0  # how much of that step is done by then: a share of the bytes, or (from 0.5) the whole of it
    lock_patience: float = 30.0
    answer_seconds: float = 0.0  # how long a policy takes

    def __post_init__(self) -> None:
        Path(self.notes).mkdir(parents=True, exist_ok=True)


@dataclass(frozen=True)
class End:
    """How a life ended: its exit status (-9 if it was killed), output, calls that were made, steps."""

    status: int
    out: list[str]
    err: list[str]
    asked: list[tuple[int, str, str, int]]
    steps: int


_NOTES = ("out", "err", "asked", "steps")


class Nursery:
    """The process that the others are forked from; a context manager."""

    def __enter__(self) -> "Nursery":
        command = [sys.executable, __file__]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stdin, stdout = self._pipes()
        stdin.close()
        self._process.wait(timeout=30)
        stdout.close()

    def _pipes(self) -> tuple[TextIO, TextIO]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return self._process.stdin, self._process.stdout  # type: ignore[return-value]

    def _tell(self, **message: Any) -> int:
        stdin, stdout = self._pipes()
        print(json.dumps(message), file=stdin, flush=True)
        return int(stdout.readline())

    def start(self, life: Life) -> int:
        """Begin a life and return its process id."""
        for name in _NOTES:  # a life that is killed before it opens them must not leave those of the one before
            (Path(life.notes) / name).write_text("")
        return self._tell(life=asdict(life))

    def end_of(self, life: Life, process: int) -> End:
        """Wait for the end of a life."""
        status = self._tell(wait=process)
        notes = Path(life.notes)
        out, err = ((notes / name).read_text().splitlines() for name in ("out", "err"))
        asked = [tuple(json.loads(line)) for line in (notes / "asked").read_text().splitlines()]
        steps = int((notes / "steps").read_text() or 0)
        return End(status, out, err, asked, steps)

    def live(self, life: Life) -> End:
        """Run a life to its end."""
        return self.end_of(life, self.start(life))


# What follows runs in the nursery and in the processes that it forks.


class _Death:
    """Counts the steps of this process and kills it in one of them."""

    def __init__(self, life: Life) -> None:
        self._at = life.die_at
        self._part = life.part
        self.steps = 0

    def due(self) -> bool:
        self.steps += 1
        return self.steps == self._at

    def around(self, act: Callable[[], Any]) -> Any:
        """Do something as one step: die before it or after it."""
        if not self.due():
            return act()
        if self._part >= 0.5:
            act()
        return _die()

    def writing(self, write: Callable[[Any], int], data: Any) -> int:
        """Write as one step: die with a part of the bytes written."""
        if not self.due():
            return write(data)
        view = memoryview(data)
        write(view[: round(self._part * len(view))])
        return _die()

    def watch(self) -> None:
        """Make steps of what this process does to the file system."""
        write, sync, open_path = os.write, os.fsync, pathlib.Path.open
        os.write = lambda fd, data: self.writing(lambda part: write(fd, part), data)
        os.fsync = lambda fd: self.around(lambda: sync(fd))
        death = self

        class MortalFile(io.FileIO):
            def write(self, data: Any) -> int:  # type: ignore[override]
                return death.writing(super().write, data)

        def mortal_open(path: Path, mode: str = "r", *arguments: Any, **keywords: Any) -> Any:
            if mode == "wb":
                return io.BufferedWriter(MortalFile(path, "wb"))
            return open_path(path, mode, *arguments, **keywords)

        pathlib.Path.open = mortal_open  # type: ignore[method-assign]
        sys.addaudithook(self._audit)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        named = event in ("os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.truncate")
        opened = event == "open" and isinstance(arguments[0], str | os.PathLike) and arguments[2] & os.O_CREAT
        if (named or opened) and self.due():
            _die()


def _die() -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def _live(life: Life) -> int:
    """Run `parley` in this process and return its exit status."""
    from parley import cli
    from parley.play import simulate
    from parley.policies.kinds import ScriptedPolicy
    from parley.progress.events import Events

    Events._write = lambda self: None  # type: ignore[method-assign]  # by a thread: its steps have no fixed number
    notes = Path(life.notes)
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(notes / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    asked = os.open(notes / "asked", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    (notes / "steps").write_text("")
    os.chdir(life.folder)
    simulate._LOCK_PATIENCE = life.lock_patience
    death, write, answer = _Death(life), os.write, ScriptedPolicy.answer

    async def mortal_answer(self: ScriptedPolicy, ask: Any, seed: int, attempt: int) -> Any:
        import asyncio

        write(asked, json.dumps([ask.round, ask.phase, ask.agent, attempt]).encode() + b"\n")
        if life.answer_seconds:
            await asyncio.sleep(life.answer_seconds)
        reply = await answer(self, ask, seed, attempt)
        death.around(lambda: None)
        return reply

    ScriptedPolicy.answer = mortal_answer  # type: ignore[method-assign]
    death.watch()
    sys.argv = ["parley", *life.arguments]
    status = 0
    try:
        cli.main()
    except SystemExit as end:
        status = int(end.code or 0)
    steps = death.steps
    os.write = write
    (notes / "steps").write_bytes(str(steps).encode())
    return status


def _nurse() -> None:
    """Fork a process for each life that is asked for, and wait for those that are asked about."""
    import gc

    import pandas  # noqa: F401  # pyarrow imports it when it makes its first table
    import pyarrow.compute  # noqa: F401

    from parley import cli  # noqa: F401
    from parley.play import simulate  # noqa: F401

    # What it finds out is cached: a fork need not run git and read versions again.
    provenance(datetime.now(UTC), {})
    gc.freeze()
    for line in sys.stdin:
        message = json.loads(line)
        if "wait" in message:
            _, status = os.waitpid(message["wait"], 0)
            print(os.waitstatus_to_exitcode(status), flush=True)
            continue
        process = os.fork()
        if process == 0:
            status = 70
            with suppress(BaseException):
                status = _live(Life(**message["life"]))
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)
        print(process, flush=True)


if __name__ == "__main__":
    _nurse()


# A folder with a study of one scripted simulation, and the lives that play it one after the other


Key = tuple[int, str, str, int]

STUDY = {
    "game": "consensus",
    "parameters": {"max_rounds": 2, "stop_threshold": 1},
    "grids": [{"model": "majority", "n": 3, "b": 1, "prompt": "may_exist", "byzantine": "random"}],
}
MODELS = {"models": {"tiny": {"source": {"repo": "owner/tiny", "revision": "a" * 40}}}}


class World:
    """A folder with a study of one simulation, and the lives that play it one after the other."""

    def __init__(self, nursery: Nursery, folder: Path) -> None:
        self.nursery = nursery
        self.folder = folder / "world"
        self.notes = folder / "notes"
        self.folder.mkdir(parents=True)
        (self.folder / "models.yaml").write_text(yaml.safe_dump(MODELS))
        (self.folder / "small.yaml").write_text(yaml.safe_dump(STUDY))
        self._record = next(load_study(self.folder / "small.yaml").simulations()).record("small")
        self.record = self.folder / self._record
        self.journal = self.folder / paths.journal(self._record)

    def life(self, **how: object) -> Life:
        arguments = ["simulate", "small.yaml", str(self._record)]
        return Life(str(self.folder), arguments, str(self.notes), **how)  # type: ignore[arg-type]

    def live(self, **how: object) -> End:
        return self.nursery.live(self.life(**how))

    def reset(self) -> None:
        shutil.rmtree(self.folder / "results", ignore_errors=True)

    def journaled(self) -> set[Key]:
        """Return what the journal answers: its whole lines, read without Parley's code."""
        found = set()
        for line in self.journal.read_bytes().splitlines(keepends=True)[1:] if self.journal.exists() else []:
            if line.endswith(b"\n") and int(line[:8], 16) == zlib.crc32(line[9:-1]):
                entry = json.loads(line[9:])
                found.add((entry["round"], entry["phase"], entry["agent"], entry["attempt"]))
        return found

    def finished(self) -> bool:
        return self.record.exists()

    def answered(self, undisturbed: "Undisturbed") -> set[Key]:
        """Return what need not be asked again."""
        return set(undisturbed.asked) if self.finished() else self.journaled()

    def files(self) -> list[str]:
        """Return the files under results, relative to the study's folder.

        What a process that died left of the table of conditions is not removed: another may be writing it just now.
        """
        root = self.folder / "results" / "small"
        files = (str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
        return sorted(file for file in files if not file.startswith(".conditions.parquet."))


class Undisturbed:
    """What a run that nobody disturbs gives: the measure of all others."""

    def __init__(self, world: World) -> None:
        end = world.live()
        assert (end.status, end.err) == (0, [])
        self.steps = end.steps
        self.asked = end.asked
        self.digest = read_summary(world.record).digest
        self.files = world.files()
        world.reset()


def finish(world: World, undisturbed: Undisturbed) -> None:
    """Run the same command again, undisturbed; check that nothing was lost and nothing is asked again."""
    answered = world.answered(undisturbed)
    end = world.live()
    assert (end.status, end.err) == (0, [])
    assert end.asked == [key for key in undisturbed.asked if key not in answered]
    assert read_summary(world.record).digest == undisturbed.digest
    assert world.files() == undisturbed.files
