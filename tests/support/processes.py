"""States of processes that are not there."""

import json
import os
from dataclasses import asdict
from pathlib import Path

from parley.progress.state import ProcessState


def write_state(folder: Path, state: ProcessState, at: float | None = None) -> Path:
    """Write a state as its process would, at a time in seconds since the epoch."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{state.host}-{state.pid}.json"
    path.write_text(json.dumps(asdict(state)))
    if at is not None:
        os.utime(path, (at, at))
    return path
