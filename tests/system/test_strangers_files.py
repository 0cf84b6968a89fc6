"""What somebody else left in a study's folders: no command hangs on it, or writes or deletes what lies elsewhere.

The places are those that the commands were seen to open, make, move or remove something in.
"""

import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parley import files, paths
from parley.play.journal import Journal
from parley.play.simulate import simulate_shard
from parley.study import Study
from support.answering import StandInService
from support.commands import Parley, Ran, bounded
from support.workflows import write_served

pytestmark = pytest.mark.promise(
    "A FIFO, a link or a huge file at any place of a study's folders hangs no command, and nothing elsewhere changes."
)
MINE = Path("elsewhere/mine.txt")  # a file of somebody else's, beside what links to folders lead to


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(3 * 10**9)


KINDS: dict[str, Callable[[Path], object]] = {
    "FIFO": os.mkfifo,
    "link": lambda path: path.symlink_to(MINE.absolute()),
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "huge": huge,
}
QUICK = ("status", "prune --yes", "simulate-shard --engine services 0", "view", "plan")
RARE = pytest.param(("summarize", "figures", "report"), marks=pytest.mark.rare)

SHARED = ("conditions.parquet", "figures", "metrics", "report", "simulations", "tables", "view")  # as in dvc.yaml

_CHANGES = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.utime"}
_seen: set[Path] | None = None  # while somebody looks


def _see(event: str, arguments: tuple[Any, ...]) -> None:
    if _seen is not None and event in _CHANGES:
        _seen.update(Path(os.fsdecode(each)) for each in arguments[:2] if isinstance(each, str | bytes | os.PathLike))


sys.addaudithook(_see)


@pytest.fixture
def made(server: StandInService, folder: Path, parley: Parley, monkeypatch: pytest.MonkeyPatch) -> Study:
    """A study with everything that is made of it, one game of which goes on from its journal."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    study = write_served(server, budget={"tokens": 10**6})
    for engine in ("scripted", "services"):
        simulate_shard(study, engine, 0)
    record = max(s.record("small") for s in study.simulations() if s.condition.models)
    record.unlink()
    for command in ("summarize", "figures", "report", "view", "plan"):
        assert parley(command, "small").status == 0
    with Journal(paths.journal(record), study.find(record).id):
        pass
    paused = paths.paused("small", "theirs")
    event = paths.processes(paths.results("small")) / "0-1.jsonl"
    for path in (paused.with_suffix(".count"), event):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a")
    former = paths.journal(record).parent.with_name(f"spec={'0' * 8}") / "seed=0.jsonl"
    former.parent.mkdir()
    former.touch()
    MINE.parent.mkdir()
    MINE.write_text("mine")
    return study


def touched(parley: Parley, command: str) -> tuple[set[Path], set[Path]]:
    """Return where a command looks or writes: a file of each suffix in each folder, and the folders."""
    global _seen
    _seen = set()
    ended = call(parley, command)
    assert ended.status == 0, ended
    seen, _seen = {Path(os.path.relpath(path)) for path in _seen}, None
    restore()
    tops = [paths.results("small"), paths.log("small", "run").parent]
    inside = [path for path in sorted(seen) if any(top in path.parents for top in tops)]
    places = {(path.parent, path.suffix): path for path in inside if path.is_file()}
    folders = {each for path in inside for each in (path, *path.parents) if any(top in each.parents for top in tops)}
    return {*places.values()}, {each for each in folders if each.is_dir()}


def call(parley: Parley, command: str) -> Ran:
    first, *options = command.split()
    with bounded(60):
        ran = parley(first, "small", *options)
    assert ran.status in (0, 1, 2)
    assert "PARLEY_DEBUG" not in ran.err, ran.err  # as of an error that nobody thought of
    return ran


def restore() -> None:
    while files._held:  # the command's process would have ended
        os.close(files._held.pop())
    for name in ("results", "logs"):
        shutil.rmtree(name)
        shutil.copytree(Path("kept") / name, name)
    shutil.rmtree(MINE.parent / "folder", ignore_errors=True)


def held() -> dict[Path, bytes | None]:
    return {path: path.read_bytes() if path.is_file() else None for path in MINE.parent.rglob("*")}


def leave(kind: str, places: set[Path]) -> None:
    for number, place in enumerate(sorted(places)):
        if kind == "folder":
            moved = MINE.parent / "folder" / str(number)
            moved.parent.mkdir(exist_ok=True)
            place.rename(moved)
            place.symlink_to(moved.absolute())
        else:
            place.unlink()
            make = KINDS.get(kind, [*KINDS.values()][number % len(KINDS)])
            make(place)


@pytest.mark.slow
@pytest.mark.parametrize("commands", [QUICK, RARE])
def test_what_a_stranger_left_hangs_nothing_and_leads_nowhere(
    made: Study, parley: Parley, commands: tuple[str, ...]
) -> None:
    for name in ("results", "logs"):
        shutil.copytree(name, Path("kept") / name)
    for command in commands:
        places, folders = touched(parley, command)
        assert places or folders, command
        depths = {len(folder.parts) for folder in folders}
        trials = [("folder", {each for each in folders if len(each.parts) == depth}) for depth in depths]
        trials += [(kind, places) for kind in (KINDS if commands == QUICK else ["each another"])]  # these take long
        while trials:
            # At all places at once; then without those that stopped the command.
            kind, now = trials.pop()
            leave(kind, now)
            before = held()
            try:
                ran = call(parley, command)
            except BaseException as error:
                error.add_note(f"{command}, with a {kind} at {sorted(now)}")
                raise
            assert held() == before, (command, kind, now)
            restore()
            if ran.status and len(now) > 1:
                stopped = {place for place in now if re.search(f"{re.escape(str(place))}(?![^:;, ])", ran.err)}
                stopped = stopped or {*sorted(now)[: len(now) // 2]}  # it does not say which
                trials += [(kind, part) for part in (stopped, now - stopped) if part and part != now]


@pytest.mark.slow
def test_results_that_dvc_keeps_as_links_into_its_cache_are_read(made: Study, parley: Parley) -> None:
    results, cache = paths.results("small"), MINE.parent
    shared = [path for path in results.rglob("*") if path.is_file() and path.relative_to(results).parts[0] in SHARED]
    for number, path in enumerate(shared):
        path.rename(cache / str(number))
        path.symlink_to((cache / str(number)).absolute())
    before = held()
    for command in ("report", "view", "summarize"):
        assert parley(command, "small").status == 0
    assert held() == before
