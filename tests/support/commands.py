"""Running `parley` in this process."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from parley.cli import program as cli


@dataclass(frozen=True)
class Ran:
    """What a command printed and how it ended."""

    status: int
    out: str
    err: str


Parley = Callable[..., Ran]


@pytest.fixture
def parley(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Parley:
    """Run the command line in this process."""

    def run(*arguments: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["parley", *map(str, arguments)])
        status = 0
        try:
            cli.main()
        except SystemExit as end:
            status = int(end.code or 0)
        captured = capsys.readouterr()
        return Ran(status, captured.out, captured.err)

    return run


def one_line_error(ran: Ran, status: int) -> str:
    assert ran.status == status
    assert ran.err.startswith("parley: ")
    assert ran.err.count("\n") == 1
    assert "Traceback" not in ran.err
    return ran.err
