"""Ctrl-C and SIGTERM in a run of Snakemake: it ends within 15 seconds on one machine, and says how to go on."""

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

GOES_ON = "what was answered is in the journals, and the same command goes on with what is left"
SIGNALS = (signal.SIGINT, signal.SIGTERM)
ALL_SECONDS = 14.0
_STATUS = 130  # what shells give for Ctrl-C
_JOBS_SECONDS = 10.0  # for jobs to end by themselves
_CANCEL_SECONDS = 60.0  # for a cluster to cancel jobs
_POLL_SECONDS = 0.3
_SHELLS = ("bash", "sh", "dash")

STOPPED = threading.Event()  # somebody wants this run to end
_endings: list[Callable[[bool], None]] = []


def end_now(line: str) -> None:
    """End this process at once, with a line; nothing that is locked or hangs is in the way."""
    try:
        os.write(2, f"parley: {line}\n".encode())
    finally:
        os._exit(_STATUS)


def leave_with(ending: Callable[[bool], None]) -> None:
    """Have `leave` call something that ends a display, or what this process says of itself."""
    _endings.append(ending)


def leave(last_look: bool = True) -> None:
    """End what others see of this process, before it ends or becomes another program."""
    while _endings:
        _endings.pop(0)(last_look)


def _leave_now(line: str) -> None:
    with suppress(Exception):
        leave()
    end_now(line)


def stop_while_planning() -> None:
    """Make Ctrl-C and SIGTERM end this process at once: nothing is played yet."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, frame: _leave_now("stopped before anything was played"))


def stop_run(scheduler: Any, local: bool) -> None:
    """Make Ctrl-C and SIGTERM end a run of Snakemake, whose `scheduler` is about to begin.

    Jobs of a cluster are canceled by Ctrl-C alone: if Snakemake is killed, the same command waits for them.
    """
    handler = _LocalStop(scheduler).note if local else _cancel
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, handler)
    if local:
        signal.signal(signal.SIGTERM, handler)


def _cancel(number: int, frame: FrameType | None) -> None:
    """Have Snakemake cancel its cluster jobs; asked again it goes on with that."""
    if not STOPPED.is_set():
        STOPPED.set()
        late = threading.Timer(_CANCEL_SECONDS, _leave_now, [f"stopped; look for its jobs with squeue; {GOES_ON}"])
        late.daemon = True
        late.start()
        raise KeyboardInterrupt


class _LocalStop:
    """Ends the jobs of a run, and then the run, by a thread: a handler of signals may wait for no lock."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self._hurry = False

    def note(self, number: int, frame: FrameType | None) -> None:
        """Begin to stop; asked again, kill the jobs at once."""
        self._hurry = STOPPED.is_set()
        if not STOPPED.is_set():
            STOPPED.set()
            threading.Thread(target=self._end, daemon=True, name="parley-stop").start()

    def _end(self) -> None:
        import psutil  # the command line, which uses parts of this module, has no use for it

        # Snakemake's own way of stopping, which starts no more jobs and waits for those that run.
        threading.Thread(target=self._scheduler.exit_gracefully, daemon=True).start()
        began = time.monotonic()
        terminated: set[psutil.Process] = set()
        while (passed := time.monotonic() - began) < ALL_SECONDS:
            late = passed > _JOBS_SECONDS or self._hurry
            for process in psutil.Process().children(recursive=True):
                with suppress(psutil.Error, OSError):
                    if late:
                        process.kill()
                    elif process not in terminated and _hears(process):
                        terminated.add(process)
                        process.terminate()
            time.sleep(_POLL_SECONDS)
        _leave_now(f"stopped; {GOES_ON}")


def _hears(process: Any) -> bool:
    """Whether a process is to be sent SIGTERM: no shell, which would lose its job, nor a server in its own session."""
    return process.name() not in _SHELLS and os.getsid(process.pid) == os.getsid(0)


def stopped_line() -> str | None:
    """Return the last line of a run that was stopped; None if it was not."""
    return f"stopped; {GOES_ON}" if STOPPED.is_set() else None
