"""Limits of a service, kept by all processes that work in one folder: requests at once, requests and tokens a minute.

Requests queue in the order in which they come, one of each process at a time, and nobody overtakes: so none starves.
Whoever looks at the queue lets all those start that may. What a request will cost in tokens is estimated when it
starts and corrected when its reply is there. A process that dies leaves the queue and its place in flight.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from parley import paths
from parley.engine.service.shared import SharedState
from parley.engine.service.terms import ServiceLimits
from parley.identity import digest
from parley.text.logs import limited_logger, waiting

WINDOW_SECONDS = 60
_POLL_SECONDS = (0.05, 0.5)  # the first one and the longest
_BURY_SECONDS = 2
_TELL_SECONDS = 30.0
_BYTES_PER_TOKEN = 4  # about what English prompts have; the estimate is corrected by the reply

_log = limited_logger(__name__)


def estimated_tokens(prompt_bytes: int, max_tokens: int) -> int:
    """Return about how many tokens a request will use."""
    return prompt_bytes // _BYTES_PER_TOKEN + max_tokens


class Turn:
    """A request that may be sent; `tokens` is what it is known, or estimated, to use."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens


class Limiter:
    """Lets requests to one service start within its limits; an async context manager."""

    def __init__(
        self,
        service: tuple[str | None, ...],
        limits: ServiceLimits,
        who: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`service` is what tells it from others (never kept but as a hash), `who` what messages call it.

        `clock` returns seconds that all processes agree on.
        """
        self._shared = SharedState(paths.service_use(digest(["service", *service])[:16]))
        self._bounds = [limits.concurrent, limits.requests_per_minute, limits.tokens_per_minute]
        self._who = who
        self._clock = clock
        self._head = asyncio.Lock()  # one request of this process queues at a time, in order
        self._freed = asyncio.Event()
        self._opened = time.monotonic()
        self._stack = AsyncExitStack()
        self.waited = 0.0  # seconds that requests of this process waited, added up

    async def __aenter__(self) -> "Limiter":
        await self._stack.enter_async_context(self._shared)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @asynccontextmanager
    async def turn(self, tokens: int) -> AsyncIterator[Turn]:
        """Wait until a request of about `tokens` may be sent; it is in flight while the context lasts."""
        began = time.monotonic()
        async with self._head:
            started = await self._queue(tokens)
        self.waited += time.monotonic() - began
        turn = Turn(tokens)
        try:
            yield turn
        finally:
            async with self._shared.changing() as state:
                _end(_filled(state), self._shared.owner, started, turn.tokens - tokens)
            self._freed.set()

    async def _queue(self, tokens: int) -> int:
        """Wait for a turn; return the second in which it began, by which its tokens are corrected."""
        me = self._shared.owner
        pause, longest = _POLL_SECONDS
        began = time.monotonic()
        queued = False
        try:
            while True:
                self._freed.clear()
                async with self._shared.changing() as state:
                    filled = _filled(state)
                    if not queued:
                        filled["queue"].append([me, tokens, *self._bounds])
                        queued = True
                    reason = self._advance(filled)
                    if me in filled["granted"]:
                        return int(filled["granted"].pop(me))
                self._tell(began, reason)
                try:
                    await asyncio.wait_for(self._freed.wait(), pause)
                except TimeoutError:
                    pause = min(1.5 * pause, longest)
        except BaseException:
            async with self._shared.changing() as state:
                filled = _filled(state)
                filled["queue"] = [item for item in filled["queue"] if item[0] != me]
                if filled["granted"].pop(me, None) is not None:
                    _end(filled, me, -1, 0)
            raise

    def _advance(self, state: dict[str, Any]) -> str:
        """Let those at the head of the queue start that may; return what the next one waits for."""
        now = int(self._clock())
        window = state["window"]
        for second in [key for key in window if not now - WINDOW_SECONDS <= int(key) <= now + WINDOW_SECONDS]:
            del window[second]
        while state["queue"]:
            owner, tokens, concurrent, requests, most_tokens = state["queue"][0]
            flying = sum(state["flying"].values())
            begun = sum(count for count, _ in window.values())
            used = sum(count for _, count in window.values())
            if concurrent is not None and flying >= concurrent:
                reason = f"{concurrent} requests at once"
            elif requests is not None and begun >= requests:
                reason = f"{requests} requests per minute"
            elif most_tokens is not None and used > 0 and used + tokens > most_tokens:
                # One that is larger than the limit goes alone: it would wait for ever.
                reason = f"{most_tokens} tokens per minute"
            else:
                state["queue"].pop(0)
                state["flying"][owner] = state["flying"].get(owner, 0) + 1
                state["granted"][owner] = now
                count, total = window.get(str(now), (0, 0))
                window[str(now)] = [count + 1, total + tokens]
                continue
            if not self._bury(state, now):
                return reason
        return ""

    def _bury(self, state: dict[str, Any], now: int) -> bool:
        """Take the dead out of the queue and out of flight; whether there were any. Looks every two seconds."""
        if abs(now - state.get("buried", 0)) < _BURY_SECONDS:
            return False
        state["buried"] = now
        gone = self._shared.bury([*state["flying"], *(item[0] for item in state["queue"])])
        state["queue"] = [item for item in state["queue"] if item[0] not in gone]
        for owner in gone:
            state["granted"].pop(owner, None)
            state["flying"].pop(owner, None)
        return bool(gone)

    def _tell(self, began: float, reason: str) -> None:
        waited = time.monotonic() - began
        if reason and waited >= _TELL_SECONDS / 3:
            held = f"waiting for the limits of {self._who}: {reason}"
            seldom = waiting(held, _TELL_SECONDS, self, self._opened, serious=False)
            _log.info("waiting for the limits of %s, %.0f s: %s", self._who, waited, reason, extra=seldom)


def _filled(state: dict[str, Any]) -> dict[str, Any]:
    """Return the shared mapping with all that it needs.

    `queue`: owner, tokens and bounds of those that wait, the first one first; `granted`: owner -> second in which its
    request may start that it does not know of yet; `flying`: owner -> requests in flight; `window`: second -> requests
    begun and their tokens.
    """
    for key, empty in (("queue", []), ("granted", {}), ("flying", {}), ("window", {})):
        state.setdefault(key, empty)
    return state


def _end(state: dict[str, Any], owner: str, started: int, more_tokens: int) -> None:
    """Take one request out of flight, and correct the tokens of the second in which it began."""
    left = state["flying"].get(owner, 0) - 1
    if left > 0:
        state["flying"][owner] = left
    else:
        state["flying"].pop(owner, None)
    begun = state["window"].get(str(started))
    if begun is not None:
        begun[1] = max(begun[1] + more_tokens, 0)
