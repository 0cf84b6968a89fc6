import asyncio
import math
import os
import threading
from pathlib import Path

import pytest

from parley import paths
from parley.errors import JournalError
from parley.files import checked_line
from parley.play.journal import ENTRY_FIELDS, Entry, Journal, delete_journal
from parley.play.runner import Play, play, play_async
from parley.policies import Ask, Completion, Policy
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


def test_entries_come_back_as_they_were_each_in_a_line_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "j"
    entries = [an_entry(1), an_entry(2, 'new\nline\r "quoted" \u2028 \0 é \U0001f600'), an_entry(3, "")]
    lines = write(path, *entries).splitlines()
    assert read(path) == entries
    assert len(lines) == 4  # the header is the first
    assert all(len(line.split(b" ", 1)[0]) == 8 for line in lines)  # a checksum


def test_the_journal_of_another_simulation_is_refused_and_left_alone(tmp_path: Path) -> None:
    content = write(tmp_path / "j", an_entry())
    with pytest.raises(JournalError, match=r"another simulation .*; move it away"):
        Journal(tmp_path / "j", "e" * 64)
    assert (tmp_path / "j").read_bytes() == content
    assert read(tmp_path / "j") == [an_entry()]  # it is not kept open


@pytest.mark.promise("What is no journal and lies in the place of one is left there, and named.")
def test_what_is_no_journal_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "j"
    path.write_text("my notes\nof a day\n")
    with pytest.raises(JournalError, match=r"j: is no journal, .*; move it away"):
        Journal(path, ID)
    assert path.read_text() == "my notes\nof a day\n"


# Two processes


def test_a_second_opening_is_locked_out_until_the_first_ends(tmp_path: Path) -> None:
    path = tmp_path / "j"
    first = Journal(path, ID)
    first.append(an_entry())
    with pytest.raises(JournalError, match="another process is playing this simulation"):
        Journal(path, ID)
    first.append(an_entry(2))
    timer = threading.Timer(0.2, first.__exit__, (None, None, None))
    timer.start()
    with Journal(path, ID, patience=20.0) as second:
        assert list(second.entries.values()) == [an_entry(1), an_entry(2)]
    timer.join()


# Every kind of death


@pytest.fixture
def no_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do without the disk, where a file is damaged and no machine dies."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


def near_ends_and_every(step: int, content: bytes) -> list[int]:
    """Return places to cut at: around every end of a line, and some of those between."""
    ends = [0, *(at + 1 for at, byte in enumerate(content) if byte == ord("\n"))]
    near = {end + by for end in ends for by in (-1, 0, 1)} | {*range(0, len(content), step)}
    return sorted(place for place in near if 0 <= place <= len(content))


@pytest.mark.promise("A journal damaged anywhere gives nothing that was not written.")
@pytest.mark.usefixtures("no_syncs")
def test_a_journal_damaged_anywhere_gives_nothing_that_was_not_written(tmp_path: Path) -> None:
    entries = [an_entry(1), an_entry(2), an_entry(3)]
    content = write(tmp_path / "j", *entries)
    path = tmp_path / "damaged"
    for number, at in enumerate(range(content.index(b"\n") + 1, len(content), 7)):
        damaged = bytearray(content)
        damaged[at] ^= (0x01, 0x20, 0xFF)[number % 3]
        path.write_bytes(damaged)
        kept, line = read(path), content[:at].count(b"\n") - 1
        others = entries[:line] + entries[line + (2 if content[at] == ord("\n") else 1) :]  # two lines may become one
        assert [entry for entry in kept if entry in others] == others
        assert all(entry in entries for entry in kept)


def counted_play(path: Path | None, seed: int = 0) -> tuple[Play, list[tuple[int, str, str, int]]]:
    policy = CountingPolicy(RULES["random"])
    game = new_consensus("hhb", seed=seed, max_rounds=2, stop_threshold=1)
    policies = {seat.name: policy for seat in game.seats}
    if path is None:
        return play(ID, game, policies), policy.asked
    with Journal(path, ID) as journal:
        return play(ID, game, policies, journal), policy.asked


