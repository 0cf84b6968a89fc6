import os
import signal
from operator import methodcaller
from pathlib import Path

import pytest

from parley import paths
from parley.errors import RecordError
from parley.files import (
    checked_line,
    is_locked,
    keep_only,
    mark_done,
    parse_line,
    remove_leftovers,
    temporary_name,
    write_atomically,
)

pytestmark = pytest.mark.promise("A file appears whole and is on the disk before it has its name.")


def test_a_file_is_replaced_as_a_whole_and_its_folders_are_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "x.bin"
    write_atomically(path, lambda file: file.write(b"a longer old content"))
    seen = []
    with path.open("rb") as reading:
        write_atomically(path, lambda file: (file.write(b"new"), file.flush(), seen.append(path.read_bytes())))
        seen.append(reading.read())
    assert seen == [b"a longer old content"] * 2  # who reads meanwhile reads the whole of one
    assert path.read_bytes() == b"new"
    assert os.listdir(path.parent) == ["x.bin"]


def test_a_file_is_on_the_disk_before_it_gets_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, done = tmp_path / "record", []
    sync, rename = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (done.append(os.fstat(fd).st_size), sync(fd)))
    monkeypatch.setattr(os, "replace", lambda *names: (done.append("renamed"), rename(*names)))
    write_atomically(path, methodcaller("write", b"whole"))
    assert done[:2] == [5, "renamed"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, OSError(28, "No space left on device")])
def test_a_failed_write_leaves_the_old_file_and_no_temporary_one(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(b"old")

    def fail(file: object) -> None:
        raise error

    with pytest.raises((KeyboardInterrupt, ValueError, RecordError)) as caught:
        write_atomically(path, fail)
    if caught.type is RecordError:
        told = f"{path}: cannot be written: No space left on device; free space and run again"
        assert str(caught.value) == told
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x.bin"]


def test_what_killed_processes_had_prepared_goes_and_nothing_else(tmp_path: Path) -> None:
    figures = tmp_path / "figures"
    ours = [temporary_name(figures / "endings.pdf"), temporary_name(figures / "print" / "x.svg")]
    others = [figures / name for name in (".mine.tmp", ".endings.pdf.old", "endings.pdf.12.tmp", "endings.pdf")]
    ours[1].parent.mkdir(parents=True)
    for path in (*ours, *others):
        path.touch()
    remove_leftovers(figures)
    assert [path.exists() for path in ours] == [False, False]
    assert all(path.exists() for path in others)


def test_what_is_no_longer_written_goes_and_nothing_that_parley_did_not_list(tmp_path: Path) -> None:
    listing, outside = tmp_path / "view" / "list", tmp_path / "mine.js"
    ours = [listing.with_name(name) for name in ("1.js", "2.js")]
    own = listing.with_name("3.js")
    for path in (*ours, own, outside):
        write_atomically(path, methodcaller("write", b""))
    keep_only([*ours, outside.parent / "view" / "4.js"], listing)
    listing.write_text(f"{listing.read_text()}\n../mine.js\n{outside}\n\n.")
    keep_only(ours[:1], listing)
    assert sorted(listing.parent.iterdir()) == [ours[0], own, listing]
    keep_only([], listing, tmp_path / "metrics")  # a list that lies elsewhere than what it names
    assert ours[0].exists()
    assert outside.exists()


def test_nobody_waits_for_a_writer_to_see_whether_a_file_is_locked(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "seed=0.jsonl")
    signal.setitimer(signal.ITIMER_REAL, 5)  # ends the process that waits
    try:
        assert not is_locked(tmp_path / "seed=0.jsonl")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def test_a_line_that_is_not_whole_is_none() -> None:
    line = checked_line({"a": [1, "é"]})
    assert parse_line(line) == {"a": [1, "é"]}
    damaged = [line[:cut] for cut in range(len(line))] + [line.replace(b"1", b"2", 1), b"\0" * 20 + b"\n"]
    damaged += [line[:9] + line[9:].replace(b"1", b"7"), checked_line([1])]  # type: ignore[arg-type]
    assert [parse_line(each) for each in damaged] == [None] * len(damaged)


def test_a_stage_is_done_for_one_plan_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a study that is changed and changed back would find the tables of another set of simulations done."""
    monkeypatch.chdir(tmp_path)
    for plan in ("0" * 8, "f" * 8):
        mark_done("small", "tables", plan)
    assert [paths.stamp("small", "tables", plan).exists() for plan in ("0" * 8, "f" * 8)] == [False, True]
