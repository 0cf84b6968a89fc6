"""Studies that the real model plays, and its server."""

import subprocess
import sys
import time
from pathlib import Path

import yaml

from parley.study import Study, load_study

PARLEY = [sys.executable, "-m", "parley.cli"]


def write(folder: Path, *grids: dict[str, object], **content: object) -> Study:
    body = {"game": "consensus", "parameters": {"max_rounds": 2}, **content, "grids": list(grids)}
    (folder / "real.yaml").write_text(yaml.safe_dump(body))
    return load_study(Path("real.yaml"))


def serve(model: str = "smollm2-135m") -> subprocess.Popen[bytes]:
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
