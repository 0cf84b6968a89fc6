"""The real model as somebody else's service: a vLLM server with an API key on a port of 127.0.0.1."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import pytest
import yaml

from parley import paths
from parley.engine.models import model_entry
from parley.engine.server import _environment, is_cpu_build
from parley.engine.weights import fetch, model_folder
from parley.play.record import read_summary
from parley.play.replay import replay
from parley.play.spending import count_spent
from support.answering import free_port
from support.workflows import real_snakemake, write_real

pytestmark = [
    pytest.mark.promise("A real vLLM as a service with a key plays, and the key is nowhere."),
    pytest.mark.model,
    pytest.mark.rare,
]
KEY, VARIABLE, SERVED = "sk-3b8d1f06a97c", "SERVICE_API_KEY", "smollm2"


@pytest.fixture
def url(folder: Path) -> Iterator[str]:
    """Start a server as docs/how-to/services.md says, and yield its URL; requests before it is ready fail."""
    entry = model_entry("smollm2-135m", Path("models.yaml"))
    fetch("smollm2-135m", entry, Path("models.yaml"))
    port, weights = free_port(), model_folder("smollm2-135m", entry, Path("models.yaml"))
    command = [sys.executable, "-m", "vllm.entrypoints.launchers.api_server.entry", "--model", str(weights)]
    command += ["--served-model-name", SERVED, "--host", "127.0.0.1", "--port", str(port), "--dtype", "bfloat16"]
    command += ["--max-model-len", "8192", "--generation-config", "vllm", "--enable-prompt-tokens-details"]
    command += ["--structured-outputs-config", json.dumps({"backend": "xgrammar"})]
    if is_cpu_build():
        command += ["--enforce-eager", "--no-enable-chunked-prefill", "--max-num-batched-tokens", "16384"]
    environment = _environment() | {"VLLM_API_KEY": KEY}  # not on the command line, which everybody can read
    with Path("service.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
    try:
        end, answers = time.monotonic() + 200, False
        while not answers and server.poll() is None and time.monotonic() < end:
            time.sleep(0.2)
            with suppress(OSError):
                answers = urlopen(f"http://127.0.0.1:{port}/health", timeout=5).status == 200
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        server.wait(timeout=60)


def test_a_study_asks_a_service_with_a_key_through_the_workflow(
    folder: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    source = {"url": url, "served": SERVED, "key_variable": VARIABLE}
    entry = {"source": source, "limits": {"concurrent": 3}, "price": {"prompt": 1.0, "completion": 2.0, "cached": 0.5}}
    Path("models.yaml").write_text(yaml.safe_dump({"models": {"theirs": entry}}))
    parameters = {"max_rounds": 1, "retries": 0, "propose": {"temperature": 0.5, "max_tokens": 60}}
    grid = {"model": "theirs", "n": 2, "prompt": "none_exist"}
    study = write_real(folder, grid, parameters=parameters, seeds=2, budget={"tokens": 100_000, "cost": 1})

    monkeypatch.setenv(VARIABLE, KEY[::-1])
    refused = real_snakemake("--config", "study=real.yaml")
    assert refused.returncode != 0
    said = {path.read_text() for path in paths.LOGS.rglob("*.log") if "simulate" in path.parts}
    assert said == {f"parley: the service for theirs answered 401: Unauthorized; check the key in {VARIABLE}\n"}

    monkeypatch.setenv(VARIABLE, KEY)
    result = real_snakemake("--config", "study=real.yaml")
    assert result.returncode == 0, result.stderr
    used = []
    for record in (simulation.record("real") for simulation in study.simulations()):
        summary = read_summary(record)
        used.append(summary.telemetry)
        assert (summary.telemetry["calls"], summary.telemetry["prompt_tokens"] > 4 * 200) == (4, True)
        assert re.fullmatch(r"\d+\.\d+.*", summary.provenance["engines"]["theirs"]["versions"]["vllm"])
        assert replay(record).difference is None
    account = count_spent(study)
    assert account.total == sum(told["prompt_tokens"] + told["completion_tokens"] for told in used)

    files = [path for root in (paths.RESULTS, paths.LOGS, Path(".snakemake")) for path in root.rglob("*")]
    contents = {str(path): path.read_bytes() for path in files if path.is_file()}
    contents["what Snakemake said"] = "".join([result.stdout, result.stderr, refused.stdout, refused.stderr]).encode()
    for name, content in contents.items():
        assert not [secret for secret in (KEY, KEY[::-1]) if secret.encode() in content], name
