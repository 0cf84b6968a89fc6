"""The environment beside this one that has inspect_ai and the validator of RO-Crates (`make exports`)."""

import fcntl
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import parley
from support import REPOSITORY

SCRIPTS = REPOSITORY / "tests" / "support"
_MARK = REPOSITORY / ".venv-exports" / ".installed"


@pytest.fixture(scope="session")
def beside() -> Path:
    """Its Python; made where it is missing, as `make test` does before."""
    if not _MARK.exists():
        with (REPOSITORY / ".venv" / ".exports.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            command = ["make", "--old-file", ".venv/.installed", str(_MARK.relative_to(REPOSITORY))]
            subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, timeout=300)
    return _MARK.parent / "bin" / "python"


def run_beside(python: Path, script: str, folder: Path, *arguments: object) -> Any:
    """Run a script of tests/support there, in `folder`; return the JSON in its last line."""
    source = Path(parley.__file__).parent.parent
    env = os.environ | {"PYTHONPATH": f"{source}:{REPOSITORY / 'tests'}", "PYTHONWARNINGS": "ignore"}
    command = [str(python), str(SCRIPTS / script), *map(str, arguments)]
    ran = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return json.loads(ran.stdout.splitlines()[-1])
