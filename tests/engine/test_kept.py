"""Engines that stay: who finds them, who must not, and when they end. In vLLM's place a small program runs."""

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.engine import kept
from parley.engine.endpoint import Endpoint, read_endpoint
from parley.engine.models import ModelEntry
from parley.errors import EngineError
from support.commands import Parley, end, line, wait_until

pytestmark = pytest.mark.promise("A kept engine answers whoever needs the same one, and ends when nobody used it.")

ENTRY = {"source": {"repo": "owner/tiny", "revision": "a" * 40}}
TINY = ModelEntry.model_validate(ENTRY)
KEPT_OR_LENT = f"""
import sys
from pathlib import Path
from parley.engine import kept, server, supervisor
from parley.engine.models import ModelEntry
entry, seconds = ModelEntry.model_validate({ENTRY!r}), float(sys.argv[1])
path = kept.endpoint_of("tiny", entry)  # for what vLLM would get
server.engine_provenance = lambda *arguments: {{"engine": "tiny"}}
kept.endpoint_of = lambda *arguments: path
VLLM = "import time; print('on', flush=True); time.sleep(99)"
server.server_command = lambda *arguments: [sys.executable, "-c", VLLM]
prepare = lambda: (Path("model"), Path("marker"))
supervisor.serve("tiny", entry, prepare, path if seconds else Path("lent.json"), False, keep=seconds)
"""


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of sockets, which must be short."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder)


def serving(seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", KEPT_OR_LENT, str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def announced(pid: int = os.getpid()) -> Path:
    """Write the endpoint file of a kept engine."""
    Endpoint("tiny", "/socket", pid, keep=60.0).write(path := kept.endpoint_of("tiny", TINY))
    return path


def lent_by(keeping: subprocess.Popen[str]) -> tuple[subprocess.Popen[str], Path]:
    """Start a server that lends what another keeps; return it, and the endpoint file of the other."""
    line(keeping, "on")
    lending = serving(0)
    wait_until(Path("lent.json").exists)
    return lending, kept.endpoint_of("tiny", TINY)


@pytest.mark.slow
def test_it_is_lent_and_ends_only_when_nobody_used_it_for_its_time() -> None:
    keeping = serving(600)
    lending, used = lent_by(keeping)
    lent, of_kept = read_endpoint(Path("lent.json")), read_endpoint(used)
    assert (lent.socket, lent.engine, lent.pid) == (of_kept.socket, {"engine": "tiny"}, lending.pid)
    os.utime(used, (0, 0))
    wait_until(lambda: used.stat().st_mtime)  # it is in use, so its time begins anew
    lending.terminate()
    end(lending, 0)
    assert keeping.poll() is None
    with socket.socket(socket.AF_UNIX) as listens:  # as vLLM does when it is ready
        listens.bind(of_kept.socket)
        listens.listen()
        with socket.socket(socket.AF_UNIX) as asks:
            asks.connect(of_kept.socket)
            with listens.accept()[0]:
                os.utime(used, (0, 0))
                wait_until(lambda: used.stat().st_mtime)
        os.utime(used, (0, 0))
        end(keeping, 0)
    assert not Path("lent.json").exists()
    assert not used.exists()


@pytest.mark.slow
def test_who_borrowed_one_that_is_stopped_says_so(parley: Parley) -> None:
    keeping = serving(60)
    lending, _ = lent_by(keeping)
    assert parley("serve", "--stop").out == "ended: tiny\n"
    assert "the kept engine for tiny has ended" in lending.communicate(timeout=30)[0]
    assert read_endpoint(Path("lent.json")).state == "failed"
    end(keeping, 1)
    assert parley("serve", "--list").out == ""


def test_what_was_killed_stops_nobody() -> None:
    path = announced(2**22 + 1)  # more than any process has
    assert kept.find_kept("tiny", TINY) is None
    assert not path.exists()


def test_only_the_same_arguments_find_it(parley: Parley, monkeypatch: pytest.MonkeyPatch) -> None:
    path = announced()

    def found(name: str = "tiny", **changes: object) -> Path | None:
        return kept.find_kept(name, TINY.model_copy(update=changes))

    assert found() == path
    assert found("other") is found(max_model_len=4096) is found(deterministic=not TINY.deterministic) is None
    assert found(server_args={"max-num-seqs": 2}) is None
    for variable in ("CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID", "VLLM_CPU_KVCACHE_SPACE"):
        with monkeypatch.context() as patch:
            patch.setenv(variable, "7")
            assert found() is None
    assert "tiny: used 0 s ago, ends after 1 min without use" in parley("serve", "--list").out


def test_a_folder_that_others_can_enter_is_refused(runtime: Path) -> None:
    announced()
    (runtime / f"parley-kept-{os.getuid()}").chmod(0o755)
    with pytest.raises(EngineError, match="others can enter it"):
        kept.kept_folder()


def test_none_stays_on_a_login_node(parley: Parley, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sbatch").write_text("")
    (tmp_path / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    run = parley("serve", "smollm2-135m", "--keep", "30m")
    assert (run.status, "srun" in run.err) == (2, True)
    assert parley("serve", "smollm2-135m", "--keep", "soon").status == parley("serve", "smollm2-135m").status == 2
