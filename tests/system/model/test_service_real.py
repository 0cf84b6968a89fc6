"""The real model as somebody else's service: a vLLM server with an API key on a port of 127.0.0.1."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from parley import paths
from parley.engine.models import model_entry
from parley.engine.server import _environment, is_cpu_build
from parley.engine.weights import fetch, model_folder
from parley.errors import BudgetError
from parley.play.record import read_summary
from parley.play.replay import replay
from parley.play.simulate import simulate
from parley.play.spending import count_spent
from support.answering import free_port
from support.workflows import real_snakemake, write_real

pytestmark = [
    pytest.mark.promise("A real vLLM as a service with a key plays, and the key is nowhere."),
    pytest.mark.model,
    pytest.mark.rare,
]
KEY, VARIABLE, SERVED = "sk-3b8d1f06a97c", "SERVICE_API_KEY", "smollm2"


def listening(port: int) -> set[str]:
    """Return the addresses on which a port is listened to, as /proc/net has them."""
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    return {
        local.split(":")[0] for _, local, _, state, *_ in lines if local.endswith(f":{port:04X}") and state == "0A"
    }


@pytest.fixture
def port(folder: Path) -> Iterator[int]:
    """Start a server as docs/how-to/services.md says, and yield its port; requests before it is ready fail."""
    entry = model_entry("smollm2-135m", Path("models.yaml"))
    fetch("smollm2-135m", entry, Path("models.yaml"))
    found = free_port()
    command = [sys.executable, "-m", "vllm.entrypoints.launchers.api_server.entry"]
    command += [
        "--model",
        str(model_folder("smollm2-135m", entry, Path("models.yaml"))),
        "--served-model-name",
        SERVED,
    ]
    command += ["--host", "127.0.0.1", "--port", str(found), "--dtype", "bfloat16", "--max-model-len", "8192"]
    command += ["--generation-config", "vllm", "--enable-prompt-tokens-details"]
    command += ["--structured-outputs-config", json.dumps({"backend": "xgrammar"})]
    if is_cpu_build():
        command += ["--enforce-eager", "--no-enable-chunked-prefill", "--max-num-batched-tokens", "16384"]
    environment = _environment() | {"VLLM_API_KEY": KEY}  # not on the command line, which everybody can read
    with Path("service.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
    try:
        end = time.monotonic() + 200
        while not listening(found) and server.poll() is None and time.monotonic() < end:
            time.sleep(0.2)
        yield found
    finally:
        server.terminate()
        server.wait(timeout=60)


def test_a_study_asks_a_service_with_a_key_through_the_workflow(
    folder: Path,
    port: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    source = {"url": f"http://127.0.0.1:{port}/v1", "served": SERVED, "key_variable": VARIABLE}
    entry = {"source": source, "limits": {"concurrent": 3}, "price": {"prompt": 1.0, "completion": 2.0, "cached": 0.5}}
    Path("models.yaml").write_text(yaml.safe_dump({"models": {"theirs": entry}}))
    parameters = {"max_rounds": 1, "retries": 0, "propose": {"temperature": 0.5, "max_tokens": 60}}
    grid = {"model": "theirs", "n": 2, "prompt": "none_exist"}
    little = write_real(folder, grid, parameters=parameters, seeds=2, budget={"tokens": 100})
    study = write_real(folder, grid, parameters=parameters, seeds=2, budget={"tokens": 100_000, "cost": 1})
    records = [simulation.record("real") for simulation in study.simulations()]

    monkeypatch.setenv(VARIABLE, KEY[::-1])
    refused = real_snakemake("--config", "study=real.yaml")
    assert refused.returncode != 0
    said = {path.read_text() for path in paths.LOGS.rglob("*.log") if "simulate" in path.parts}
    assert said == {f"parley: the service for theirs answered 401: Unauthorized; check the key in {VARIABLE}\n"}

    monkeypatch.setenv(VARIABLE, KEY)
    with pytest.raises(BudgetError, match="0 of 100 tokens spent, and the next request may use"):
        simulate(little, records[0], [], 60.0)
    result = real_snakemake("--config", "study=real.yaml")
    assert result.returncode == 0, result.stderr
    assert "serve " not in result.stdout + result.stderr
    for record in records:
        summary = read_summary(record)
        assert summary.telemetry["calls"] == 4
        assert summary.telemetry["prompt_tokens"] > 4 * 200
        assert summary.telemetry["completion_tokens"] > 0
        assert set(summary.provenance["engines"]["theirs"]) == {"engine", "served", "versions"}
        assert re.fullmatch(r"\d+\.\d+.*", summary.provenance["engines"]["theirs"]["versions"]["vllm"])
        assert replay(record).difference is None

    used = [read_summary(record).telemetry for record in records]
    account = count_spent(study)
    assert account.total == sum(told["prompt_tokens"] + told["completion_tokens"] for told in used)
    assert sum(tokens.cached for tokens in account.values()) == sum(told["cached_tokens"] for told in used)

    assert listening(port) == {"0100007F"}  # 127.0.0.1 alone
    files = [path for root in (paths.RESULTS, paths.LOGS, Path(".snakemake")) for path in root.rglob("*")]
    contents = {str(path): path.read_bytes() for path in files if path.is_file()}
    contents["what Snakemake said"] = "".join([result.stdout, result.stderr, refused.stdout, refused.stderr]).encode()
    for name, content in contents.items():
        for secret in (KEY, KEY[::-1]):
            assert secret.encode() not in content, name
    for name, content in contents.items():
        if name.startswith(str(paths.RESULTS)):
            assert f"127.0.0.1:{port}".encode() not in content, name
