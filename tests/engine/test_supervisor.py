"""`parley serve` as a real process: announces itself first, and ends with its endpoint file, its parent, a signal.

In vLLM's place a small program runs; preparing the model is whatever a test wants it to be.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from parley.engine.endpoint import FAILED, STARTING, read_endpoint
from parley.engine.models import ModelEntry, load_models, named_model
from parley.engine.supervisor import temporary_engine
from parley.errors import EngineError
from support.commands import end, line, wait_until

pytestmark = [
    pytest.mark.promise(
        "`parley serve` announces itself first, and ends with its endpoint file, its parent or a signal."
    ),
    pytest.mark.slow,
]

ENDPOINT = Path("endpoint.json")
SUPERVISOR = """
import sys, time
from pathlib import Path
from parley.engine import server, supervisor
from parley.engine.models import ModelEntry
from parley.errors import ParleyError
entry = ModelEntry.model_validate({"source": {"repo": "owner/tiny", "revision": "a" * 40}})
server.engine_provenance = lambda *arguments: {"engine": "tiny"}
VLLM = "import time; print('vLLM is on', flush=True); time.sleep(99)"
server.server_command = lambda *arguments: [sys.executable, "-c", VLLM]
def prepare():
    print("preparing", flush=True)
    exec(sys.argv[1])
    return Path("model"), Path("marker")
try:
    supervisor.serve("tiny", entry, prepare, Path("endpoint.json"), len(sys.argv) > 2)
except ParleyError as error:
    sys.exit(f"parley: {error}")
"""


def started(prepare: str = "", supervisor: str = SUPERVISOR) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", supervisor, prepare]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


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
    end(server, 0)
    assert not ENDPOINT.exists()
    assert not Path(early.socket).parent.exists()


def test_a_server_whose_endpoint_file_is_anothers_ends_and_leaves_it() -> None:
    server = started("time.sleep(99)")
    line(server, "preparing")
    other = json.loads(ENDPOINT.read_text()) | {"socket": "/elsewhere"}
    ENDPOINT.with_suffix(".new").write_text(json.dumps(other))
    ENDPOINT.with_suffix(".new").rename(ENDPOINT)
    assert "is gone or belongs to another server now" in end(server, 1)
    assert json.loads(ENDPOINT.read_text()) == other


def test_a_preparation_that_fails_says_why_in_the_endpoint_file() -> None:
    end(started("raise OSError('no room for this')"), 1)
    found = read_endpoint(ENDPOINT)
    assert (found.state, found.error) == (FAILED, "no room for this")


def test_what_the_machine_lacks_is_one_line_before_the_model_is_prepared() -> None:
    lacks = "supervisor.needs.missing_of_engine = lambda: ['no libnuma', 'no lscpu']"
    said = end(started(supervisor=SUPERVISOR.replace("VLLM =", f"{lacks}\nVLLM =")), 1)
    assert said == "parley: no libnuma\n"
    assert (read_endpoint(ENDPOINT).state, read_endpoint(ENDPOINT).error) == (FAILED, "no libnuma")


def test_it_ends_with_its_parent() -> None:
    command = [sys.executable, "-c", SUPERVISOR, "", "with parent"]
    starting = f"import subprocess; subprocess.run({command!r})"
    parent = subprocess.Popen([sys.executable, "-c", starting], stdout=subprocess.PIPE, text=True)
    line(parent, "vLLM is on")
    pid = read_endpoint(ENDPOINT).pid
    parent.kill()
    parent.communicate(timeout=30)  # the server has the other end of its output
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
    assert not ENDPOINT.exists()


def test_an_entry_that_no_file_has_is_served_from_a_file_of_its_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[ModelEntry] = []

    def start(command: list[str], **how: Any) -> None:
        served.append(load_models(Path(command[command.index("--models") + 1]))["new"])
        raise EngineError("enough")

    monkeypatch.setattr(subprocess, "Popen", start)
    (folder / "new.gguf").write_bytes(b"GGUF")
    named = named_model("gguf:new.gguf")
    assert named is not None
    with pytest.raises(EngineError, match="enough"), temporary_engine("new", Path("models.yaml"), named[1]):
        pass
    assert served == [named[1]]
