"""Requests of many games in batches, by OpenAI's API for them: half the price, and replies within a day.

The games of a process play in lock step: when each of them waits for a reply, all that they ask goes as one batch. A
request is the one that would be sent alone, byte for byte. Its custom id names the simulation, round, phase, agent and
attempt: so the batches of an earlier process are found, by their files, and by the service's list where that process
died before it knew a batch's id. What a batch did not answer goes into the next one.

Source: developers.openai.com/api/docs/guides/batch and api/reference/resources/batches.
"""

import asyncio
import json
import re
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from parley.engine.service.budget import Budget
from parley.engine.service.fetch import MAX_BODY_BYTES, NOT_AS_ASKED, Client, RequestError, Response, error_of
from parley.engine.service.retrying import Retries, Send, passing_error
from parley.engine.service.service import APIS, PROBE_SECONDS, Service
from parley.errors import EngineError, JournalError
from parley.files import checked_line, open_regular, parse_line, write_atomically
from parley.identity import digest
from parley.policies import Ask, Tokens
from parley.text import duration, every, limited_logger, one_line

_MOST_BYTES, _MOST_OUTPUT = 100_000_000, 2_000_000_000  # of a file that is sent (OpenAI takes 200 MB), and read
_ENDED = ("completed", "expired", "cancelled", "failed")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,199}")  # it becomes part of a path
_STILL_SECONDS = 1.0  # for so long nothing more is asked before a batch goes
_POLL_SECONDS = (1.0, 60.0)  # the first pause and the longest
_APPEARS_SECONDS = 60.0  # after which a batch is in the service's list, if it was begun
_TRIES = 3  # batches that a request goes into
_log = limited_logger(__name__)


# What this machine knows of batches: a file for each, there before its service is asked to begin it. So whoever goes
# on after a death finds the batch, and asks nothing twice


@dataclass
class BatchFile:
    """A batch: what it is called, where it is, and what it asks."""

    name: str  # in its metadata at the service
    model: str
    service: str  # a hash that tells who answers
    number: int  # of requests
    requests: list[str] = field(repr=False)  # by custom id
    input: str = ""  # the service's id of the file with the requests
    sent: float = 0.0  # when the service was asked to begin it, seconds since the epoch
    id: str = ""  # the service's own; "" while nobody here knows it
    status: str = ""  # by the service's last word
    answered: int = 0  # requests, by the same
    is_over: bool = False  # whether its replies were there: then `requests` are those that have one

    def write(self, folder: Path) -> None:
        """Write it, whole; raises RecordError if it cannot."""
        content = checked_line(asdict(self))
        write_atomically(self.path(folder), lambda file: file.write(content))

    def path(self, folder: Path) -> Path:
        """Return where it is written."""
        return folder / f"{self.name}.jsonl"

    def line(self) -> str:
        """Return it in words: `batch_1 of gpt-4o: 40 of 96 requests answered, sent 3 h ago (in_progress)`."""
        status, age = self.status or "not begun", duration(max(time.time() - self.sent, 0.0))
        who = f"{self.id or 'a batch'} of {self.model}"
        return one_line(f"{who}: {self.answered:,} of {self.number:,} requests answered, sent {age} ago ({status})")


def read_batches(folder: Path) -> list[BatchFile]:
    """Return the batches of a folder, the oldest first; raises JournalError for a file that is damaged."""
    found = []
    for path in folder.glob("*.jsonl"):
        try:
            with open_regular(path) as file:
                found.append(BatchFile(**(parse_line(file.read()) or {})))
        except FileNotFoundError:  # it is over, and was removed
            continue
        except (OSError, TypeError):
            raise JournalError(
                f"{path}: cannot be read; look at the batches of the service, and move it away to ask again"
            ) from None
    return sorted(found, key=lambda batch: batch.sent)


def waiting_batches(folder: Path) -> list[BatchFile]:
    """Return the batches whose replies are not there yet; raises JournalError for a file that is damaged."""
    return [batch for batch in read_batches(folder) if not batch.is_over]


