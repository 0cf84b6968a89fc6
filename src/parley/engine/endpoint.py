"""The endpoint file: how a server tells its clients where it listens, and why it is gone.

The server writes it before the model is loaded, and rewrites it if it dies; clients read it until the server answers.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from socket import gethostname
from typing import Any

import psutil

from parley.errors import EngineError
from parley.files import read_regular, remove, write_atomically

_MAX_BYTES = 10_000_000

STARTING = "starting"
FAILED = "failed"


@dataclass(frozen=True)
class Endpoint:
    """Where the engine of one model listens, and what it is."""

    model: str
    socket: str
    pid: int
    state: str = STARTING
    error: str = ""
    host: str = field(default_factory=gethostname)
    born: float = 0.0  # when its process began, in seconds since 1970: another may have its pid later; 0: not known
    keep: float = 0.0  # seconds without use after which it ends by itself; 0 if it ends with its caller
    engine: Mapping[str, Any] = field(default_factory=dict)  # provenance: versions, arguments, device, weights

    def write(self, path: Path) -> None:
        """Write the file at once and whole, readable by its owner alone."""
        content = json.dumps(asdict(self), indent=1).encode()
        write_atomically(path, lambda file: file.write(content), 0o600)

    def owns(self, path: Path) -> bool:
        """Whether the endpoint file is there and this server's; what cannot be read for a moment is taken to be."""
        try:
            return bool(json.loads(read_regular(path, _MAX_BYTES))["socket"] == self.socket)
        except (FileNotFoundError, ValueError, LookupError, TypeError):
            return False
        except OSError:
            return True

    def withdraw(self, path: Path) -> None:
        """Remove the endpoint file unless another server wrote it since."""
        if self.owns(path):
            remove(path)

    def update(self, path: Path, **changes: Any) -> None:
        """Write the file with changes unless another server wrote it since."""
        if self.owns(path):
            replace(self, **changes).write(path)

    @property
    def alive(self) -> bool:
        """Whether the server's process exists; True if it is on another machine and cannot be seen."""
        if self.host != gethostname():
            return True
        try:
            process = psutil.Process(self.pid)
            is_it = not self.born or abs(process.create_time() - self.born) < 1
            return bool(is_it and process.status() != psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return False


def read_endpoint(path: Path) -> Endpoint:
    """Return the endpoint; raises EngineError if the file is missing or not an endpoint file."""
    try:
        return Endpoint(**json.loads(read_regular(path, _MAX_BYTES)))
    except (OSError, ValueError, TypeError):
        raise EngineError(f"{path}: no endpoint file; start the engine with: parley serve") from None
