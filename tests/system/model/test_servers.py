"""Servers that others wrote, as `make servers` installs them; each plays by an entry of docs/how-to/services.md."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
import yaml

from parley.engine.models import model_entry
from parley.engine.server import _environment, is_cpu_build
from parley.engine.sources import local_parts
from parley.engine.weights import fetch, model_folder
from parley.errors import EngineError
from parley.play.record import read_summary
from parley.play.simulate import simulate
from parley.study import load_study
from support import REPOSITORY
from support.answering import free_port

pytestmark = [
    pytest.mark.promise("vLLM, litellm's proxy, transformers and llama.cpp play, or one line says what they lack."),
    pytest.mark.model,
    pytest.mark.rare,
    pytest.mark.skipif("PARLEY_TEST_SERVERS" not in os.environ, reason="set PARLEY_TEST_SERVERS after `make servers`"),
]
MODEL, SERVED, KEY, VARIABLE = "smollm2-135m", "smollm2", "sk-local-3b8d1f06", "SERVICE_API_KEY"
FEW = {phase: {"temperature": 0.5, "max_tokens": most} for phase, most in (("propose", 80), ("vote", 40))}
STUDIES: dict[str, tuple[int, dict[str, Any], str]] = {  # games, parameters, prompt
    "consensus": (2, {"max_rounds": 1, **FEW}, "none_exist"),
    "stag_hunt": (1, {"rounds": 1}, "plain"),
    "deliberation": (1, {"turns": 1}, "improve"),
}
LLAMA = """
import sys, time, xllamacpp
model, name, port = sys.argv[1:]
asked = xllamacpp.CommonParams()
asked.model.path, asked.model_alias, asked.hostnames, asked.port = model, {name}, ["127.0.0.1"], int(port)
asked.n_ctx, asked.n_parallel, asked.cpuparams.n_threads, asked.cpuparams_batch.n_threads = 16384, 2, 1, 1
server = xllamacpp.Server(asked)
time.sleep(3600)
"""


@contextmanager
def running(command: list[str], port: int, environment: dict[str, str], folder: Path = Path()) -> Iterator[str]:
    """Run a server until it answers, and as long as the context lasts; yields its URL."""
    url = f"http://127.0.0.1:{port}/v1"
    with Path("server.log").open("ab") as log:
        server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment, cwd=folder)
    try:
        end, answers = time.monotonic() + 400, False
        while not answers and server.poll() is None and time.monotonic() < end:
            time.sleep(0.5)
            with suppress(OSError):  # one that wants no key ignores it
                asked = Request(f"{url}/models", headers={"Authorization": f"Bearer {KEY}"})
                answers = urlopen(asked, timeout=5).status == 200
        assert answers, Path("server.log").read_text()[-2000:]
        yield url
    finally:
        server.terminate()
        server.wait(timeout=60)


def play(url: str, dialect: Any = None, key: bool = False, served: str = SERVED, games: Any = tuple(STUDIES)) -> None:
    """Play two consensus games, a stag hunt and a deliberation; raises EngineError if the service refuses.

    At least half of the replies must be usable, where the service holds them to a schema.
    """
    source = {"url": url, "served": served} | ({"key_variable": VARIABLE} if key else {})
    entry = {"source": source, "limits": {"concurrent": 2}} | ({"dialect": dialect} if dialect else {})
    Path("models.yaml").write_text(yaml.safe_dump({"models": {"theirs": entry}}))
    for game in games:
        seeds, parameters, prompt = STUDIES[game]
        name = f"{game}-{dialect if isinstance(dialect, str) else 'plain'}-{key}"
        content = {"game": game, "seeds": seeds, "parameters": {"retries": 0, **parameters}}
        content["grids"] = [{"model": "theirs", "n": 2, "prompt": prompt}]
        Path(f"{name}.yaml").write_text(yaml.safe_dump(content))
        study = load_study(Path(f"{name}.yaml"))
        for simulation in study.simulations():
            record = simulation.record(name)
            simulate(study, record, [], 60.0)
            told = read_summary(record).telemetry
            assert (told["calls"] > 3, told["prompt_tokens"] > 200) == (True, True), told
            assert served != SERVED or told["failed_replies"] <= told["calls"] / 2, told


@pytest.fixture
def weights(folder: Path) -> Path:
    """The folder of the small model's weights, as vLLM and transformers read them."""
    entry = model_entry(MODEL, Path("models.yaml"))
    fetch(MODEL, entry, Path("models.yaml"))
    return model_folder(MODEL, entry, Path("models.yaml")).absolute()


def test_vllm_and_litellm_before_it_play_by_chat_and_responses(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, KEY)
    port, of_proxy = free_port(), free_port()
    command = [sys.executable, "-m", "vllm.entrypoints.launchers.api_server.entry", "--model", str(weights)]
    command += ["--served-model-name", SERVED, "--host", "127.0.0.1", "--port", str(port), "--dtype", "float32"]
    command += ["--max-model-len", "8192", "--generation-config", "vllm", "--enable-prompt-tokens-details"]
    command += ["--structured-outputs-config", json.dumps({"backend": "xgrammar"})]
    if is_cpu_build():
        command += ["--enforce-eager", "--no-enable-chunked-prefill", "--max-num-batched-tokens", "16384"]
    behind = {"model": f"hosted_vllm/{SERVED}", "api_base": f"http://127.0.0.1:{port}/v1", "api_key": "none"}
    Path("litellm.yaml").write_text(yaml.safe_dump({"model_list": [{"model_name": SERVED, "litellm_params": behind}]}))
    proxy = [f"{REPOSITORY}/.venv-litellm/bin/litellm", "--config", "litellm.yaml", "--host", "127.0.0.1"]
    environment = _environment()
    with (
        running(command, port, environment) as vllm,
        running([*proxy, "--port", str(of_proxy)], of_proxy, environment | {"LITELLM_MASTER_KEY": KEY}) as litellm,
    ):
        for url, key in ((vllm, False), (litellm, True)):
            play(url, {"schema_lengths": False}, key=key)
            play(url, "openai-responses", key=key)
            with pytest.raises(EngineError, match=r"requires --tool-call-parser.*change the dialect"):
                play(url, "anthropic-messages", key=key)


def test_llama_cpp_plays_by_its_preset(folder: Path) -> None:
    [gguf] = local_parts(model_entry(MODEL, Path("models.yaml")).source, Path("models.yaml"))
    port = free_port()
    command = [f"{REPOSITORY}/.venv-xllamacpp/bin/python", "-c", LLAMA, str(gguf), SERVED, str(port)]
    with running(command, port, _environment()) as url:
        play(url, "llama.cpp")


def test_transformers_answers_by_the_name_of_its_folder_and_holds_nothing_to_a_schema(weights: Path) -> None:
    port = free_port()
    command = [f"{Path(sys.executable).parent}/transformers", "serve", weights.name, "--host", "127.0.0.1"]
    environment = _environment() | {"HF_HUB_CACHE": str(weights.parent)}  # without one its list of models fails
    with running([*command, "--port", str(port), "--device", "cpu"], port, environment, weights.parent) as url:
        dialect = {"structured": "none", "lists_models": False}
        play(url, dialect, served=weights.name, games=["consensus"])
