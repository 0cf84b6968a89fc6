"""Replies of a random model that are as long as real ones, in processes that begin together.

`python -m benchmarks.real_lengths REQUESTS COMMAND...` is `parley COMMAND...` with such replies; it waits for the file
`go`, and keeps its requests. `python -m benchmarks.real_lengths alone SOCKET REQUESTS...` sends them all at once, as
little as a client can do.
"""

import asyncio
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from parley.cli import main as parley
from parley.engine.client import Engine
from parley.engine.service.fetch import Client, RequestError, Response
from parley.play import simulate  # noqa: F401  so that it is there before all begin
from parley.policies import Ask, Completion, Tokens

GO = Path("go")
# Tokens of Qwen2.5-Coder-1.5B's replies, white space included: quantiles of the 2,066 of each in findings/consensus.
LENGTHS = {"propose": (74, 81, 87, 91, 96, 100, 105, 111, 121, 141), "vote": (7,)}
_WORDS = ["we", "value", "agree", "group", "round", "last", "should", "keep", "move", "toward", "others", "stop"]


def install() -> None:
    """Cut each reply at a length drawn by its seed, and play on as if it had been a whole reply of that length."""
    asked = Engine.chat

    async def chat(engine: Engine, ask: Ask, seed: int, *how: Any, **more: Any) -> Completion:
        lengths = LENGTHS[ask.phase]
        sampling = ask.sampling.model_copy(update={"max_tokens": lengths[seed % len(lengths)]})
        completion = await asked(engine, replace(ask, sampling=sampling), seed, *how, **more)
        return replace(completion, text=_text(ask.phase, seed, sampling.max_tokens), finish_reason="stop")

    Engine.chat = chat  # type: ignore[assignment]


def _text(phase: str, seed: int, tokens: int) -> str:
    if phase == "vote":
        return json.dumps({"decision": "continue"})
    rng = random.Random(seed)
    strategy, reasoning = (" ".join(rng.choices(_WORDS, k=tokens * part // 10)) for part in (3, 4))
    return json.dumps({"internal_strategy": strategy[:400], "value": seed % 51, "public_reasoning": reasoning[:600]})


def _keep(requests: Path) -> None:
    posted, file = Engine._post, requests.open("wb", buffering=0)

    async def post(engine: Engine, content: bytes, most: Tokens) -> Response:
        file.write(content + b"\n")
        return await posted(engine, content, most)

    Engine._post = post  # type: ignore[assignment]


async def posted(socket: str, bodies: Sequence[bytes], seconds: float = 600.0) -> None:
    """Send chat requests as they are, all at once; raises RequestError if one is refused."""
    async with Client("http://engine", {}, socket) as client:

        async def post(body: bytes) -> None:
            response = await client.fetch("POST", "/v1/chat/completions", 600.0, body)
            if response.status_code != 200:
                raise RequestError(f"{response.status_code}: {response.text[:300]}")

        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.gather(*map(post, bodies))


@contextmanager
def waiting(commands: Sequence[Sequence[str]]) -> Iterator[Callable[[float], Coroutine[Any, Any, None]]]:
    """Start processes of this module; yield what has them begin, and waits until they end or so many seconds pass.

    That raises RuntimeError if one fails; those that have not ended are killed.
    """
    GO.unlink(missing_ok=True)
    running = [
        subprocess.Popen([sys.executable, "-m", "benchmarks.real_lengths", *command], stdout=subprocess.PIPE)
        for command in commands
    ]
    try:
        for process in running:
            assert process.stdout is not None
            process.stdout.readline()

        async def run(seconds: float) -> None:
            GO.touch()
            end = time.monotonic() + seconds
            while any(process.poll() is None for process in running) and time.monotonic() < end:
                await asyncio.sleep(0.02)
            if any(process.returncode for process in running):
                raise RuntimeError("a process that played failed; what it said is above")

        yield run
    finally:
        for process in running:
            process.kill()
            process.communicate()


def main() -> None:
    first, *arguments = sys.argv[1:]
    if first == "alone":
        bodies = [line for file in arguments[1:] for line in Path(file).read_bytes().splitlines()]
    else:
        install()
        _keep(Path(first))
    print("waits", flush=True)
    while not GO.exists():
        time.sleep(0.01)
    if first == "alone":
        asyncio.run(posted(arguments[0], bodies))
    else:
        sys.argv[1:] = arguments
        parley()


if __name__ == "__main__":
    main()
