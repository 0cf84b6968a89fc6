"""What is private stays so: journals, sockets and endpoints are their owner's, and no server reaches the network."""

import argparse
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from parley.engine import server
from parley.engine.endpoint import Endpoint, read_endpoint
from parley.engine.models import ModelEntry
from parley.play.journal import Entry, Journal
from support import REPOSITORY

SOURCE = {"repo": "owner/tiny", "revision": "a" * 40}


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("open_umask")
def test_a_journal_and_what_is_kept_of_a_damaged_one_are_their_owners(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    entry = Entry(1, "propose", "agent_1", 0, 7, "ask", "text", "stop", 100, 20, None, 1.5, 0.25)
    with Journal(path, "f" * 64) as journal:
        journal.append(entry)
        journal.append(entry)
    path.write_bytes(path.read_bytes().replace(b'"text":"text"', b'"text":"tixt"', 1))
    with Journal(path, "f" * 64) as journal:
        assert journal.entries == {}
    assert mode(path) == 0o600
    assert mode(path.with_suffix(".damaged")) == 0o600


@pytest.mark.usefixtures("open_umask")
def test_an_endpoint_file_is_its_owners(tmp_path: Path) -> None:
    Endpoint("tiny", "s", 1).write(tmp_path / "endpoint.json")
    assert mode(tmp_path / "endpoint.json") == 0o600


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
        end, path = time.monotonic() + 30, Path("endpoint.json")
        while time.monotonic() < end and not (path.exists() and Path(read_endpoint(path).socket).exists()):
            time.sleep(0.02)
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


def vllm_parser() -> argparse.ArgumentParser:
    """Return a parser that reads names as vLLM's does: it completes abbreviations (argparse's default)."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    for name in ("model", "uds", "host", "port", "served-model-name", "dtype", "max-model-len", "config", "seed"):
        parser.add_argument(f"--{name}", nargs="?")
    for name in ("master-addr", "grpc-port", "kv-transfer-config", "kv-events-config", "data-parallel-address"):
        parser.add_argument(f"--{name}", default=None)
    for name in ("trust-remote-code", "grpc", "enforce-eager"):
        parser.add_argument(f"--{name}", action="store_true")
    return parser


OURS = ["host", "port", "uds", "config", "trust-remote-code", "served-model-name", "max-model-len", "dtype", "model"]
OTHERS = ["master-addr", "grpc", "grpc-port", "kv-transfer-config", "kv-events-config", "data-parallel-address"]
SPELLINGS = sorted(
    {
        spelling
        for name in [*OURS, *OTHERS]
        for spelling in [name, name.replace("-", "_"), f"{name}.x", *(name[:end] for end in range(1, len(name)))]
        if spelling[-1].isalnum()
    }
)


@pytest.mark.parametrize("where", ["engine_args", "server_args"])
@pytest.mark.parametrize("key", SPELLINGS)
def test_no_spelling_of_an_address_or_of_our_own_arguments_is_taken(where: str, key: str) -> None:
    with pytest.raises(ValidationError, match="is Parley's own, or would reach beyond its"):
        ModelEntry.model_validate({"source": SOURCE, where: {key: "0.0.0.0"}})


@pytest.mark.parametrize(
    "key", ["host=0.0.0.0", "--host", "-host", "host ", " host", "uds=/x", "", "host_", "ho\nst", "ｈost"]
)
def test_what_is_no_plain_name_is_no_argument(key: str) -> None:
    with pytest.raises(ValidationError):
        ModelEntry.model_validate({"source": SOURCE, "server_args": {key: "x"}})


@pytest.mark.parametrize("value", ["--host=0.0.0.0", "--host", "--uds=/x", "-x", "--hos=1", "-", "a\0b"])
@pytest.mark.parametrize(("where", "key"), [("engine_args", "enforce-eager"), ("server_args", "log-level")])
def test_no_value_is_another_argument(where: str, key: str, value: str) -> None:
    with pytest.raises(ValidationError, match="may not begin with '-'"):
        ModelEntry.model_validate({"source": SOURCE, where: {key: value}})


@pytest.mark.parametrize("key", ["seed", "enforce-eager", "enforce_eager", "port-x", "hostess", "tokenizer"])
@pytest.mark.parametrize("value", ["x", 1, -5, True, 0.5])
def test_whatever_an_entry_may_say_the_server_listens_on_its_socket_alone(key: str, value: object) -> None:
    entry = ModelEntry.model_validate({"source": SOURCE, "engine_args": {key: value}})
    command = server.server_command("tiny", entry, Path("m"), "/tmp/s.sock")
    # As vLLM reads them: '_' in a name is '-'.
    arguments = [a.replace("_", "-") if a.startswith("--") else a for a in command[3:]]
    read, _ = vllm_parser().parse_known_args(arguments)
    assert (read.uds, read.model, read.served_model_name) == ("/tmp/s.sock", "m", "tiny")
    assert read.host is read.port is read.config is read.master_addr is read.grpc_port is None
    assert not read.trust_remote_code
    assert not read.grpc


def test_arguments_that_engines_are_given_today_are_taken() -> None:
    for args in ({"gpu-memory-utilization": 0.8, "enforce-eager": True}, {"quantization": "fp8", "seed": -1}):
        ModelEntry.model_validate({"source": SOURCE, "engine_args": args})
    config = yaml.safe_load((REPOSITORY / "config/models.yaml").read_text())
    assert all(ModelEntry.model_validate(entry) for entry in config["models"].values())


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_arguments_that_have_no_identity_are_refused(value: float) -> None:
    with pytest.raises(ValidationError):
        ModelEntry.model_validate({"source": SOURCE, "engine_args": {"seed": value}})
