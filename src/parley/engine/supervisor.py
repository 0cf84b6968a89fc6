"""`parley serve`: announces a server, prepares its model, runs vLLM, and takes it down with everything it started.

It ends on SIGTERM, SIGINT and SIGHUP, with its parent if asked to, and when its endpoint file is gone or another's:
then nobody can ask it any more, and somebody may be waiting for its end.

A command that is given no engine starts one for itself (`temporary_engine`), unless one is kept that would give the
same replies (`parley.engine.kept`). A run's servers lend it, too: their endpoint files name its socket.
"""

import asyncio
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType

import psutil

from parley import paths
from parley.engine import hardware, kept, needs, server
from parley.engine.client import Engine
from parley.engine.endpoint import FAILED, Endpoint, read_endpoint
from parley.engine.models import ModelEntry, known_models, model_entry
from parley.errors import EngineError
from parley.text import one_line
from parley.text.yamlfile import yaml_text

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.25
_LOOK_SECONDS = 1.0
_SIGNAL, _PARENT, _ENDPOINT = "a signal", "its parent is gone", "its endpoint file is gone, or another server's"
_UNUSED = "nobody used it"


def serve(
    name: str,
    entry: ModelEntry,
    prepare: Callable[[], tuple[Path, Path]],
    endpoint: Path,
    exit_with_parent: bool,
    random_weights: bool = False,
    keep: float = 0.0,
) -> None:
    """Serve until told to stop; returns after a clean stop, raises EngineError if vLLM dies or nobody can ask it.

    With `keep` it also ends after so many seconds without use. Without, one that is kept is lent in its place.

    The endpoint file is written before anything slow, completed when `prepare` has returned the model's folder and
    its marker, removed on a clean stop, and names the error otherwise. On GPUs it has some of its own, of those it
    sees. `random_weights` is for measurements: no weights are read, and replies are nonsense.
    """
    if not keep and not random_weights and (found := kept.find_kept(name, entry)):
        _lend(found, endpoint, exit_with_parent)
        return
    private = Path(tempfile.mkdtemp(prefix=server.PREFIX_OF_FOLDER, dir=server.runtime_folder()))
    announced = Endpoint(model=name, socket=str(private / "engine.sock"), pid=os.getpid(), born=_born(), keep=keep)
    announced.write(endpoint)
    stop = _Stop(announced, endpoint, exit_with_parent)
    try:
        with stop.interrupts():
            if server.is_on_gpus(entry):
                hardware.take_gpus(entry.gpus)
            if lines := needs.missing_of_engine():
                raise EngineError(lines[0])
            folder, marker = prepare()
            announced = replace(announced, engine=server.engine_provenance(name, entry, marker))
            determinism = server.determinism_of(entry)
            command = server.server_command(name, entry, folder, announced.socket)
        announced.update(endpoint)
        if determinism.warning:
            _log.warning("%s", determinism.warning)
        if random_weights:  # no entry may set a load format: others than this one run code
            command += ["--load-format", "dummy"]
        running = server.Server(command, private, determinism.environment)
    except _Stopped:
        announced.withdraw(endpoint)
    except Exception as error:
        announced.update(endpoint, state=FAILED, error=one_line(str(error), 300))
        raise
    else:
        _run(running, stop, announced, endpoint)
    finally:
        shutil.rmtree(private, ignore_errors=True)
    if stop.reason == _ENDPOINT:
        raise EngineError(f"{endpoint}: is gone or belongs to another server now, so this server has ended")


def _lend(lender: Path, endpoint: Path, exit_with_parent: bool) -> None:
    """Announce a kept engine as this server's until told to stop; raises EngineError if it dies."""
    announced = replace(read_endpoint(lender), pid=os.getpid(), born=_born(), keep=0.0)
    announced.write(endpoint)
    _log.info("a kept engine answers for %s (parley serve --list)", announced.model)
    stop = _Stop(announced, endpoint, exit_with_parent)
    while not stop.reason and (now := _still_there(lender, announced)) is not None:
        if now.engine != announced.engine:  # its model is ready
            announced = replace(announced, engine=now.engine)
            announced.update(endpoint)
        time.sleep(_POLL_SECONDS)
    if not stop.reason:
        announced.update(endpoint, state=FAILED, error="the kept engine that answered has ended")
        raise EngineError(f"the kept engine for {announced.model} has ended: start the same command again")
    announced.withdraw(endpoint)


def _still_there(lender: Path, announced: Endpoint) -> Endpoint | None:
    try:
        found = read_endpoint(lender)
        os.utime(lender)  # it is in use
    except (EngineError, FileNotFoundError):
        return None
    return found if found.socket == announced.socket and kept.serves(found) else None


def _born() -> float:
    return float(psutil.Process().create_time())