# What is asked in batches


class _Channel:
    """A service that is asked in batches, for all games of a process."""

    def __init__(self, service: Service, http: Client) -> None:
        self.service, self.http, self.retries = service, http, Retries(service)
        self.api = APIS[service.dialect.api]
        self.endpoint = f"/v1{self.api.path}"  # as OpenAI names it, wherever the service lies
        self.hash = digest(["batches", service.url, service.served])[:16]
        self._shared: dict[str, asyncio.Future[Any]] = {}

    async def once(self, what: str, ask: Callable[[], Awaitable[Any]]) -> Any:
        """Return what the first game that asked got, or raise its error: thousands ask at once."""
        if what not in self._shared:
            self._shared[what] = asyncio.ensure_future(ask())
        return await asyncio.shield(self._shared[what])

    async def call(self, method: str, path: str, if_gone: str = "") -> Any:
        """Return what the service says in JSON; raises EngineError for all but that, with what to do for a 404."""
        return await self.json_of(lambda: self.http.fetch(method, self.service.api + path, PROBE_SECONDS), if_gone)

    async def json_of(self, post: Send, if_gone: str = "") -> Any:
        """Return the JSON that comes by `post`, which may be called again; raises EngineError."""
        response = await self.retries.send(post, 0, None)
        if (error := error_of(response)) is not None:
            if error.status == 404 and if_gone:
                raise EngineError(f"{self.service.who}: {self.service.redacted(error.message)}; {if_gone}")
            raise self.service.refused(error)
        with self.as_asked(response.text):
            return response.json()

    @contextmanager
    def as_asked(self, said: object) -> Iterator[None]:
        """Raise EngineError, with what the service said, where it is not of the form that is looked for."""
        try:
            yield
        except NOT_AS_ASKED:
            reply = self.service.redacted(str(said), 200)
            raise EngineError(f"{self.service.who} sent something that is not of the batch API: {reply}") from None

    def id_of(self, found: Any, key: str = "id") -> str:
        """Return an id that the service gave; raises EngineError for what could be another path."""
        with self.as_asked(found):
            return _ID.fullmatch(found[key])[0]  # type: ignore[index]

    async def content(self, file: str) -> bytes:
        """Return the content of a file, none of one that is gone; raises EngineError."""
        found = b""

        async def get() -> Response:
            nonlocal found
            url = f"{self.service.api}/files/{file}/content"
            response = await self.http.fetch("GET", url, self.service.seconds, most=_MOST_OUTPUT)
            if response.status_code != 200:
                return response
            found = response.content  # no answer of the service's: its lines may be errors
            return Response(200, {}, b"{}")

        response = await self.retries.send(get, 0, None)
        if response.status_code != 404 and (error := error_of(response)) is not None:
            raise self.service.refused(error)
        return found


# One batch


