"""A service on this machine, as a fixture."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.engine.service import hosted
from support.answering import KEY, VARIABLE, StandInService, service


@pytest.fixture
def server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandInService]:
    """A service on this machine whose key is in the environment."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv(VARIABLE, KEY)
    with service() as found:
        yield found


@pytest.fixture
def pauses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were asked for; none is made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv(VARIABLE, KEY)
    found: list[float] = []

    async def sleep(seconds: float) -> None:
        found.append(seconds)

    monkeypatch.setattr(hosted, "_sleep", sleep)
    return found
