"""What is private stays so: journals, sockets and endpoints are their owner's, and no server reaches the network."""

import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from parley.engine.endpoint import Endpoint, read_endpoint
from parley.engine.models import ModelEntry
from parley.play.journal import Entry, Journal
from support.commands import wait_until

pytestmark = pytest.mark.promise("Journals, sockets and endpoints are their owner's; no server reaches the network.")

SOURCE = {"repo": "owner/tiny", "revision": "a" * 40}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_journals_and_endpoint_files_are_their_owners(tmp_path: Path) -> None:
    entry = Entry(1, "propose", "agent_1", 0, 7, "ask", "text", "stop", 100, 20, None, 1.5, 0.25)
    before = os.umask(0)
    try:
        with Journal(tmp_path / "j.jsonl", "f" * 64) as journal:
            journal.append(entry)
        Endpoint("tiny", "s", 1).write(tmp_path / "endpoint.json")
    finally:
        os.umask(before)
    assert [mode(path) for path in tmp_path.iterdir()] == [0o600, 0o600]


SERVER = """
import socket, sys, time
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[sys.argv.index("--uds") + 1])
listening.listen()
time.sleep(60)
"""
SUPERVISOR = """
import os, sys
from pathlib import Path
os.umask(0)
from parley.engine import server, supervisor
from parley.engine.models import ModelEntry
entry = ModelEntry.model_validate({"source": {"repo": "owner/tiny", "revision": "a" * 40}})
server.engine_provenance = lambda *arguments: {}
command = server.server_command
server.server_command = lambda *a: [sys.executable, "-c", %r, *command(*a)[3:]]
supervisor.serve("tiny", entry, lambda: (Path("model"), Path("marker")), Path("endpoint.json"), False)
"""


@pytest.mark.slow
def test_a_running_server_is_its_owners_whatever_the_umask(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The supervisor is real; in vLLM's place a process listens where the command tells it to."""
    monkeypatch.chdir(tmp_path)
    # A folder with a short name: below one that is named after this test, a socket's path comes close to its limit.
    run = tmp_path_factory.mktemp("run")
    run.chmod(0o777)
    environment = {**os.environ, "XDG_RUNTIME_DIR": "", "TMPDIR": str(run)}
    process = subprocess.Popen([sys.executable, "-c", SUPERVISOR % SERVER], env=environment)
    try:
        path = Path("endpoint.json")
        wait_until(lambda: path.exists() and Path(read_endpoint(path).socket).exists())
        listening = Path(read_endpoint(path).socket)
        assert mode(path) == 0o600
        assert stat.S_ISSOCK(listening.stat().st_mode)
        assert mode(listening.parent) == 0o700  # nobody else gets as far as the socket
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(listening))
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
    assert not path.exists()
    assert not listening.parent.exists()


# No way to the network


OURS = ["host", "port", "uds", "config", "trust-remote-code", "served-model-name", "max-model-len", "dtype", "model"]
SPELLINGS = sorted(
    {
        spelling
        for name in OURS
        for spelling in [name, name.replace("-", "_"), f"{name}.x", *(name[:end] for end in range(1, len(name)))]
        if spelling[-1].isalnum()
    }
)


def is_taken(where: str, key: str, value: object) -> bool:
    try:
        ModelEntry.model_validate({"source": SOURCE, where: {key: value}})
    except ValueError:
        return False
    return True


def test_no_spelling_of_our_own_arguments_is_taken() -> None:
    """vLLM completes abbreviations, takes '_' for '-', and `name.key` for a part of a value."""
    odd = ["host=0.0.0.0", "--host", "-host", "host ", " host", "uds=/x", "", "host_", "ho\nst", "ｈost"]
    places = ("engine_args", "server_args")
    assert [(key, place) for key in [*SPELLINGS, *odd] for place in places if is_taken(place, key, "0.0.0.0")] == []


def test_no_value_is_another_argument_or_has_no_identity() -> None:
    values = ["--host=0.0.0.0", "--uds=/x", "-x", "--hos=1", "-", "a\0b", float("nan"), float("inf")]
    places = [("engine_args", "enforce-eager"), ("server_args", "log-level")]
    assert [(key, value) for value in values for place, key in places if is_taken(place, key, value)] == []