@dataclass(eq=False)
class _Batch:
    """A batch that is sent, waited for and read, for all who asked something in it."""

    file: BatchFile
    channel: _Channel
    folder: Path  # of its file
    lines: bytes = b""  # that are to be sent; none of a batch that an earlier process sent
    answers: "asyncio.Task[dict[str, Response]] | None" = None  # once somebody waits for it
    problem: EngineError | None = None  # of requests without an answer, if they are not to be asked again

    async def read(self) -> dict[str, Response]:
        """Return the answers by custom id, when it is over; raises EngineError."""
        file, channel = self.file, self.channel
        answers: dict[str, Response] = {}
        if not file.id:
            found = await (self._begin() if self.lines else self._find(file.sent))
            if found is not None:
                file.id = channel.id_of(found)
                await self._write()
        if file.id:
            state = await self._wait()
            for key in ("error_file_id", "output_file_id"):
                if state.get(key):
                    found = _answers_in(await channel.content(channel.id_of(state, key)))
                    answers |= {id: channel.api.as_chat(answer) for id, answer in found.items()}
        # What it did not answer may be asked again, also by another process.
        got = {id for id, answer in answers.items() if passing_error(channel.service, answer) is None}
        file.requests = [id for id in file.requests if id in got]
        file.is_over = True
        if file.requests:
            await self._write()
        else:
            file.path(self.folder).unlink(missing_ok=True)
        _log.info("%s: %d of %d requests answered", file.id or "a batch", len(file.requests), file.number)
        return answers

    async def _write(self) -> None:
        await asyncio.to_thread(self.file.write, self.folder)

    async def _begin(self) -> Any:
        """Upload requests and begin their batch, whose file is there before; None, and a problem, if it is refused."""
        file, channel, may_have_begun = self.file, self.channel, False
        service, seconds = channel.service, channel.service.seconds

        async def upload() -> Response:
            form = aiohttp.FormData({"purpose": "batch"})
            form.add_field("file", self.lines, filename=f"parley-{file.name}.jsonl", content_type="application/jsonl")
            return await channel.http.fetch("POST", f"{service.api}/files", seconds, form)

        async def create() -> Response:
            nonlocal may_have_begun
            if may_have_begun and (found := await self._find(time.time())) is not None:
                return Response(200, {}, json.dumps(found).encode())
            try:
                response = await channel.http.fetch("POST", f"{service.api}/batches", seconds, content)
                may_have_begun = not 400 <= response.status_code < 500 or response.status_code == 408
            except RequestError as error:
                may_have_begun = error.sent
                raise
            return response

        try:
            file.input = channel.id_of(await channel.json_of(upload))
            body = {
                "input_file_id": file.input,
                "endpoint": channel.endpoint,
                "completion_window": f"{service.limits.batch_hours}h",
                "metadata": {"parley": file.name},
            }
            content = json.dumps(body).encode()
            file.sent = time.time()
            await self._write()
            self.lines = b""
            return await channel.json_of(create)
        except EngineError as error:
            if may_have_begun:  # whoever goes on looks for it
                raise
            self.problem = error

    async def _find(self, since: float) -> Any:
        """Return it from the service's list if it was begun before `since`; None if it was not."""
        channel = self.channel
        while True:
            after, has_more = "", True
            while has_more:
                page = await channel.call("GET", f"/batches?limit=100{after}")
                with channel.as_asked(page):
                    for found in page["data"]:
                        if self.file.input == found["input_file_id"]:
                            return found
                    has_more = bool(page.get("has_more") and page["data"])
                    after = f"&after={channel.id_of(page['data'][-1])}" if has_more else ""
            if time.time() - since >= _APPEARS_SECONDS:
                return None
            await asyncio.sleep(_POLL_SECONDS[0])

    async def _wait(self) -> Any:
        """Return what the service says when it has ended; a problem if it refused it; raises EngineError."""
        file, channel, service = self.file, self.channel, self.channel.service
        pause, longest = _POLL_SECONDS
        gone = f"to ask again what {file.id} asked, move {file.path(self.folder)} away"
        while True:
            state = await channel.call("GET", f"/batches/{file.id}", gone)
            with channel.as_asked(state):
                status, counts = str(state["status"]).lower(), state.get("request_counts") or {}
                now = status, int(counts.get("completed") or 0)
                errors = [str(each["message"]) for each in (state.get("errors") or {}).get("data") or []]
            if now != (file.status, file.answered):
                file.status, file.answered = now
                await self._write()
            if status in _ENDED:
                break
            _log.info("%s", file.line(), extra=every(longest, self))
            await asyncio.sleep(pause)
            pause = min(1.5 * pause, longest)
        if status == "failed":
            self.problem = EngineError(
                f"{service.who} refused {file.id} of {file.number:,} requests: {service.redacted('; '.join(errors))}; "
                "limits.concurrent in its entry is how many a batch has at most"
            )
        elif status == "cancelled":
            self.problem = EngineError(
                f"{service.who}: somebody canceled {file.id}; run again to send what it did not answer"
            )
        return state


# All batches of a process


