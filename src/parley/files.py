"""Writing files so that a reader sees the old one or the new one; and the marks of finished stages."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from parley import paths
from parley.errors import RecordError


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Have `write` fill a temporary file beside `path`, sync it, and rename it; raises RecordError if it cannot."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise RecordError(f"{path}: cannot be written: {error.strerror or error}; free space and run again") from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def mark_done(study: str, stage: str, plan: str) -> None:
    """Mark a stage as done for a plan. The marks of other plans go, since their outputs were replaced."""
    stamp = paths.stamp(study, stage, plan)
    write_atomically(stamp, lambda file: file.write(f'{{"plan": "{plan}"}}\n'.encode()))
    for old in stamp.parent.glob(paths.stamp(study, stage, "*").name):
        if old != stamp:
            old.unlink()


def require_done(study: str, stage: str, plan: str, command: str) -> None:
    """Raise RecordError unless the stage was done for this plan: its outputs may show another set of simulations."""
    stamp = paths.stamp(study, stage, plan)
    if not stamp.exists():
        raise RecordError(f"{stamp.parent}: not made for the study as it is now; run: parley {command} {study}")
