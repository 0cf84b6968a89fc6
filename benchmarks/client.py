"""What a client costs: CPU of the processes that play, against an engine that answers at once.

`python -m benchmarks.client SOCKET` is that engine, a process of its own, so that its CPU is not counted.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from benchmarks.measure import PARLEY, REPOSITORY, Cost, Row, cheapest, consensus_study, temporary_folder
from parley.engine.endpoint import Endpoint
from parley.study import Study

MODEL, SERVICE = "instant", "instant-service"
ENDPOINT = Path("endpoint.json")
AGENTS = 8
# Rounds of a game, and games of a shard: the difference of two numbers is what replies cost, without a start.
ROUNDS, GAMES = (2, 50), (8, 40)


def rows() -> Iterator[Row]:
    """Yield the measurements: of a process for each game, as beside a server of ours, and of a shard in one process.

    The latter is how games with a service are played.
    """
    os.environ["PYTHONDONTWRITEBYTECODE"] = ""  # else each process compiles what was installed without bytecode
    with temporary_folder(), _answering() as url:
        own = {"source": {"folder": "model"}, "max_model_len": 8192}
        entries = {MODEL: own, SERVICE: {"source": {"url": url, "served": MODEL}}}
        Path("models.yaml").write_text(yaml.safe_dump({"models": entries}), encoding="utf-8")
        Path("model").mkdir()
        Path("model/config.json").write_text("{}")  # what a study looks for: nobody loads it
        short, long = map(_games, ROUNDS)
        each = (long.cpu - short.cpu) / (2 * AGENTS * (ROUNDS[1] - ROUNDS[0]))
        start = short.cpu - 2 * AGENTS * ROUNDS[0] * each
        yield Row(f"`parley simulate`, {AGENTS} agents: CPU a reply", f"{1000 * each:.2f} ms", "1 ms")
        yield Row("its start, and its record: CPU", f"{start:.2f} s", "0.7 s")
        few, many = map(_shard, GAMES)
        replies = 2 * AGENTS * 10 * (GAMES[1] - GAMES[0])
        cpu, seconds = (many.cpu - few.cpu) / replies, (many.seconds - few.seconds) / replies
        rate = f"{1000 * cpu:.2f} ms, {1 / seconds:,.0f} replies/s"
        yield Row(f"a shard process, {AGENTS} agents: CPU a reply, rate", rate, "0.6 ms, 1,500 replies/s")


def _study(name: str, model: str, seeds: int, rounds: int) -> Study:
    parameters = {"max_rounds": rounds, "stop_threshold": 1}
    return consensus_study(Path(f"{name}.yaml"), {"model": model, "n": AGENTS}, seeds, parameters, shard_size=seeds)


def _games(rounds: int) -> Cost:
    """Return what a game of so many rounds costs, played in a process of its own."""
    name = f"own-{rounds}"
    records = [simulation.record(name) for simulation in _study(name, MODEL, 3, rounds).simulations()]
    return cheapest(*((*PARLEY, "simulate", f"{name}.yaml", str(record), str(ENDPOINT)) for record in records))


def _shard(games: int) -> Cost:
    """Return what a shard of so many games of ten rounds costs, by two copies of it."""
    names = [f"shard-{games}-{copy}" for copy in (1, 2)]
    for name in names:
        _study(name, SERVICE, games, 10)
    return cheapest(*((*PARLEY, "simulate-shard", f"{name}.yaml", "--engine", "services", "0") for name in names))


@contextmanager
def _answering() -> Iterator[str]:
    """Run the engine, write its endpoint file, and yield the URL at which it is a service."""
    socket = str(Path("s.sock").absolute())
    command = [sys.executable, "-m", "benchmarks.client", socket]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as engine:
        try:
            assert engine.stdout is not None
            port = engine.stdout.readline().strip()
            Endpoint(model=MODEL, socket=socket, pid=engine.pid).write(ENDPOINT)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            engine.terminate()


# The engine. Its replies are as long as the mean of those in findings/consensus.
_PROPOSAL = {
    "internal_strategy": "We hold on. " * 14,
    "value": 20,
    "public_reasoning": "It is the most frequent. " * 7,
}
_VOTE = {"decision": "continue"}


def _page(content: object) -> bytes:
    body = json.dumps(content).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


def _chat(reply: object, tokens: int) -> bytes:
    message = {"role": "assistant", "content": json.dumps(reply, indent=2)}
    usage = {"prompt_tokens": 726, "completion_tokens": tokens, "total_tokens": 726 + tokens}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return _page({"id": "1", "object": "chat.completion", "model": MODEL, "choices": [choice], "usage": usage})


class _Instant(asyncio.Protocol):
    """Answers each request at once; whoever asked closes the connection."""

    proposal, vote, models = _chat(_PROPOSAL, 101), _chat(_VOTE, 7), _page({"data": [{"id": MODEL}]})

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self._received = transport, b""

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]
        if not end or len(body) < int(length or 0):
            return
        self._received = b""
        asked_to_vote = b"decision" in body.rpartition(b'"seed"')[2]
        page = self.models if head.startswith(b"GET") else self.vote if asked_to_vote else self.proposal
        self._transport.write(page)  # type: ignore[attr-defined]


async def _answer(socket: str) -> None:
    loop = asyncio.get_running_loop()
    local = await loop.create_unix_server(_Instant, socket, backlog=1024)
    server = await loop.create_server(_Instant, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.gather(local.serve_forever(), server.serve_forever())


if __name__ == "__main__":
    import uvloop

    uvloop.run(_answer(sys.argv[1]))
