import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from parley import paths
from parley.errors import JournalError
from parley.play.journal import Entry, Journal, release, restore, retire
from parley.play.runner import Play, play
from support.playing import RULES, CountingPolicy, new_consensus
from support.studies import StudyFactory

ID = "f" * 64


def an_entry(number: int = 1, text: str = "text") -> Entry:
    return Entry(number, "propose", "agent_1", 0, 7, "ask", text, "stop", 100, 20, None, 1.5, 0.25)


def write(path: Path, *entries: Entry) -> bytes:
    with Journal(path, ID) as journal:
        for entry in entries:
            journal.append(entry)
        journal.sync()
    return path.read_bytes()


def read(path: Path) -> list[Entry]:
    with Journal(path, ID) as journal:
        return list(journal.entries.values())


# The file


def test_entries_come_back_as_they_were(tmp_path: Path) -> None:
    entries = [an_entry(1), an_entry(2, 'new\nline "quoted" \u2028 \0 é \U0001f600'), an_entry(3, "")]
    write(tmp_path / "j", *entries)
    assert read(tmp_path / "j") == entries


def test_an_entry_can_be_read_by_others_before_it_is_synced(tmp_path: Path) -> None:
    with Journal(tmp_path / "j", ID) as journal:
        before = (tmp_path / "j").read_bytes()
        journal.append(an_entry())
        assert len((tmp_path / "j").read_bytes().splitlines()) == len(before.splitlines()) + 1
        assert journal.entries[(1, "propose", "agent_1", 0)] == an_entry()


def test_every_line_is_one_entry_with_its_checksum(tmp_path: Path) -> None:
    lines = write(tmp_path / "j", an_entry(1, "a\nb\r\u2028c"), an_entry(2)).splitlines()
    assert len(lines) == 3  # the header is the first
    assert all(len(line.split(b" ", 1)[0]) == 8 for line in lines)


def test_a_journal_makes_its_folder(tmp_path: Path) -> None:
    write(tmp_path / "a" / "b" / "j")
    assert read(tmp_path / "a" / "b" / "j") == []


def test_only_its_owner_can_read_a_journal(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write(tmp_path / "j")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "j").stat().st_mode) == 0o600


def test_going_on_appends(tmp_path: Path) -> None:
    first = write(tmp_path / "j", an_entry(1))
    second = write(tmp_path / "j", an_entry(2))
    assert second.startswith(first)
    assert read(tmp_path / "j") == [an_entry(1), an_entry(2)]


def test_the_journal_of_another_simulation_is_refused_and_left_alone(tmp_path: Path) -> None:
    content = write(tmp_path / "j", an_entry())
    with pytest.raises(JournalError, match="belongs to another simulation or version of Parley; move it away"):
        Journal(tmp_path / "j", "e" * 64)
    assert (tmp_path / "j").read_bytes() == content


def test_a_refused_journal_is_not_kept_open(tmp_path: Path) -> None:
    write(tmp_path / "j", an_entry())
    with pytest.raises(JournalError):
        Journal(tmp_path / "j", "e" * 64)
    assert read(tmp_path / "j") == [an_entry()]


# Two processes


def test_a_second_opening_is_locked_out(tmp_path: Path) -> None:
    with Journal(tmp_path / "j", ID) as journal:
        journal.append(an_entry())
        with pytest.raises(JournalError, match="another process is playing this simulation"):
            Journal(tmp_path / "j", ID)
        journal.append(an_entry(2))
    assert read(tmp_path / "j") == [an_entry(1), an_entry(2)]


@pytest.mark.slow
def test_another_process_is_locked_out_until_this_one_is_done(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from parley.play.journal import Journal\n"
        "try: Journal(Path(sys.argv[1]), sys.argv[2]); print('open')\n"
        "except Exception as error: print(type(error).__name__)\n"
    )

    def other_process() -> str:
        command = [sys.executable, "-c", code, str(tmp_path / "j"), ID]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()

    with Journal(tmp_path / "j", ID):
        assert other_process() == "JournalError"
    assert other_process() == "open"


def test_a_patient_opening_waits_for_the_other_to_end(tmp_path: Path) -> None:
    first = Journal(tmp_path / "j", ID)
    first.append(an_entry())
    timer = threading.Timer(0.3, first.__exit__, (None, None, None))
    timer.start()
    with Journal(tmp_path / "j", ID, patience=20.0) as second:
        assert list(second.entries.values()) == [an_entry()]
    timer.join()


# Every kind of death


@pytest.fixture
def no_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do without the disk, where a file is damaged and no machine dies."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


@pytest.mark.slow
@pytest.mark.usefixtures("no_syncs")
def test_a_journal_cut_at_any_byte_keeps_every_whole_line_and_can_be_written(tmp_path: Path) -> None:
    entries = [an_entry(1), an_entry(2, "é\n")]
    content = write(tmp_path / "j", *entries)
    for cut in range(len(content) + 1):
        path = tmp_path / f"j{cut}"
        path.write_bytes(content[:cut])
        whole = max(content[:cut].count(b"\n") - 1, 0)
        assert read(path) == entries[:whole]
        write(path, *entries[whole:])
        assert read(path) == entries
        path.unlink()


