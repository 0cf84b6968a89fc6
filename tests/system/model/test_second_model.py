"""The second small model through the real vLLM, where `make second-model` has put it: it has a license of its own."""

from pathlib import Path

import httpx
import pyarrow.dataset as ds
import pytest
import yaml

from parley.engine.endpoint import read_endpoint
from parley.engine.models import load_models
from parley.engine.weights import check_source
from parley.errors import UsageError
from parley.play.replay import replay
from parley.play.simulate import simulate
from support import REPOSITORY
from support.workflows import serve, write_real

MODEL = "gemma3-270m"
MODELS_FILE = REPOSITORY / "config" / "models.yaml"


def absent() -> str:
    try:
        check_source(MODEL, load_models(MODELS_FILE)[MODEL], MODELS_FILE)
    except UsageError as error:
        return str(error)
    return ""


pytestmark = [
    pytest.mark.model,
    pytest.mark.rare,
    pytest.mark.skipif(bool(absent()), reason=f"{MODEL} is not installed (Gemma Terms of Use): make second-model"),
]


def test_the_second_model_answers_in_english_and_plays(folder: Path) -> None:
    entry = yaml.safe_load(MODELS_FILE.read_text())["models"][MODEL]
    # float32, whose likeliest words are those of transformers; bfloat16 takes others where two are nearly as likely.
    Path("models.yaml").write_text(yaml.safe_dump({"models": {MODEL: {**entry, "deterministic": True}}}))
    study = write_real(folder, {"model": MODEL, "n": 3, "prompt": "none_exist"})
    record = next(study.simulations()).record("real")
    engine = serve(MODEL)
    try:
        simulate(study, record, [Path("endpoint.json")], 300.0)
        transport = httpx.HTTPTransport(uds=read_endpoint(Path("endpoint.json")).socket)
        prompt = "<bos>Q: What is the capital of Italy?\nA: Rome\nQ: What is the capital of France?\nA:"
        body = {"model": MODEL, "prompt": prompt, "max_tokens": 11, "temperature": 0, "add_special_tokens": False}
        with httpx.Client(transport=transport, base_url="http://engine", timeout=60) as client:
            said = client.post("/v1/completions", json=body).json()["choices"][0]["text"]
    finally:
        engine.terminate()
        engine.wait(timeout=60)

    # What transformers says to it; wrong weights or a wrong tokenizer give repetitions of one word.
    assert said == " Paris\nQ: What is the capital of Germany?"
    rows = ds.dataset(record).to_table().to_pylist()
    assert {row["agent"] for row in rows} == {"agent_1", "agent_2", "agent_3"}
    assert all(row["text"].startswith("{") for row in rows)
    assert {row["failure"] for row in rows} <= {None, "length"}
    assert replay(record).difference is None
