"""What the library says while it works: how often, in which words, and to whom."""

import io
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from parley.cli.options import log_to_stderr, print_log
from parley.text import logs
from parley.text.logs import RateLimit, every, limited_logger, logged_to, own_log
from support.hearing import heard

log = limited_logger("parley.of_this_test")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The seconds that have passed, in a list of one."""
    now = [1000.0]
    monkeypatch.setattr(logs.time, "monotonic", lambda: now[0])
    limits = [found for found in log.filters if isinstance(found, RateLimit)]
    yield now
    for limit in limits:
        limit._last.clear()


class Work:
    """Something that messages are about."""


def test_a_message_comes_once_in_its_time(clock: list[float]) -> None:
    with heard() as said:
        for _ in range(25):
            log.info("at %.0f s", clock[0], extra=every(10))
            log.info("another one", extra=every(20))
            log.info("always")
            clock[0] += 1
    assert [line for line in said if line.startswith("at")] == ["at 1000 s", "at 1010 s", "at 1020 s"]
    assert (said.count("another one"), said.count("always")) == (2, 25)


def test_each_work_has_its_own_turn(clock: list[float]) -> None:
    works = [Work(), Work()]
    with heard() as said:
        for _ in range(2):
            for work in works:
                log.info("work", extra=every(10, of=work))
    assert said == ["work", "work"]


def test_short_work_says_nothing_and_long_work_says_it_late(clock: list[float]) -> None:
    with heard() as said:
        for seconds in (5, 12):
            began = clock[0]
            for _ in range(seconds):
                log.info("for %.0f s", clock[0] - began, extra=every(10, since=began))
                clock[0] += 1
    assert said == ["for 10 s"]


def test_a_module_has_one_limit(clock: list[float]) -> None:
    assert limited_logger("parley.of_this_test") is log
    assert sum(isinstance(found, RateLimit) for found in log.filters) == 1


def test_hostile_text_is_cleaned_and_a_warning_is_called_one() -> None:
    with heard() as said:
        log.info("%s", "one\ntwo\x1b[2J")
        log.warning("%s", "bad\r\nnews")
    assert said == ["one two[2J", "warning: bad news"]


def test_logging_is_as_it_was_when_nobody_listens_any_more() -> None:
    logger = logging.getLogger("parley")
    level, handlers = logger.level, list(logger.handlers)
    try:
        logger.setLevel(logging.ERROR)
        with heard(), heard():
            assert logger.level == logging.INFO
        assert (logger.level, logger.handlers) == (logging.ERROR, handlers)
    finally:
        logger.setLevel(level)


@click.group()
@click.pass_context
def program(context: click.Context) -> None:
    print_log(context)


@program.command()
@click.option("--data", is_flag=True)
def work(data: bool) -> None:
    if data:
        log_to_stderr("parley: ")
    log.info("half done")
    log.warning("odd")
    here = own_log.set(Path("elsewhere.log"))
    log.info("into the log of a simulation")
    own_log.reset(here)


@pytest.mark.parametrize(
    ("options", "out", "err"),
    [
        ([], "half done\n", "warning: odd\n"),
        (["--data"], "", "parley: half done\nparley: warning: odd\n"),
    ],
)
def test_the_command_line_prints_progress_and_warnings(options: list[str], out: str, err: str) -> None:
    ran = CliRunner().invoke(program, ["work", *options], catch_exceptions=False)
    assert (ran.stdout, ran.stderr) == (out, err)


LIBRARY = """
import logging
from parley.text.logs import limited_logger
log = limited_logger("parley.play.simulate")
log.info("half done")
log.warning("odd")
"""


@pytest.mark.slow
def test_who_uses_the_library_sees_warnings_alone() -> None:
    ran = subprocess.run([sys.executable, "-c", LIBRARY], capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("", "odd\n")


def test_a_stream_of_ones_own_can_be_told_all() -> None:
    stream = io.StringIO()
    with logged_to(logging.StreamHandler(stream)):
        log.info("%d of %d", 1, 2)
    assert stream.getvalue() == "1 of 2\n"
