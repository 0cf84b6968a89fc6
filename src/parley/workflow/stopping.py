"""Ctrl-C and SIGTERM: every command ends within 15 seconds and says how to go on."""

import os
import signal
import threading
import time
from types import FrameType

GOES_ON = "what was answered is in the journals, and the same command goes on with what is left"
SIGNALS = (signal.SIGINT, signal.SIGTERM)
ALL_SECONDS = 14.0
_STATUS = 130  # what shells give for Ctrl-C


def end_now(line: str) -> None:
    """End this process at once, with a line; nothing that is locked or hangs is in the way."""
    try:
        os.write(2, f"parley: {line}\n".encode())
    finally:
        os._exit(_STATUS)


def stop_command(words: str) -> None:
    """Make SIGTERM do what Ctrl-C does, and have either end this process in time, with these `words` if it hangs."""
    if threading.current_thread() is not threading.main_thread():
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_end_late, args=(reader, words), daemon=True, name="parley-stop").start()
    signal.signal(signal.SIGTERM, _as_ctrl_c)
    os.register_at_fork(after_in_child=_forget)


def _forget() -> None:
    """What a process forks, such as those that draw figures, ends as any other, and tells nobody."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _as_ctrl_c(number: int, frame: FrameType | None) -> None:
    if signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None):  # a command in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.raise_signal(signal.SIGINT)


def _end_late(reader: int, words: str) -> None:
    """Wait for a signal, and then for the process to end by itself."""
    while os.read(reader, 1)[0] not in SIGNALS:
        pass
    time.sleep(ALL_SECONDS)
    end_now(words)