@dataclass(eq=False)
class _Request:
    """A request that goes with a batch."""

    id: str
    channel: _Channel
    content: bytes
    most: Tokens
    budget: Budget | None

    @property
    def line(self) -> bytes:
        head = f'{{"custom_id":{json.dumps(self.id)},"method":"POST","url":"{self.channel.endpoint}","body":'
        return head.encode() + self.content + b"}\n"


class Batches:
    """The batches of the games that one process plays; an async context manager."""

    def __init__(self, folder: Path, unfinished: Callable[[], Iterable[str]]) -> None:
        """Each batch has a file in `folder`, as long as one of its simulations is among the `unfinished` ones, by id.

        Raises JournalError if the file of an earlier process cannot be read.
        """
        self._folder, self._earlier, self._unfinished = folder, read_batches(folder), unfinished
        self._channels: dict[str, _Channel] = {}
        self._waiting: dict[str, int] = {}  # requests that each game waits for
        self._queue: dict[asyncio.Future[_Batch], _Request] = {}  # by the batch that each waits for
        self._asked = 0  # requests so far
        self._known: dict[str, _Batch] = {}  # by custom id
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "Batches":
        self._start(self._send_when_all_wait())
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()
        needed = {id[:16] for id in self._unfinished()}
        for file in read_batches(self._folder):
            if file.is_over and needed.isdisjoint(id.partition("-")[0] for id in file.requests):
                file.path(self._folder).unlink(missing_ok=True)

    @contextmanager
    def playing(self, simulation: str) -> Iterator[None]:
        """Have the batches wait for a game, by its simulation's id, as long as it is played."""
        self._waiting[simulation] = 0
        try:
            yield
        finally:
            del self._waiting[simulation]

    async def of(self, service: Service, simulation: str) -> "Batched":
        """Return what asks a service for one game, which is played."""
        if service.model not in self._channels:
            channel = self._channels[service.model] = _Channel(service, service.http())
            await self._stack.enter_async_context(channel.http)
            for file in self._earlier:
                if file.service == channel.hash:
                    self._known |= dict.fromkeys(file.requests, _Batch(file, channel, self._folder))
        return Batched(self, self._channels[service.model], simulation)

    async def answer(self, simulation: str, request: _Request) -> tuple[Response, str]:
        """Return the answer to a request of a game, and the id of its batch.

        Raises EngineError if batches have none, BudgetError if it cannot be paid.
        """
        service, failure = request.channel.service, None
        self._waiting[simulation] += 1
        try:
            for _ in range(_TRIES):
                batch = self._known.get(request.id) or await self._sent(request)
                if batch.answers is None:  # of an earlier process
                    batch.answers = self._start(batch.read())
                answer = (await asyncio.shield(batch.answers)).pop(request.id, None)
                _pay(request, batch, answer)
                failure = passing_error(service, answer) if answer is not None else None
                if answer is not None and failure is None:
                    return answer, batch.file.id
                del self._known[request.id]  # it may be asked again, also by another process
                if batch.problem is not None:
                    raise batch.problem
            error = service.refused(failure) if failure else f"{service.who} did not answer a request"
            raise EngineError(f"{error}; given up after {_TRIES} batches; run again to go on from the journal")
        finally:
            self._waiting[simulation] -= 1

    async def _sent(self, request: _Request) -> _Batch:
        """Return the batch that a request goes with, once it is made."""
        batch: asyncio.Future[_Batch] = asyncio.get_running_loop().create_future()
        self._queue[batch] = request
        self._asked += 1
        try:
            return await batch
        finally:
            del self._queue[batch]

    def _start(self, work: Any) -> "asyncio.Task[Any]":
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # the games raise it
        return task

    async def _send_when_all_wait(self) -> None:
        while True:
            before = self._asked
            await asyncio.sleep(_STILL_SECONDS)
            if self._queue and self._asked == before and all(self._waiting.values()):
                try:
                    self._send()
                except Exception as error:  # noqa: BLE001 (the games raise it, which would wait for ever)
                    for waiting, _ in self._unsent:
                        waiting.set_exception(error)

    @property
    def _unsent(self) -> list[tuple[asyncio.Future[_Batch], _Request]]:
        return [(batch, request) for batch, request in self._queue.items() if not batch.done()]  # nor failed games'

    def _send(self) -> None:
        """Send what waits, in as few batches as it takes; raises BudgetError if there is room for none of it.

        What has no room beside the requests in flight waits until these are answered.
        """
        for channel in self._channels.values():
            left = [each for each in self._unsent if each[1].channel is channel]
            while left:
                requests = [request for _, request in left]
                number = _number_that_fits(requests)
                name, model, budget = uuid.uuid4().hex, channel.service.model, requests[0].budget
                if budget is not None:
                    aside = [(f"{name}/{each.id}", model, each.most) for each in requests[:number]]
                    number = budget.set_aside(aside, in_batch=True)
                if not number:
                    break
                requests = requests[:number]
                file = BatchFile(name, model, channel.hash, number, [request.id for request in requests])
                batch = _Batch(file, channel, self._folder, b"".join(request.line for request in requests))
                batch.answers = self._start(batch.read())
                for waiting, request in left[:number]:
                    self._known[request.id] = batch
                    waiting.set_result(batch)
                left = left[number:]
        unsent = [request for _, request in self._unsent]
        if unsent and len(unsent) == sum(self._waiting.values()) and unsent[0].budget is not None:
            # No batch of this process leaves anything; what another has in flight may.
            unsent[0].budget.require(unsent[0].channel.service.model, unsent[0].most)


