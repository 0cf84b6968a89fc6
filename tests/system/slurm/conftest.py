"""A SLURM for all tests of a process, and a working directory for each test."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import REPOSITORY
from support.cluster import Cluster, cluster, sockets
from support.workflows import OWN_CODE, share_models


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slurm: Cluster) -> Iterator[Path]:
    """A working directory with the repository's profile, models file and prepared models."""
    monkeypatch.chdir(tmp_path)
    for name, value in slurm.variables.items():
        monkeypatch.setenv(name, value)
    # Sockets go here, so that what is left of them is seen; tmp_path is too long for them.
    monkeypatch.setenv("TMPDIR", tempfile.mkdtemp(prefix="sockets-"))
    shutil.copytree(REPOSITORY / "slurm", tmp_path / "slurm")
    (tmp_path / "keeps_agent.py").write_text(OWN_CODE)
    share_models(tmp_path)
    yield tmp_path
    slurm.empty()
    shutil.rmtree(sockets())
