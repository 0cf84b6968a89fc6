"""A SLURM for each module of tests, and a working directory for each test."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import REPOSITORY
from support.cluster import OWN_CODE, cluster, jobs, sockets
from support.workflows import share_models


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment in which the cluster's commands work."""
    with cluster(tmp_path_factory.mktemp("cluster")) as environment:
        yield environment


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slurm: dict[str, str]) -> Iterator[Path]:
    """A working directory with the repository's profile, models file and prepared models."""
    monkeypatch.chdir(tmp_path)
    for name in ("SLURM_CONF", "PATH"):
        monkeypatch.setenv(name, slurm[name])
    # Sockets go here, so that what is left of them is seen; tmp_path is too long for them.
    monkeypatch.setenv("TMPDIR", tempfile.mkdtemp(prefix="sockets-"))
    shutil.copytree(REPOSITORY / "slurm", tmp_path / "slurm")
    (tmp_path / "stubborn_agent.py").write_text(OWN_CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    share_models(tmp_path)
    yield tmp_path
    for job in jobs(slurm):
        subprocess.run(["scancel", job], check=True)
    shutil.rmtree(sockets())
