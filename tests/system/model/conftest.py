"""Tests on the real model share what was prepared of it."""

import shutil
from pathlib import Path

import pytest

from parley import paths
from support import REPOSITORY


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory that shares the repository's prepared models."""
    monkeypatch.chdir(tmp_path)
    (REPOSITORY / paths.MODELS).mkdir(exist_ok=True)
    (tmp_path / paths.MODELS).symlink_to(REPOSITORY / paths.MODELS)
    shutil.copy(REPOSITORY / "config" / "models.yaml", tmp_path)
    return tmp_path
