"""What tests of services share."""

from pathlib import Path

import pytest

from answering import KEY, VARIABLE
from parley.engine import hosted


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
