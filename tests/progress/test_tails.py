import os
from pathlib import Path

from parley.play.journal import Entry, Journal
from parley.play.simulate import simulate
from parley.progress.tails import JobLog, JournalTail, Tail, last_words
from support.commands import heard
from support.studies import StudyFactory


def an_entry(number: int, came: float, tokens: int | None = 20) -> Entry:
    return Entry(number, "propose", "agent_1", 0, 7, "ask", "text", "stop", tokens, tokens, None, came - 2, 2.0)


def test_a_tail_gives_each_whole_line_once_and_begins_anew_where_the_file_does(tmp_path: Path) -> None:
    file = tmp_path / "log"
    tail = Tail(file)
    assert tail.lines() == ([], False)
    assert tail.modified is None
    file.write_bytes(b"one\ntw")
    assert tail.lines() == ([b"one\n"], True)
    with file.open("ab") as more:
        more.write(b"o\nthree\n")
    assert tail.lines() == ([b"two\n", b"three\n"], False)
    assert tail.lines() == ([], False)
    file.write_bytes(b"5\n")
    assert tail.lines() == ([b"5\n"], True)


def test_the_replies_of_a_journal_are_counted_as_they_come(tmp_path: Path) -> None:
    tail = JournalTail(tmp_path / "j")
    assert tail.look() == []
    with Journal(tmp_path / "j", "f" * 64) as journal:
        journal.append(an_entry(1, 100.0))
        assert tail.look() == [(98.0, 100.0, 20, 20)]
        journal.append(an_entry(2, 103.0, None))
        assert tail.look() == [(101.0, 103.0, None, None)]
        assert tail.look() == []
    assert (tail.replies, tail.prompt, tail.completion, tail.last) == (2, 20, 20, 103.0)
    assert tail.by_round == {1: 1, 2: 1}


def test_the_log_of_a_job_tells_what_simulate_says(study_factory: StudyFactory) -> None:
    study = study_factory({"model": "majority", "b": 1, "n": 4, "byzantine": "random"}, parameters={"max_rounds": 2})
    [record] = [simulation.record("small") for simulation in study.simulations()]
    with heard() as said:
        simulate(study, record, [], 1.0)
    Path("job.log").write_text("".join(f"{line}\n" for line in said))
    log = JobLog(Path("job.log"))
    log.look()
    assert log.told == 4 * 2 * 2  # agents, phases, rounds
    assert log.unusable == 0
    assert log.last == said[-1]


def test_the_log_of_a_job_has_warnings_and_begins_anew_with_it(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text(
        "round 1 propose: 8 replies, 2 unusable, 30 tokens\nparley: warning: one\nwarning: t\x1b[2Jwo\nlast\n"
    )
    log = JobLog(path)
    log.look()
    log.look()
    assert (log.told, log.unusable, log.warnings, log.last) == (8, 2, ["one", "t[2Jwo"], "last")
    path.unlink()
    Path(f"{path}.new").write_text("round 1 vote: 3 replies, 1 unusable, 30 tokens\n")
    os.replace(f"{path}.new", path)
    log.look()
    assert (log.told, log.unusable, log.warnings) == (3, 1, [])


def test_the_last_words_of_a_log_are_its_error(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert last_words(log) == ""
    for text, words in (
        ("fine\n\n  \n", "fine"),
        ("ValueError: no\nparley: warning: w\nended\n", "ValueError: no"),
        ("parley: the engine died\x1b[2J\nTypeError: later\nat last\n", "parley: the engine died[2J"),
        ("x" * 50_000 + "\nlast\n", "last"),
    ):
        log.write_text(text)
        assert last_words(log) == words