@pytest.mark.parametrize(
    ("name", "value"), [("seconds", math.nan), ("started", 1e300), ("prompt_tokens", 10**30), ("attempt", -1)]
)
def test_a_line_with_what_no_reply_has_is_no_line(tmp_path: Path, name: str, value: object) -> None:
    content = write(tmp_path / "j", an_entry(1))
    forged = checked_line({**{key: getattr(an_entry(2), key) for key in ENTRY_FIELDS}, name: value})
    (tmp_path / "j").write_bytes(content + forged)
    assert read(tmp_path / "j") == [an_entry(1)]


@pytest.mark.promise("A play that goes on after any death is identical and asks nothing twice.")
@pytest.mark.usefixtures("no_syncs")
@pytest.mark.slow
def test_a_play_resumed_after_any_death_is_identical_and_asks_nothing_twice(tmp_path: Path) -> None:
    whole, asked = counted_play(tmp_path / "j")
    assert whole.digest == counted_play(None)[0].digest
    content = (tmp_path / "j").read_bytes()
    assert len(asked) == 12
    path = tmp_path / "cut"
    after_a_power_cut = content + b"\0" * 4096
    for kept in [*(content[:cut] for cut in near_ends_and_every(397, content)), after_a_power_cut]:
        path.write_bytes(kept)
        resumed, again = counted_play(path)
        journaled = max(kept.count(b"\n") - 1, 0)
        assert resumed.digest == whole.digest
        assert again == asked[journaled:]
        assert len(path.read_bytes().splitlines()) == 13


@pytest.mark.promise("A phase is on the disk before the next is asked.")
def test_a_play_is_synced_before_the_next_phase_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    fsync = os.fsync

    def counted(fd: int) -> None:
        fsync(fd)
        if (tmp_path / "j").exists():
            synced.append(len((tmp_path / "j").read_bytes().splitlines()))

    monkeypatch.setattr(os, "fsync", counted)
    counted_play(tmp_path / "j")
    assert {4, 7, 10, 13} <= set(synced)  # a header, and three replies in each of four phases


def test_the_disk_of_one_game_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncing, asked = threading.Event(), threading.Event()

    class Late(CountingPolicy):
        async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
            while not syncing.is_set():
                await asyncio.sleep(0.01)
            asked.set()
            return await super().answer(ask, seed, attempt)

    async def game(policy: Policy, journal: Journal) -> None:
        await play_async(ID, new_consensus("hh"), dict.fromkeys(("agent_1", "agent_2"), policy), journal)

    async def games(first: Journal, second: Journal) -> None:
        await asyncio.gather(game(CountingPolicy(RULES["random"]), first), game(Late(RULES["random"]), second))

    stuck: list[bool] = []
    with Journal(tmp_path / "a", ID) as first, Journal(tmp_path / "b", ID) as second:
        monkeypatch.setattr(os, "fsync", lambda fd: (syncing.set(), stuck.append(not asked.wait(5.0))))
        asyncio.run(games(first, second))
    assert not any(stuck)


def test_an_answer_to_another_question_is_refused(tmp_path: Path) -> None:
    counted_play(tmp_path / "j", seed=0)
    with pytest.raises(JournalError, match=r"another question for agent_1 in round 1.*move it away"):
        counted_play(tmp_path / "j", seed=1)  # other initial values


# After the end


def test_the_journal_of_a_finished_simulation_goes_and_those_of_others_stay(study_factory: StudyFactory) -> None:
    record = next(study_factory().simulations()).record("small")
    record.parent.mkdir(parents=True)
    record.write_bytes(b"the record")
    other = paths.journal(record).with_name("seed=1.jsonl")
    for path in (paths.journal(record), other):
        write(path, an_entry())
    leftover = record.with_name(f".{record.name}.12.tmp")
    leftover.write_bytes(b"half of")
    delete_journal(record, "e" * 64)  # of another simulation
    assert paths.journal(record).exists()
    for _ in range(2):
        delete_journal(record, ID)
    assert not paths.journal(record).exists()
    assert read(other) == [an_entry()]
    assert os.listdir(record.parent) == [record.name]
