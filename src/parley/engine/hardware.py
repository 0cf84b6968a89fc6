"""What an engine runs on, whether its inference can be deterministic there, and which GPUs a server takes.

Facts come from `nvidia-smi`, /proc/cpuinfo and the files of the installed torch, as text: nothing is imported and no
GPU is touched. Nothing here names a host or a person.
"""

import importlib.metadata
import logging
import os
import platform
import random
import re
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path

from parley.errors import EngineError

BATCH_INVARIANT = "VLLM_BATCH_INVARIANT"
VISIBLE = "CUDA_VISIBLE_DEVICES"
_GPU_NAME = re.compile(r"\d+|(?:GPU|MIG)-[\w-]+")
UNKNOWN = "unknown"
_LEAST_CAPABILITY = (8, 0)  # of vLLM's batch-invariant kernels
# vLLM calls the mode a beta. Where its own reports say that it fails; what is known of others is that nobody said so.
_BETA = "vLLM's batch-invariant kernels are a beta, which is no proof; `parley verify` asks again"
_HOPPER = (
    "on GPUs of compute capability 9 (H100, H200) vLLM's FlashAttention 3 gave other replies under load in spite of "
    "batch-invariant kernels (vLLM issue 47069); `parley verify` asks again"
)
# The main instructions by which the CPU build chooses its kernels, and so how it rounds: x86's, then ARM's.
_INSTRUCTIONS = (
    *("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16"),
    *("asimd", "sve", "i8mm", "bf16"),
)
_TOKENS_OF_A_LARGE_STEP = 256  # from here on the launchers of its norm kernels sum in another order
_NOT_PROVEN = (
    "float32 on a CPU: a few dozen requests gave the same replies alone and in batches, which is evidence and no "
    "proof; `parley verify` asks again"
)


@dataclass(frozen=True)
class Gpu:
    """One GPU as nvidia-smi names it, with its compute capability."""

    name: str
    driver: str
    capability: tuple[int, int]


@dataclass(frozen=True)
class Determinism:
    """Whether deterministic inference was asked for, by what it is had, and what readers should be warned of."""

    asked: bool
    by: str | None = None
    warning: str | None = None

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables that the server needs for it."""
        return {BATCH_INVARIANT: "1"} if self.by == f"{BATCH_INVARIANT}=1" else {}


def determinism(asked: bool, cpu_build: bool, gpus: Sequence[Gpu]) -> Determinism:
    """Return how replies are made independent of the batch on this hardware; `gpus` are all that the engine sees."""
    if not asked:
        return Determinism(asked=False)
    if cpu_build:
        return Determinism(True, "float32", _NOT_PROVEN)
    unfit = [gpu for gpu in gpus if gpu.capability < _LEAST_CAPABILITY]
    if gpus and not unfit:
        hopper = any(gpu.capability[0] == 9 for gpu in gpus)
        return Determinism(True, f"{BATCH_INVARIANT}=1", _HOPPER if hopper else _BETA)
    why = "no GPU was found by nvidia-smi"
    if unfit:
        has, least = dotted(unfit[0].capability), dotted(_LEAST_CAPABILITY)
        why = f"{unfit[0].name} has compute capability {has}, and {least} is needed"
    return Determinism(True, None, f"not deterministic, although asked for: {why}; replies may depend on the batch")


def dotted(capability: tuple[int, int]) -> str:
    """Return a compute capability as "9.0"."""
    return ".".join(map(str, capability))


def load_warning(by: object, requests: object) -> str | None:
    """Return what readers should be warned of where so many requests may have been answered at once; None for nothing.

    `by` and `requests` are of a record's provenance, so they may be anything.
    """
    if by != f"{BATCH_INVARIANT}=1" or not isinstance(requests, int) or requests < 2:
        return None
    return (
        f"up to {requests} requests at once: a step of vLLM that reads and writes {_TOKENS_OF_A_LARGE_STEP} tokens or "
        "more may round otherwise than a smaller one (vLLM issue 48271)"
    )


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Return the GPUs in nvidia-smi's lines of name, driver and compute capability.

    What it does not tell stands there in brackets, such as `[Insufficient Permissions]`, and is `UNKNOWN`.
    """
    lines = re.findall(r"^(.+), (.+), (\d+)\.(\d+)$", re.sub(r"\[.*?\]", UNKNOWN, text), re.MULTILINE)
    return tuple(Gpu(name, driver, (int(major), int(minor))) for name, driver, major, minor in lines)


@cache
def gpus() -> tuple[Gpu, ...]:
    """Return the GPUs that an engine would see; empty where nvidia-smi is missing or fails."""
    return parse_gpus(nvidia_smi("name,driver_version,compute_cap"))


def nvidia_smi(query: str) -> str:
    """Return nvidia-smi's lines for each GPU that an engine would see; "" where there is none, or it fails."""
    named = _named_gpus()
    if named == []:
        return ""
    # It takes the same numbers and UUIDs, but does not look at the variable by itself, and knows no parts of GPUs.
    chosen = [f"--id={','.join(dict.fromkeys(map(_whole_gpu, named)))}"] if named else []
    return output_of("nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader", *chosen)


