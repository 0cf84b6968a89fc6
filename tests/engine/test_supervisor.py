"""`parley serve` as a real process: announces itself first, and ends with its endpoint file, its parent, a signal.

In vLLM's place a small program runs; preparing the model is whatever a test wants it to be.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from parley.engine.endpoint import FAILED, STARTING, read_endpoint

pytestmark = pytest.mark.slow

ENDPOINT = Path("endpoint.json")
VLLM = "import signal, time; print('vLLM is on', flush=True); time.sleep(99)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + VLLM
SUPERVISOR = """
import sys, time
from pathlib import Path
from parley.cli.program import main
from parley.engine import server, supervisor, weights
from parley.engine.models import ModelEntry
entry = ModelEntry.model_validate({"source": {"repo": "owner/tiny", "revision": "a" * 40}})
server.engine_provenance = lambda *arguments: {"engine": "tiny"}
server.server_command = lambda *a: [sys.executable, "-c", sys.argv[2]]
def prepare():
    print("preparing", flush=True)
    exec(sys.argv[1])
    return Path("model"), Path("marker")
from parley.errors import ParleyError
try:
    supervisor.serve("tiny", entry, prepare, Path("endpoint.json"), len(sys.argv) > 3)
except ParleyError as error:
    sys.exit(f"parley: {error}")
"""


def started(prepare: str = "", vllm: str = VLLM, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SUPERVISOR, prepare, vllm, *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_for(condition: Callable[[], object], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def line(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdout is not None
    while text not in (found := process.stdout.readline()):
        assert found, f"ended without saying {text!r}"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")


def test_it_is_announced_before_anything_slow_and_completed_after() -> None:
    server = started("while not Path('go').exists(): time.sleep(0.02)")
    line(server, "preparing")
    early = read_endpoint(ENDPOINT)
    assert (early.model, early.state, early.pid, early.engine) == ("tiny", STARTING, server.pid, {})
    Path("go").touch()
    line(server, "vLLM is on")
    late = read_endpoint(ENDPOINT)
    assert (late.socket, late.engine) == (early.socket, {"engine": "tiny"})
    server.terminate()
    out, _ = server.communicate(timeout=30)
    assert server.returncode == 0, out
    assert not ENDPOINT.exists()
    assert not Path(early.socket).parent.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_ends_the_preparation(number: signal.Signals) -> None:
    server = started("time.sleep(99)")
    line(server, "preparing")
    server.send_signal(number)
    out, _ = server.communicate(timeout=10)
    assert server.returncode == 0, out
    assert "Traceback" not in out
    assert not ENDPOINT.exists()


def test_a_preparation_that_cannot_be_interrupted_is_left() -> None:
    swallow = "while True:\n try: print('deaf', flush=True); time.sleep(99)\n except BaseException: pass"
    server = started(swallow)
    line(server, "deaf")
    server.terminate()
    server.communicate(timeout=15)
    assert server.returncode == 1


@pytest.mark.parametrize("how", ["gone", "another"])
@pytest.mark.parametrize("when", ["preparing", "vLLM is on"])
def test_a_server_whose_endpoint_file_is_gone_or_another_servers_ends(when: str, how: str) -> None:
    server = started("time.sleep(99)" if when == "preparing" else "")
    line(server, when)
    if how == "gone":
        ENDPOINT.unlink()
    else:
        other = json.loads(ENDPOINT.read_text()) | {"socket": "/elsewhere"}
        ENDPOINT.with_suffix(".new").write_text(json.dumps(other))
        ENDPOINT.with_suffix(".new").rename(ENDPOINT)
    out, _ = server.communicate(timeout=15)
    assert server.returncode == 1
    assert "is gone or belongs to another server now" in out
    assert "Traceback" not in out
    assert ENDPOINT.exists() == (how == "another")
    if how == "another":
        assert read_endpoint(ENDPOINT).state == STARTING


def test_a_preparation_that_fails_says_why_in_the_endpoint_file() -> None:
    server = started("raise OSError('no room for this')")
    server.communicate(timeout=30)
    assert server.returncode == 1
    found = read_endpoint(ENDPOINT)
    assert (found.state, found.error) == (FAILED, "no room for this")


@pytest.mark.parametrize("when", ["preparing", "vLLM is on"])
def test_it_ends_with_its_parent(when: str) -> None:
    arguments = ["time.sleep(99)" if when == "preparing" else "", VLLM, "with parent"]
    command = f"import subprocess, sys; subprocess.run([sys.executable, '-c', *{[SUPERVISOR, *arguments]!r}])"
    parent = subprocess.Popen([sys.executable, "-c", command], stdout=subprocess.PIPE, text=True)
    line(parent, when)
    pid = read_endpoint(ENDPOINT).pid
    os.kill(parent.pid, signal.SIGKILL)
    parent.communicate(timeout=15)  # the server has the other end of its output
    wait_for(lambda: not Path(f"/proc/{pid}").exists())
    assert not ENDPOINT.exists()


def test_a_vllm_that_ignores_sigterm_is_killed_in_time() -> None:
    server = started("", STUBBORN)
    line(server, "vLLM is on")
    server.terminate()
    server.communicate(timeout=14)
    assert server.returncode == 0
