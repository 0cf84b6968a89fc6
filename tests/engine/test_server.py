"""The server's supervision: its command, its last words, and that nothing outlives it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from parley.engine import server
from parley.engine.models import ModelEntry


def entry(**keys: object) -> ModelEntry:
    return ModelEntry.model_validate({"source": {"repo": "owner/tiny", "revision": "a" * 40}, **keys})


def option(command: list[str], name: str) -> str:
    return command[command.index(f"--{name}") + 1]


def test_the_command_never_names_a_network_address() -> None:
    command = server.server_command("tiny", entry(), Path("m"), "/tmp/s.sock")
    assert option(command, "uds") == "/tmp/s.sock"
    assert not {"--host", "--port", "--trust-remote-code"} & set(command)


def test_the_command_follows_the_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "is_cpu_build", lambda: False)
    keys = {"dtype": "float16", "max_model_len": 4096, "gpus": 2, "server_args": {"gpu-memory-utilization": 0.8}}
    command = server.server_command("tiny", entry(**keys), Path("m"), "s")
    assert (option(command, "dtype"), option(command, "max-model-len")) == ("float16", "4096")
    assert (option(command, "tensor-parallel-size"), option(command, "gpu-memory-utilization")) == ("2", "0.8")
    assert "--no-enable-chunked-prefill" not in command


def test_the_cpu_build_prefills_a_whole_context_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "is_cpu_build", lambda: True)
    command = server.server_command("tiny", entry(max_model_len=32_768), Path("m"), "s")
    assert "--no-enable-chunked-prefill" in command
    assert option(command, "max-num-batched-tokens") == "32768"


def test_thread_variables_of_the_workflow_do_not_reach_a_cpu_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "is_cpu_build", lambda: True)
    for name in server._THREAD_VARIABLES:
        monkeypatch.setenv(name, "2")
    assert not set(server._THREAD_VARIABLES) & set(server._environment())


def started(script: str, folder: Path) -> "server._Server":
    folder.mkdir()
    return server._Server([sys.executable, "-c", script], folder)


def gone(pid: int, seconds: float = 10.0) -> bool:
    """Whether a process ends within `seconds` (a zombie has ended)."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_the_last_error_is_the_line_that_names_one(tmp_path: Path) -> None:
    lines = (
        "(EngineCore pid=7) ERROR 11-21 22:15:03 [core.py:133] ValueError: no such dtype",
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
        "Exception: WorkerProc initialization failed due to an exception. See stack trace for root cause.",
        "goodbye",
    )
    running = started(
        "import sys; print(sys.argv[0]); " + "; ".join(f"print({line!r})" for line in lines), tmp_path / "x"
    )
    running._process.wait()
    running.end()
    assert running.last_error().startswith("ValueError: no such dtype (exit status 0")


def test_a_stop_ends_the_children_too_and_removes_the_socket_folder(tmp_path: Path) -> None:
    script = "import subprocess; p = subprocess.Popen(['sleep', '99']); print(p.pid, flush=True); p.wait()"
    running = started(script, tmp_path / "x")
    while not running._lines:
        time.sleep(0.05)
    child = int(running._lines[0])
    running.end()
    assert gone(child)
    assert not (tmp_path / "x").exists()


def test_a_group_that_ignores_sigterm_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_TERM_SECONDS", 0.3)
    script = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); time.sleep(99)"
    )
    running = started(script, tmp_path / "x")
    while not running._lines:
        time.sleep(0.05)
    running.end()
    assert running._process.returncode == -signal.SIGKILL


def test_the_watchdog_ends_the_group_of_a_supervisor_that_was_killed(tmp_path: Path) -> None:
    folder = tmp_path / "x"
    folder.mkdir()
    supervisor = (
        "import sys, time; from pathlib import Path; from parley.engine import server\n"
        "s = server._Server(['sleep', '99'], Path(sys.argv[1]))\n"
        "print(s._process.pid, flush=True); time.sleep(99)"
    )
    process = subprocess.Popen([sys.executable, "-c", supervisor, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert gone(child)
    end = time.monotonic() + 5
    while folder.exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not folder.exists()
