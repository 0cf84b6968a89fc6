"""What 8 bits cost and bring: quality, time, and whether replies depend on what shares the batch. Run by hand.

    python -m benchmarks.quantization qwen2.5-coder-0.5b --folder kept

The first way that runs plays first rounds of the consensus game. Its prompts and replies are the material of all: each
way scores these replies, and answers the same seeded requests 24 and 8 at once, and 8 of them alone. Each way is kept
in the folder, so that ways may be run one at a time (`--way int8`); the table has those that are there. bfloat16 and
float32 need a preparation of the model without quantization, which their server makes if it is not there.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import yaml

from benchmarks.measure import PARLEY, temporary_folder
from benchmarks.serving import direct, played, serving
from parley.engine.endpoint import read_endpoint
from parley.engine.grammar import constraint
from parley.engine.models import load_models
from parley.engine.weights import model_folder
from parley.study import load_study

REQUESTS = 24
ALONE = 8
WAYS: dict[str, dict[str, str | None]] = {
    "bfloat16": {"dtype": "bfloat16", "quantization": None},
    "float32": {"dtype": "float32", "quantization": None},
    "int8": {"dtype": "bfloat16", "quantization": "int8"},
    "int8, the rest float32": {"dtype": "float32", "quantization": "int8"},
}
ENDPOINT = Path("engine.json")


def measured(model: str, way: str, material: Path) -> dict[str, Any]:
    """Return scores of the material's replies, replies of each batch, and seconds, of one way."""
    with temporary_folder():
        content = yaml.safe_load(Path("models.yaml").read_text(encoding="utf-8"))
        content["models"][model] |= WAYS[way]
        Path("models.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
        command = (*PARLEY, "serve", model, "--models", "models.yaml", "--endpoint", str(ENDPOINT))
        with serving((*command, "--exit-with-parent"), ENDPOINT):
            if not material.exists():
                material.write_text(json.dumps(_first_round(model)), encoding="utf-8")
            requests = json.loads(material.read_text(encoding="utf-8"))
            bodies = [{key: value for key, value in request.items() if key != "reply"} for request in requests]
            replies: dict[str, list[str]] = {}
            for size in (REQUESTS, 8, 1):
                begun, cpu = time.perf_counter(), _cpu_seconds()
                # A salt for each size: nothing of its prompts is in the cache, whoever asked them before.
                salted = [body | {"cache_salt": f"{way}, {size}"} for body in bodies]
                asked = salted[: ALONE if size == 1 else REQUESTS]
                replies[str(size)] = [t for at in range(0, len(asked), size) for t in _answers(asked[at : at + size])]
                if size == REQUESTS:
                    seconds, cpu_seconds = time.perf_counter() - begun, _cpu_seconds() - cpu
            folder = model_folder(model, load_models(Path("models.yaml"))[model], Path("models.yaml"))
            scores = _scores(requests, folder)
    return {"seconds": seconds, "cpu_seconds": cpu_seconds, "replies": replies, "scores": scores}


def _first_round(model: str) -> list[dict[str, Any]]:
    grid = {"model": model, "n": 4, "prompt": "may_exist"}
    study = {"game": "consensus", "seeds": REQUESTS // 4, "parameters": {"max_rounds": 1}, "grids": [grid]}
    Path("bench.yaml").write_text(yaml.safe_dump(study), encoding="utf-8")
    exchanges = asyncio.run(played(list(load_study(Path("bench.yaml")).simulations()), ENDPOINT))
    first = [x for x in exchanges if x.ask.phase == exchanges[0].ask.phase and not x.entry.attempt][:REQUESTS]
    assert len(first) == REQUESTS, "too few replies"
    return [
        {
            "model": model,
            "messages": x.ask.messages,
            "temperature": x.ask.sampling.temperature,
            "max_tokens": x.ask.sampling.max_tokens,
            "seed": x.entry.seed,
            **constraint(x.ask, of_service=False),
            "reply": x.entry.text,
        }
        for x in first
    ]


def _answers(bodies: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the replies to chat requests that are sent at once."""

    async def ask() -> list[str]:
        transport = httpx.AsyncHTTPTransport(uds=read_endpoint(ENDPOINT).socket)
        async with httpx.AsyncClient(transport=transport, base_url="http://engine", timeout=600.0) as client:
            answers = await asyncio.gather(*(client.post("/v1/chat/completions", json=body) for body in bodies))
        return [answer.raise_for_status().json()["choices"][0]["message"]["content"] for answer in answers]

    return asyncio.run(ask())


def _scores(requests: Sequence[Mapping[str, Any]], folder: Path) -> list[list[list[float]]]:
    """Return, for each token of each reply, its log-probability and the id of the most likely token there."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    found = []
    with direct(ENDPOINT) as client:
        for request in requests:
            prompt = tokenizer.apply_chat_template(
                request["messages"], tokenize=True, add_generation_prompt=True, return_dict=False
            )
            ids = [*prompt, *tokenizer.encode(request["reply"], add_special_tokens=False)]
            body = {"model": request["model"], "prompt": ids, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 1}
            answer = client.post("/v1/completions", json=body, timeout=600.0).raise_for_status().json()
            places = answer["choices"][0]["prompt_logprobs"][len(prompt) :]
            found.append(
                [
                    [place[str(token)]["logprob"], int(next(t for t, p in place.items() if p["rank"] == 1))]
                    for token, place in zip(ids[len(prompt) :], places, strict=True)
                ]
            )
    return found


def _cpu_seconds() -> float:
    """Processor time of the engine and of this process."""
    me = psutil.Process()
    times = [process.cpu_times() for process in (me, *me.children(recursive=True))]
    return float(sum(t.user + t.system for t in times))


def lines(ways: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a Markdown table of the ways, scores compared with the first of them."""
    base = next(iter(ways))
    table = [
        f"| way | log-probability per token, less that of {base} | same most likely token: first, all | "
        f"{REQUESTS} requests at once: seconds, CPU seconds | same text alone as among 8, among {REQUESTS} |",
        "|---|---|---|---|---|",
    ]
    for way, one in ways.items():
        pairs = [
            (mine, theirs)
            for mine, theirs in zip(one["scores"], ways[base]["scores"], strict=True)
            if len(mine) == len(theirs)
        ]
        less = np.concatenate([np.array(a)[:, 0] - np.array(b)[:, 0] for a, b in pairs])
        same = np.concatenate([np.array(a)[:, 1] == np.array(b)[:, 1] for a, b in pairs])
        first = np.mean([a[0][1] == b[0][1] for a, b in pairs])
        alone = one["replies"]["1"]
        equal = [sum(a == b for a, b in zip(alone, one["replies"][s], strict=False)) for s in ("8", str(REQUESTS))]
        table.append(
            f"| {way} | {less.mean():+.4f} (mean size {abs(less).mean():.4f}, {len(less)} tokens) | {first:.0%}, "
            f"{same.mean():.1%} | {one['seconds']:.0f}, {one['cpu_seconds']:.0f} | {equal[0]} and {equal[1]} of "
            f"{len(alone)} |"
        )
    return table


def main() -> None:
    """Measure the ways that are not in the folder yet, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", help="entry of config/models.yaml whose source is a GGUF file")
    parser.add_argument("--folder", type=Path, required=True, help="where results are kept")
    parser.add_argument("--way", action="append", choices=list(WAYS), help="may be repeated; by default all")
    given = parser.parse_args()
    given.folder.mkdir(exist_ok=True)
    kept = {way: given.folder.absolute() / f"{way}.json" for way in WAYS}
    for way in given.way or WAYS:
        if not kept[way].exists():
            found = measured(given.model, way, given.folder.absolute() / "material.json")
            kept[way].write_text(json.dumps(found), encoding="utf-8")
    print("\n".join(lines({way: json.loads(path.read_text()) for way, path in kept.items() if path.exists()})))


if __name__ == "__main__":
    main()