def _named_gpus() -> list[str] | None:
    """Return the GPUs that `CUDA_VISIBLE_DEVICES` names, by CUDA's rules; None if it is not set.

    Spaces do not count, no GPU is there twice, and what is no GPU (-1, NoDevFiles) ends the list.
    """
    if (listed := os.environ.get(VISIBLE)) is None:
        return None
    return list(dict.fromkeys(takewhile(_GPU_NAME.fullmatch, map(str.strip, listed.split(",")))))


def _whole_gpu(name: str) -> str:
    """Return the UUID of the GPU of which `name` is a part (MIG); any other name as it is."""
    if not name.startswith("MIG-"):
        return name
    before, is_listed, _ = output_of("nvidia-smi", "-L").partition(f"(UUID: {name})")
    known: list[str] = re.findall(r"GPU-[\w-]+", before) if is_listed else []
    return known[-1] if known else name


def output_of(*command: str) -> str:
    """Return what a program prints; "" if it fails, or is not there."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def parse_cpu_model(text: str) -> str:
    """Return the CPU's name from the text of /proc/cpuinfo; "unknown CPU" where it has none (as on ARM)."""
    name = re.search(r"^model name\s*:\s*(.*\S)", text, re.MULTILINE)
    return " ".join(name[1].split()) if name else "unknown CPU"


def instructions(text: str) -> list[str]:
    """Return which instructions a CPU has of those that matter to an engine, by the text of /proc/cpuinfo."""
    named = re.search(r"^(?:flags|Features)\s*:\s*(.*)", text, re.MULTILINE)
    flags = named[1].split() if named else []
    return [name for name in _INSTRUCTIONS if name in flags and not (name == "avx2" and "avx512f" in flags)]


def cpuinfo() -> str:
    """Return the text of /proc/cpuinfo."""
    return Path("/proc/cpuinfo").read_text(errors="replace")


@cache
def cpu() -> str:
    """Return the CPU's name, architecture, number of cores and instructions that matter, in one line.

    Two CPUs of one name may have other instructions, and then round otherwise.
    """
    text = cpuinfo()
    named = [parse_cpu_model(text), platform.machine(), f"{os.cpu_count()} cores", " ".join(instructions(text))]
    return ", ".join(filter(None, named))


def device(cpu_build: bool) -> str:
    """Return what an engine of this build computes on: the CPU, or each GPU with its driver."""
    if cpu_build:
        return f"CPU, {cpu()}"
    return "; ".join(f"{gpu.name}, {gpu.driver}" for gpu in gpus() if gpu.name != UNKNOWN) or UNKNOWN


def cuda_version() -> str | None:
    """Return the CUDA version that the installed torch was built for; None for a CPU build, or without torch."""
    try:
        file = importlib.metadata.distribution("torch").locate_file("torch/version.py")
        text = Path(str(file)).read_text(encoding="utf-8")
    except (importlib.metadata.PackageNotFoundError, OSError):
        return None
    version = re.search(r"^cuda\b[^=\n]*=\s*['\"]([\d.]+)['\"]", text, re.MULTILINE)
    return version[1] if version else None


# A server takes free GPUs of those that its machine or cluster job has, so that servers run side by side. What it took
# is told by the names of sockets that it holds, which end with its process: a file would stay on every node.

_log = logging.getLogger(__name__)

_WAIT_SECONDS = 60.0  # a server that was told to end may take a while
_taken = ExitStack()  # as long as this process


def visible_gpus() -> list[str]:
    """Return the GPUs that this process sees: as `CUDA_VISIBLE_DEVICES` names them, else their numbers.

    Empty where nvidia-smi tells of none.
    """
    if (named := _named_gpus()) is not None:
        return named
    return [line.strip() for line in nvidia_smi("index").splitlines() if line.strip().isdigit()]


def take_gpus(count: int, seconds: float = _WAIT_SECONDS) -> None:
    """Let this process and what it starts see `count` GPUs alone, which no other server of this user has.

    They are its own until it ends. If too few get free in so many seconds, it shares some, and a line says so: who
    gave servers a part of the memory each may want that. Where no GPU is known of, nothing is changed. Raises
    EngineError if there are not as many.
    """
    names = visible_gpus()
    if not names:
        return
    if len(names) < count:
        raise EngineError(f"the server needs {count} GPUs, and its job or machine has {len(names)}; ask for more")
    end = time.monotonic() + seconds
    while len(taken := _free(names, count)) < count:
        if time.monotonic() > end:
            taken = random.sample(names, count)
            _log.warning(
                "other servers have too many of the GPUs %s; this one shares %s", *map(",".join, (names, taken))
            )
            break
        time.sleep(random.uniform(0.2, 0.6))  # others may want the same, and have the rest
    os.environ[VISIBLE] = ",".join(taken)


def _free(names: list[str], count: int) -> list[str]:
    """Take the first `count` GPUs that are free, and return them; if there are not as many, take none."""
    taken = []
    with ExitStack() as held:
        for name in names:
            lock = held.enter_context(socket.socket(socket.AF_UNIX))
            try:
                # A name in Linux's abstract namespace; GPUs of two cluster jobs on a node may have the same numbers.
                lock.bind(f"\0parley-gpu-{os.getuid()}-{os.environ.get('SLURM_JOB_ID', '')}-{name}"[:100])
            except OSError:
                continue
            taken.append(name)
            if len(taken) == count:
                _taken.push(held.pop_all())
                break
    return taken