@pytest.mark.slow
@pytest.mark.usefixtures("no_syncs")
def test_a_journal_damaged_at_any_byte_gives_nothing_that_was_not_written(tmp_path: Path) -> None:
    entries = [an_entry(1), an_entry(2), an_entry(3)]
    content = write(tmp_path / "j", *entries)
    header = content.index(b"\n") + 1
    path = tmp_path / "damaged"
    for at in range(header, len(content)):
        for flip in (0x01, 0x20, 0xFF):
            damaged = bytearray(content)
            damaged[at] ^= flip
            path.write_bytes(damaged)
            kept = read(path)
            assert kept == entries[: len(kept)]
            assert len(kept) >= content[:at].count(b"\n") - 1


def test_zeros_at_the_end_are_cut_off(tmp_path: Path) -> None:
    content = write(tmp_path / "j", an_entry())  # what a file system may leave after a power cut
    (tmp_path / "j").write_bytes(content + b"\0" * 4096)
    assert read(tmp_path / "j") == [an_entry()]
    assert (tmp_path / "j").read_bytes() == content


def counted_play(path: Path | None, seed: int = 0) -> tuple[Play, list[tuple[int, str, str, int]]]:
    policy = CountingPolicy(RULES["random"])
    game = new_consensus("hhb", seed=seed, max_rounds=2, stop_threshold=1)
    policies = {seat.name: policy for seat in game.seats}
    if path is None:
        return play(ID, game, policies), policy.asked
    with Journal(path, ID) as journal:
        return play(ID, game, policies, journal), policy.asked


@pytest.mark.slow
def test_a_play_resumed_after_any_death_is_identical_and_asks_nothing_twice(tmp_path: Path) -> None:
    whole, asked = counted_play(tmp_path / "j")
    content = (tmp_path / "j").read_bytes()
    assert len(asked) == 12
    path = tmp_path / "cut"
    ends = [at + 1 for at, byte in enumerate(content) if byte == ord("\n")]
    # Every 53rd byte and the surroundings of every end of a line; the journal alone is cut at each byte above.
    for cut in sorted(
        {*range(0, len(content), 53), *(end + near for end in [0, *ends[:-1]] for near in (0, 1, 9)), *ends}
    ):
        path.write_bytes(content[:cut])
        resumed, again = counted_play(path)
        journaled = max(content[:cut].count(b"\n") - 1, 0)
        assert resumed.digest == whole.digest
        assert again == asked[journaled:]
        assert len(path.read_bytes().splitlines()) == 13


def test_a_journal_does_not_change_a_play(tmp_path: Path) -> None:
    assert counted_play(tmp_path / "j")[0].digest == counted_play(None)[0].digest


def test_a_complete_journal_is_played_without_asking(tmp_path: Path) -> None:
    counted_play(tmp_path / "j")
    assert counted_play(tmp_path / "j")[1] == []


def test_an_answer_to_another_question_is_refused(tmp_path: Path) -> None:
    counted_play(tmp_path / "j", seed=0)
    with pytest.raises(JournalError, match="answers another question for agent_1 in round 1") as caught:
        counted_play(tmp_path / "j", seed=1)  # other initial values
    assert "move it away" in str(caught.value)


# After the end


@pytest.fixture
def record(study_factory: StudyFactory) -> Path:
    """A finished record with its journal, both made by hand."""
    path = next(study_factory().simulations()).record("small")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"the record")
    write(paths.journal(path), an_entry())
    return path


def test_a_retired_journal_is_gone_and_the_record_is_kept_under_a_second_name(record: Path) -> None:
    retire(record)
    assert not paths.journal(record).exists()
    assert paths.kept_record(record).read_bytes() == record.read_bytes() == b"the record"


def test_a_deleted_record_is_restored(record: Path) -> None:
    retire(record)
    record.unlink()
    assert restore(record)
    assert record.read_bytes() == b"the record"


def test_a_record_is_restored_when_its_folders_are_gone_too(record: Path) -> None:
    retire(record)
    record.unlink()
    record.parent.rmdir()
    assert restore(record)
    assert record.read_bytes() == b"the record"


def test_there_is_nothing_to_restore_before_the_end(record: Path) -> None:
    record.unlink()
    assert not restore(record)
    assert not record.exists()


def test_a_record_in_its_place_is_not_replaced(record: Path) -> None:
    retire(record)
    record.unlink()
    record.write_bytes(b"newer")
    assert restore(record)
    assert record.read_bytes() == b"newer"


def test_retiring_again_keeps_the_newer_record(record: Path) -> None:
    retire(record)
    record.unlink()
    record.write_bytes(b"newer")
    retire(record)
    assert paths.kept_record(record).read_bytes() == b"newer"


def test_a_released_record_has_one_name_and_leaves_no_empty_folders(record: Path) -> None:
    retire(record)
    release(record)
    assert record.read_bytes() == b"the record"
    assert not paths.kept_record(record).exists()
    assert sorted(os.listdir("results/small")) == ["simulations"]


def test_the_second_name_is_not_released_while_it_is_the_only_one(record: Path) -> None:
    retire(record)
    record.unlink()
    release(record)
    assert paths.kept_record(record).read_bytes() == b"the record"


def test_releasing_leaves_the_journals_of_others_alone(record: Path) -> None:
    other = paths.journal(record).with_name("seed=1.jsonl")
    write(other, an_entry())
    retire(record)
    release(record)
    release(record)
    assert read(other) == [an_entry()]


@pytest.mark.parametrize("step", ["retire", "restore"])
def test_file_systems_without_hard_links_get_a_copy(record: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("no hard links here")

    if step == "restore":
        retire(record)
    monkeypatch.setattr(os, "link", refuse)
    if step == "retire":
        retire(record)
    record.unlink()
    assert restore(record)
    assert record.read_bytes() == b"the record"
    assert os.listdir(record.parent) == [record.name]
