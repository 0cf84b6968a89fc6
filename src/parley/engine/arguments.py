"""Arguments of the vLLM server that a model entry may name, and where: what may change a reply is identity."""

from collections.abc import Mapping
from typing import Any

from parley.text.suggest import meant

_SECRETS = {"key", "token", "secret", "password", "credentials"}
# Of the arguments that change replies, `engine_args`, these are refused.
_REFUSED = {
    "Parley's own": "model uds host port served-model-name dtype max-model-len trust-remote-code",
    "a file with any of the others": "config",
    "listens for, or on, other machines": (
        "data-parallel-address data-parallel-rpc-port data-parallel-supervisor-port ec-transfer-config grpc grpc-port "
        "kv-events-config kv-transfer-config master-addr master-port nnodes weight-transfer-config"
    ),
    "runs code, or reads pickled weights": (
        "distributed-executor-backend io-processor-plugin load-format log-config-file logging-config "
        "logits-processors middleware model-class-overrides reasoning-parser-plugin scheduler-cls tool-parser-plugin "
        "worker-cls worker-extension-cls"
    ),
}
_OWN = " ".join(_REFUSED.values()).split()
# What concerns the machine alone: how much memory, on which devices, in which order, with which log. It may change
# which requests share a batch, and with that the last bits, which no identity holds
# (docs/explanation/reproducibility.md).
# A list of what is allowed: vLLM has 200 arguments, and each version brings more.
_ALLOWED = {
    "memory": (
        "cpu-offload-gb enable-prefix-caching gpu-memory-utilization kv-cache-memory-bytes kv-offloading-backend "
        "kv-offloading-size num-gpu-blocks-override prefix-caching-hash-algo"
    ),
    "parallelism": (
        "cpu-distributed-timeout-seconds data-parallel-size data-parallel-size-local disable-custom-all-reduce "
        "distributed-timeout-seconds enable-expert-parallel max-parallel-loading-workers numa-bind numa-bind-cpus "
        "numa-bind-nodes pipeline-parallel-size tensor-parallel-size"
    ),
    "scheduling": (
        "api-server-count async-scheduling enable-chunked-prefill long-prefill-token-threshold max-num-batched-tokens "
        "max-num-seqs renderer-num-workers"
    ),
    "loading": "download-dir safetensors-load-strategy use-tqdm-on-load",
    "logging": (
        "aggregate-engine-logging disable-log-stats disable-uvicorn-access-log enable-log-requests "
        "enable-server-load-tracking kv-cache-metrics log-error-stack log-level max-log-len "
        "show-hidden-metrics-for-version uvicorn-log-level"
    ),
}
MACHINE_ARGUMENTS = frozenset(" ".join(_ALLOWED.values()).split())


def argument_name(key: str) -> str:
    """Return the argument that a key names, as vLLM's parser reads it: '_' is '-', '.' sets a part of it.

    A beginning stands for the whole name.
    """
    return key.split(".")[0].replace("_", "-").lower()


def check_arguments(arguments: Mapping[str, Any]) -> None:
    """Raise ValueError if one is Parley's own, reaches beyond its socket, runs code, or looks like a secret."""
    for key, value in arguments.items():
        name = argument_name(key)
        if any(own.startswith(name) for own in _OWN):
            raise ValueError(
                f"argument {key!r} is Parley's own, or would reach beyond its private socket or run code; remove it"
            )
        secret = name not in MACHINE_ARGUMENTS and not _SECRETS.isdisjoint(name.split("-"))
        if secret and not isinstance(value, bool):
            raise ValueError(f"argument {key!r} looks like a secret, and records are shared; remove it")


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
