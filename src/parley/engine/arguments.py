"""Arguments of the vLLM server that a model entry may name, and where: what may change a reply is identity.

What vLLM 0.32 takes stands here as text, since its parser takes 15 s to import; a test holds it against that parser.
"""

import json
from collections.abc import Mapping
from typing import Any

# No entry may name these.
_OWN = (
    *("model", "uds", "host", "port", "served-model-name", "dtype", "max-model-len", "trust-remote-code"),
    *("device-ids", "enable-prompt-tokens-details", "structured-outputs-config", "config", "tensor-parallel-size"),
    "pipeline-parallel-size",
)

COPIES = "data-parallel-size"  # of the model, which share a server's GPUs; on a CPU there is one
# What concerns the machine alone: memory, parallelism, scheduling, loading, logging. It may change which requests
# share a batch, and with that the last bits, which no identity holds (docs/explanation/reproducibility.md).
# A list of what is allowed: vLLM has 200 arguments, and each version brings more.
MACHINE_ARGUMENTS = (
    *("cpu-offload-gb", "enable-prefix-caching", "gpu-memory-utilization", "kv-cache-memory-bytes"),
    *("num-gpu-blocks-override", COPIES, "disable-custom-all-reduce"),
    *("enable-expert-parallel", "async-scheduling", "enable-chunked-prefill", "max-num-batched-tokens"),
    *("max-num-seqs", "download-dir", "safetensors-load-strategy", "disable-log-stats", "enable-log-requests"),
    *("log-level", "show-hidden-metrics-for-version", "uvicorn-log-level"),
)
# The switch of which vLLM knows no form with "no-"; false is what it is by itself.
ONLY_ON = "disable-log-stats"


def argument_name(key: str) -> str:
    """Return the argument that a key names, as vLLM's parser reads it: '_' is '-', '.' sets a part of it."""
    return key.split(".")[0].replace("_", "-").lower()


def written(key: str, value: Any) -> list[str]:
    """Return the words of a command line that give an argument its value."""
    name, _, part = key.partition(".")
    name = name.replace("_", "-").lower()
    if part:
        # The words after a part are JSON; a switch would take the next argument for its value.
        return [f"--{name}.{part}", json.dumps(value) if isinstance(value, bool) else str(value)]
    if not isinstance(value, bool):
        return [f"--{name}", str(value)]
    on = value is not name.startswith("no-")
    name = name.removeprefix("no-")
    return [f"--{name}"] if on else [] if name == ONLY_ON else [f"--no-{name}"]


def tensor_parallel(gpus: int, arguments: Mapping[str, Any]) -> int:
    """Return how many of a server's GPUs share one copy of each layer.

    Raises ValueError if the number of copies is no whole number, leaves GPUs over, or needs more.
    """
    copies = next((str(value) for key, value in arguments.items() if argument_name(key) == COPIES), "1")
    if not copies.isdecimal() or int(copies) < 1 or gpus % int(copies):
        raise ValueError(
            f"gpus: {gpus} is all that a server uses, and {COPIES}: {copies} cannot share that; make it a multiple"
        )
    return max(1, gpus // int(copies))


def check_arguments(arguments: Mapping[str, Any]) -> None:
    """Raise ValueError if an argument is Parley's own."""
    for key in arguments:
        name = argument_name(key).removeprefix("no-")
        if any(own.startswith(name) for own in _OWN):  # vLLM completes beginnings
            raise ValueError(f"argument {key!r} is Parley's own (tensor-parallel-size follows from gpus); remove it")


def check_concern_the_machine(arguments: Mapping[str, Any]) -> None:
    """Raise ValueError if one is not known to concern the machine alone: then it may change replies."""
    for key in arguments:
        # Whole names only: a beginning may come to mean another argument with the next version of vLLM.
        if "." in key or argument_name(key).removeprefix("no-") not in MACHINE_ARGUMENTS:
            raise ValueError(
                f"argument {key!r} may change replies; move it to engine_args, which are part of results' identity"
            )
