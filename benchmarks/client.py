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

from benchmarks.measure import PARLEY, REPOSITORY, Row, cheapest, consensus_study, temporary_folder
from parley.engine.endpoint import Endpoint

MODEL, SERVICE = "instant", "instant-service"
ENDPOINT = Path("endpoint.json")
ROUNDS = 50
GAMES, FEW = 40, 8  # of a shard: the difference is what replies cost, without a start
# The disk is a given: of no time, or as Lustre and NFS.
DISK = """
import os, shutil, time
shutil.rmtree("results", ignore_errors=True)
os.fsync = lambda fd: time.sleep({seconds})
from parley.cli import main
main()
"""
SLOW_SECONDS = 0.02


def rows() -> Iterator[Row]:
    """Yield the measurements."""
    os.environ["PYTHONDONTWRITEBYTECODE"] = ""  # else each process compiles what was installed without bytecode
    with temporary_folder(), _answering() as url:
        own = {"source": {"folder": "model"}, "max_model_len": 8192}
        entries = {MODEL: own, SERVICE: {"source": {"url": url, "served": MODEL}}}
        Path("models.yaml").write_text(yaml.safe_dump({"models": entries}), encoding="utf-8")
        Path("model").mkdir()
        Path("model/config.json").write_text("{}")  # what a study looks for: nobody loads it
        yield from _own_processes()
        for agents in (4, 8, 16):
            yield from _shard(agents)


def _study(name: str, model: str, agents: int, seeds: int, rounds: int) -> list[Path]:
    """Write a study whose games last `rounds` rounds; return its records."""
    parameters, grid = {"max_rounds": rounds, "stop_threshold": 1}, {"model": model, "n": agents}
    study = consensus_study(Path(f"{name}.yaml"), grid, seeds, parameters, shard_size=GAMES)
    return [simulation.record(name) for simulation in study.simulations()]


def _own_processes() -> Iterator[Row]:
    """A process for each game, as beside a server of ours."""
    starts = []
    for agents in (4, 8, 16):
        costs = []
        for rounds in (2, ROUNDS):
            name = f"own{agents}-{rounds}"
            records = _study(name, MODEL, agents, 3, rounds)
            games = ((*PARLEY, "simulate", f"{name}.yaml", str(record), str(ENDPOINT)) for record in records)
            costs.append(cheapest(*games))
        each = (costs[1].cpu - costs[0].cpu) / (2 * agents * (ROUNDS - 2))
        starts.append(costs[0].cpu - 2 * agents * 2 * each)
        yield Row(f"`parley simulate`, {agents} agents: CPU a reply", f"{1000 * each:.2f} ms", "1 ms")
    yield Row("its start, and its record: CPU", f"{min(starts):.2f} s", "0.7 s")


def _shard(agents: int) -> Iterator[Row]:
    """Many games in one process, as with a service."""
    _study("shard", SERVICE, agents, GAMES, 10)
    _study("few", SERVICE, agents, FEW, 10)
    replies = 2 * agents * 10 * (GAMES - FEW)
    disks = {seconds: _more_games(seconds) for seconds in (0.0, SLOW_SECONDS)}
    cpu, seconds = disks[0.0]
    rate = f"{1000 * cpu / replies:.2f} ms, {replies / seconds:,.0f} replies/s"
    yield Row(f"a shard process, {agents} agents: CPU a reply, rate", rate, "1 ms, 1,000 replies/s")
    slow = disks[SLOW_SECONDS][1]
    text = f"{replies / slow:,.0f} replies/s: {seconds / slow:.2f} of it"
    yield Row(f"the same where an fsync takes {1000 * SLOW_SECONDS:.0f} ms", text, "0.9")


def _more_games(sync_seconds: float) -> tuple[float, float]:
    """Return what `GAMES` cost more than `FEW`: seconds of a CPU, and seconds."""
    python = (sys.executable, "-c", DISK.format(seconds=sync_seconds))
    few, shard = (
        cheapest(*[(*python, "simulate-shard", f"{study}.yaml", "--services", SERVICE, "0")] * 2)
        for study in ("few", "shard")
    )
    return shard.cpu - few.cpu, shard.seconds - few.seconds


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
