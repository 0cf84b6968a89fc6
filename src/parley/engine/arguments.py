"""Arguments of the vLLM server that a model entry may name, and where: what may change a reply is identity.

What vLLM 0.32 takes stands here as text, since its parser takes 15 s to import; a test holds it against that parser.
"""

import json
import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from parley.text import meant

# No entry may name these, for these reasons.
_REFUSED = {
    "is Parley's own": (
        "model uds host port served-model-name dtype max-model-len trust-remote-code device-ids "
        "enable-prompt-tokens-details structured-outputs-config config"
    ),
    "follows from gpus, data-parallel-size and pipeline-parallel-size": "tensor-parallel-size",
}
_REASONS = {name: reason for reason, names in _REFUSED.items() for name in names.split()}

_FLAG, _WHOLE, _SIZE = "true or false", "a whole number", "a whole number, such as 4096 or 4k"
_NUMBER, _TEXT = "a number", "text"
_PATTERNS = {
    _WHOLE: re.compile(r"\d+"),
    _SIZE: re.compile(r"\d+(\.\d+)?[kmgt]|\d+[KMGT]?"),
    _NUMBER: re.compile(r"\d+(\.\d+)?"),
    _TEXT: re.compile(r"(?s).+"),
}
# What concerns the machine alone: how much memory, on which devices, in which order, with which log. It may change
# which requests share a batch, and with that the last bits, which no identity holds
# (docs/explanation/reproducibility.md).
# A list of what is allowed, with the form of a value, or those there are: vLLM has 200 arguments, and each version
# brings more.
MACHINE_ARGUMENTS: Mapping[str, str | tuple[str, ...]] = MappingProxyType(
    {
        # memory
        "cpu-offload-gb": _NUMBER,
        "enable-prefix-caching": _FLAG,
        "gpu-memory-utilization": _NUMBER,
        "kv-cache-memory-bytes": _SIZE,
        "kv-offloading-backend": ("native", "lmcache"),
        "kv-offloading-size": _NUMBER,
        "num-gpu-blocks-override": _WHOLE,
        "prefix-caching-hash-algo": ("sha256", "sha256_cbor", "xxhash", "xxhash_cbor"),
        # parallelism
        "cpu-distributed-timeout-seconds": _WHOLE,
        "data-parallel-size": _WHOLE,
        "disable-custom-all-reduce": _FLAG,
        "distributed-timeout-seconds": _WHOLE,
        "enable-expert-parallel": _FLAG,
        "max-parallel-loading-workers": _WHOLE,
        "numa-bind": _FLAG,
        "pipeline-parallel-size": _WHOLE,
        # scheduling
        "async-scheduling": _FLAG,
        "enable-chunked-prefill": _FLAG,
        "long-prefill-token-threshold": _WHOLE,
        "max-num-batched-tokens": _SIZE,
        "max-num-seqs": _WHOLE,
        "renderer-num-workers": _WHOLE,
        # loading
        "download-dir": _TEXT,
        "safetensors-load-strategy": ("lazy", "eager", "prefetch", "torchao"),
        "use-tqdm-on-load": _FLAG,
        # logging
        "aggregate-engine-logging": _FLAG,
        "disable-log-stats": _FLAG,
        "disable-uvicorn-access-log": _FLAG,
        "enable-log-requests": _FLAG,
        "enable-server-load-tracking": _FLAG,
        "kv-cache-metrics": _FLAG,
        "log-error-stack": _FLAG,
        "log-level": ("INFO", "DEBUG"),  # `parley status` reads what vLLM says at INFO
        "max-log-len": _WHOLE,
        "show-hidden-metrics-for-version": _TEXT,
        "uvicorn-log-level": ("critical", "error", "warning", "info", "debug", "trace"),
    }
)
# Switches of which vLLM knows no form with "no-"; false is what they are by themselves.
ONLY_ON = frozenset(("aggregate-engine-logging", "disable-log-stats"))
# A server's GPUs are shared by this many replicas, and by this many parts of each; on a CPU there is one.
SHARES = ("data-parallel-size", "pipeline-parallel-size")


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
    return [f"--{name}"] if on else [] if name in ONLY_ON else [f"--no-{name}"]


def tensor_parallel(gpus: int, arguments: Mapping[str, Any]) -> int:
    """Return how many of a server's GPUs share one copy of each layer.

    Raises ValueError if its replicas and their parts leave GPUs over, or need more.
    """
    shares = {name: int(value) for key, value in arguments.items() if (name := argument_name(key)) in SHARES}
    several = math.prod(shares.values())
    if several < 1 or gpus % several:
        named = " and ".join(f"{name}: {share}" for name, share in shares.items())
        raise ValueError(f"gpus: {gpus} is all that a server uses, and {named} cannot share that; make it a multiple")
    return max(1, gpus // several)


def check_arguments(arguments: Mapping[str, Any]) -> None:
    """Raise ValueError if an argument is Parley's own, or has a value of another form than vLLM takes."""
    for key, value in arguments.items():
        name = argument_name(key).removeprefix("no-")
        form = None if "." in key else MACHINE_ARGUMENTS.get(name)
        # vLLM completes beginnings.
        if reason := next((why for own, why in _REASONS.items() if own.startswith(name)), None):
            raise ValueError(f"argument {key!r} {reason}; remove it")
        negated = name != argument_name(key)
        if form is not None and ((negated and form != _FLAG) or not _fits(form, value)):
            needed = form if isinstance(form, str) else f"one of {', '.join(form)}"
            raise ValueError(f"argument {key!r} must be {needed}, not {value!r}")


def _fits(form: str | tuple[str, ...], value: Any) -> bool:
    if form == _FLAG or isinstance(value, bool):
        return form == _FLAG and isinstance(value, bool)
    return value in form if isinstance(form, tuple) else _PATTERNS[form].fullmatch(str(value)) is not None


def check_concern_the_machine(arguments: Mapping[str, Any]) -> None:
    """Raise ValueError if one is not known to concern the machine alone: then it may change replies."""
    for key in arguments:
        # Whole names only: a beginning may come to mean another argument with the next version of vLLM.
        if "." in key or argument_name(key).removeprefix("no-") not in MACHINE_ARGUMENTS:
            close = meant(argument_name(key), MACHINE_ARGUMENTS, 0.9)  # others of vLLM are nearly called so
            raise ValueError(
                f"argument {key!r} may change replies; {f'did you mean {close!r}? else ' if close else ''}move it to "
                "engine_args, which are part of results' identity"
            )
