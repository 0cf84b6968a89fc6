"""The environments beside this one: inspect_ai (`make exports`), remotes of DVC."""

import fcntl
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import parley
from support import REPOSITORY

_READER = REPOSITORY / "tests" / "export" / "read_exports.py"


@pytest.fixture(scope="session")
def beside() -> Path:
    """The Python that has what reads exports."""
    return _made("exports")


@pytest.fixture(scope="session")
def beside_remotes() -> Path:
    """The Python whose DVC knows S3 and SSH, and which has a server of S3."""
    return _made("remotes")


def _made(name: str) -> Path:
    """Return the Python of an environment; it is made where it is missing, as `make test-slow` does before."""
    mark = REPOSITORY / f".venv-{name}" / ".installed"
    if not mark.exists():
        with (REPOSITORY / ".venv" / f".{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            command = ["make", "--old-file", ".venv/.installed", str(mark.relative_to(REPOSITORY))]
            subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, timeout=300)
    return mark.parent / "bin" / "python"


def run_beside(python: Path, what: str, folder: Path, *arguments: object) -> Any:
    """Have exports read there, in `folder`, by a function of read_exports.py; return what it returns."""
    return read_beside(python, folder, {what.removesuffix(".py"): arguments})[what.removesuffix(".py")]


def read_beside(python: Path, folder: Path, wanted: dict[str, Any]) -> Any:
    """Have all that is `wanted`, by the name of its function, read by one process; return what each returns."""
    source = Path(parley.__file__).parent.parent
    env = os.environ | {"PYTHONPATH": f"{source}:{REPOSITORY / 'tests'}", "PYTHONWARNINGS": "ignore"}
    command = [str(python), str(_READER), json.dumps(wanted, default=str)]
    ran = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return json.loads(ran.stdout.splitlines()[-1])
