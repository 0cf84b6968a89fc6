"""An engine for one command: started when none is given, stopped when the command is done."""

import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from parley import paths
from parley.engine.models import model_entry
from parley.engine.server import slowness
from parley.errors import EngineError
from parley.text import one_line

_log = logging.getLogger(__name__)
_END_SECONDS = 12.0  # a server that is told to end has taken vLLM down by then


@contextmanager
def temporary_engine(model: str, models_file: Path) -> Iterator[Path]:
    """Serve an entry of a models file while the context lasts, and yield the endpoint file.

    The model is not loaded yet: clients wait for that. Raises EngineError if the server does not start.
    """
    with tempfile.TemporaryDirectory(prefix="parley-engine-") as folder:
        path, log = Path(folder) / "endpoint.json", Path(folder) / "engine.log"
        command = [sys.executable, "-m", "parley.cli", "serve", model, "--models", str(models_file)]
        _log.info("starting an engine for %s, half a minute or more ...", model)
        if line := slowness(model, model_entry(model, models_file)):
            _log.warning("%s", line)
        with log.open("wb") as output:
            server = subprocess.Popen(
                [*command, "--endpoint", str(path), "--exit-with-parent"],
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=paths.root(),  # where the folder of prepared models is
            )
        try:
            while not path.exists():
                if server.poll() is not None:
                    lines = log.read_text(errors="replace").splitlines() or ["no output"]
                    raise EngineError(f"the engine for {model} did not start: {one_line(lines[-1], 300)}")
                time.sleep(0.1)
            yield path
        finally:
            server.terminate()
            try:
                server.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                server.kill()  # its watchdog ends what it started
                server.wait()