def _run(running: server.Server, stop: "_Stop", announced: Endpoint, endpoint: Path) -> None:
    """Wait until vLLM is to end, and end it; raises EngineError, in its last words, if it died by itself."""
    try:
        while running.running and not stop.reason:
            time.sleep(_POLL_SECONDS)
        died = not stop.reason
    finally:
        if running.running:  # clients are not to lose their connections before
            announced.withdraw(endpoint)
        running.end()
    if died:
        error = running.last_error()
        announced.update(endpoint, state=FAILED, error=error)
        raise EngineError(f"the engine for {announced.model} died: {error}")


class _Stopped(BaseException):
    """Ends what prepares a model. No Exception, so that nobody on the way takes it for an error."""


class _Stop:
    """Knows why the server is to end, by signals and by a thread that looks at its parent and its endpoint file.

    The thread also asks whether nobody used it for too long.
    """

    def __init__(self, announced: Endpoint, endpoint: Path, exit_with_parent: bool) -> None:
        self.reason = ""
        self._announced, self._endpoint = announced, endpoint
        self._parent = os.getppid() if exit_with_parent else None
        self._interrupts = False  # whether a signal raises
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._note)
        threading.Thread(target=self._look, daemon=True, name="parley-stop").start()

    @contextmanager
    def interrupts(self) -> Iterator[None]:
        """Raise _Stopped in this context, once, when the server is to end."""
        self._interrupts = True
        try:
            if self.reason:
                raise _Stopped
            yield
        finally:
            self._interrupts = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.reason = self.reason or _SIGNAL
        if self._interrupts:
            self._interrupts = False
            raise _Stopped

    def _look(self) -> None:
        missed = 0
        while not self.reason:
            time.sleep(_LOOK_SECONDS)
            missed = 0 if self._announced.owns(self._endpoint) else missed + 1
            if self._parent is not None and os.getppid() != self._parent:
                self.reason = self.reason or _PARENT
            elif missed > 1:  # not while it is just being written
                self.reason = self.reason or _ENDPOINT
            elif self._announced.keep and kept.is_over(self._endpoint, self._announced):
                self.reason = self.reason or _UNUSED
        if self._interrupts:
            os.kill(os.getpid(), signal.SIGTERM)


_END_SECONDS = 12.0  # a server that is told to end has taken vLLM down by then


@contextmanager
def temporary_engine(model: str, models_file: Path, unfiled: ModelEntry | None = None) -> Iterator[Path]:
    """Serve an entry of a models file, or one that is not in it, while the context lasts; yield the endpoint file.

    A kept engine is taken if there is one. The model is not loaded yet: clients wait for that. Raises EngineError if
    the server does not start.
    """
    entry = unfiled or model_entry(model, models_file)
    if found := kept.find_kept(model, entry):
        yield found
        return
    with tempfile.TemporaryDirectory(prefix="parley-engine-") as folder:
        path, log = Path(folder) / "endpoint.json", Path(folder) / "engine.log"
        if unfiled is not None and model not in known_models(models_file):
            models_file = Path(folder) / "models.yaml"
            content = unfiled.model_dump(mode="json", by_alias=True, exclude_unset=True)
            models_file.write_text(yaml_text({"models": {model: content}}), encoding="utf-8")
        _log.info("starting an engine for %s, half a minute or more ...", model)
        process = _started(model, models_file, path, log, "--exit-with-parent")
        try:
            _wait_announced(process, model, path, log)
            yield path
        finally:
            process.terminate()
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()  # its watchdog ends what it started
                process.wait()


def keep_engine(model: str, models_file: Path, seconds: float, patience: float) -> float:
    """Leave an engine running that ends after so many seconds without use, and return when it answers.

    One that is there already goes on as it is. Returns after how many seconds it ends; raises EngineError if none
    answers after `patience` seconds.
    """
    kept.refuse_on_login_node()
    entry = model_entry(model, models_file)
    path = kept.endpoint_of(model, entry)
    if kept.find_kept(model, entry) is None:
        log = path.with_suffix(".log")
        process = _started(model, models_file, path, log, "--keep", f"{seconds:.0f}s", start_new_session=True)
        _wait_announced(process, model, path, log)
    asyncio.run(_ready(path, patience))
    return read_endpoint(path).keep


async def _ready(endpoint: Path, patience: float) -> None:
    async with Engine(endpoint) as engine:
        await engine.wait_ready(patience)


def _started(
    model: str, models_file: Path, endpoint: Path, log: Path, *options: str, start_new_session: bool = False
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "parley.cli", "serve", model, "--models", str(models_file.absolute())]
    with log.open("wb") as output:
        return subprocess.Popen(
            [*command, "--endpoint", str(endpoint), *options],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=paths.root(),  # where the folder of prepared models is
            start_new_session=start_new_session,
        )


def _wait_announced(process: subprocess.Popen[bytes], model: str, endpoint: Path, log: Path) -> None:
    while not endpoint.exists():
        if process.poll() is not None:
            lines = log.read_text(errors="replace").splitlines() or ["no output"]
            raise EngineError(f"the engine for {model} did not start: {one_line(lines[-1], 300)}")
        time.sleep(0.1)
