"""Writing files so that a reader sees the old one or the new one, never half of one."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

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
        temporary.unlink(missing_ok=True)
