"""Studies that the real model plays, and its server."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import yaml

from parley import paths
from parley.study import Study, load_study
from support import REPOSITORY

MODEL = "smollm2-135m"
PARLEY = [sys.executable, "-m", "parley.cli"]


def share_models(folder: Path) -> None:
    """Let a folder have the repository's models file, and what was prepared of the models."""
    (REPOSITORY / paths.MODELS).mkdir(exist_ok=True)
    (folder / paths.MODELS).symlink_to(REPOSITORY / paths.MODELS)
    shutil.copy(REPOSITORY / "config" / "models.yaml", folder)


def write(folder: Path, *grids: dict[str, object], **content: object) -> Study:
    body = {"game": "consensus", "parameters": {"max_rounds": 2}, **content, "grids": list(grids)}
    (folder / "real.yaml").write_text(yaml.safe_dump(body))
    return load_study(Path("real.yaml"))


def serve(model: str = MODEL) -> subprocess.Popen[bytes]:
    with Path("engine.log").open("wb") as log:
        process = subprocess.Popen(
            [*PARLEY, "serve", model, "--models", "models.yaml", "--endpoint", "endpoint.json", "--exit-with-parent"],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    end = time.monotonic() + 120
    while not Path("endpoint.json").exists() and time.monotonic() < end:
        time.sleep(0.2)
    return process