class Batched:
    """The requests of one game to one service, which go in batches with those of others."""

    def __init__(self, batches: Batches, channel: _Channel, simulation: str) -> None:
        self._batches, self._channel, self._simulation = batches, channel, simulation
        self._ids: dict[str, None] = {}

    async def ready(self, http: Client) -> bool:
        """Return True if the service lists the model; raises NotReadyError if it does not."""
        channel = self._channel
        return bool(await channel.once("ready", lambda: channel.retries.ready(channel.http)))

    async def provenance(self, http: Client) -> Mapping[str, Any]:
        """Return what the service tells of itself."""
        channel = self._channel
        return dict(await channel.once("provenance", lambda: channel.retries.provenance(channel.http)))

    async def ask(self, ask: Ask, attempt: int, content: bytes, most: Tokens, budget: Budget | None) -> Response:
        """Return the answer to a request, `content`, which uses at most so much; raises EngineError or BudgetError."""
        parts = (self._simulation[:16], ask.round, ask.phase, ask.agent, attempt, ask.digest[:8])
        request = _Request("-".join(map(str, parts)), self._channel, content, most, budget)
        answer, batch = await self._batches.answer(self._simulation, request)
        self._ids[batch] = None
        return answer

    def effort(self) -> dict[str, Any]:
        """Return the batches that replies came from, for a record's provenance."""
        return {"batches": list(self._ids)}


def _pay(request: _Request, batch: _Batch, answer: Response | None) -> None:
    """Count what a request used, which was set aside when its batch was sent."""
    if request.budget is not None:
        used = Tokens() if answer is None else answer.used
        request.budget.settle(f"{batch.file.name}/{request.id}", used)


def _number_that_fits(requests: list[_Request]) -> int:
    """Return how many of the requests, from the first on, one batch takes: one at least."""
    most, size = min(requests[0].channel.service.limits.in_batch, len(requests)), 0
    for number, request in enumerate(requests[:most]):
        size += len(request.content)
        if number and size > _MOST_BYTES:
            return number
    return most


def _answers_in(content: bytes) -> dict[str, Response]:
    """Return the answers in an output or error file by custom id; what is no such line is left out."""
    found = {}
    for line in content.split(b"\n"):
        try:
            said = json.loads(line)
            answer = said.get("response") or {"status_code": 502, "body": {"error": said["error"]}}
            body = json.dumps(answer["body"]).encode()
            found[str(said["custom_id"])] = Response(
                int(answer["status_code"]), {}, body[:MAX_BODY_BYTES], len(body) > MAX_BODY_BYTES
            )
        except NOT_AS_ASKED:
            continue
    return found
