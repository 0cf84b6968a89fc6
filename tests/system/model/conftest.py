"""Tests on the real model share what was prepared of it."""

from pathlib import Path

import pytest

from support.workflows import share_models


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory that shares the repository's prepared models."""
    monkeypatch.chdir(tmp_path)
    share_models(tmp_path)
    return tmp_path
