"""What the library says while it works: how often, in which words, and to whom."""

import io
import logging
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from parley import text as logs
from parley.cli.common import log_to_stderr, print_log
from parley.text import every, limited_logger, logged_to, own_log
from support.commands import heard

log = limited_logger("parley.of_this_test")


class Work:
    """Something that messages are about."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that have passed, in a list of one."""
    now = [1000.0]
    monkeypatch.setattr(logs.time, "monotonic", lambda: now[0])
    return now


def test_a_message_comes_once_in_its_time_and_each_work_has_its_own_turn(clock: list[float]) -> None:
    one, two = Work(), Work()
    with heard() as said:
        for _ in range(25):
            log.info("at %.0f s", clock[0], extra=every(10, of=one))
            log.info("of the other", extra=every(10, of=two))
            log.info("always")
            clock[0] += 1
    assert [line for line in said if line.startswith("at")] == ["at 1000 s", "at 1010 s", "at 1020 s"]
    assert [said.count(line) for line in ("of the other", "always")] == [3, 25]


def test_who_uses_the_library_sees_warnings_and_all_only_while_somebody_listens() -> None:
    logger = logging.getLogger("parley")
    assert (logger.level, logger.handlers, logger.propagate) == (logging.NOTSET, [], True)
    try:
        logger.setLevel(logging.ERROR)
        with heard(), heard():
            assert logger.level == logging.INFO
        assert (logger.level, logger.handlers) == (logging.ERROR, [])
    finally:
        logger.setLevel(logging.NOTSET)
    stream = io.StringIO()
    with logged_to(logging.StreamHandler(stream)):
        log.info("%d of %d", 1, 2)
    assert stream.getvalue() == "1 of 2\n"


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
    log.warning("odd\r\n\x1b[2J")
    here = own_log.set(Path("elsewhere.log"))
    log.info("into the log of a simulation")
    own_log.reset(here)


def test_the_command_line_prints_progress_and_warnings() -> None:
    for options, out, err in [
        ([], "half done\n", "warning: odd [2J\n"),
        (["--data"], "", "parley: half done\nparley: warning: odd [2J\n"),
    ]:
        ran = CliRunner().invoke(program, ["work", *options], catch_exceptions=False)
        assert (ran.stdout, ran.stderr) == (out, err)
