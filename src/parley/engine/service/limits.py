"""Limits of a service, kept by the one process that plays it: requests at once, requests and tokens a minute.

Requests begin in the order in which they come, and nobody overtakes: so none starves. What a request will cost in
tokens is estimated when it begins and corrected when its reply is there.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache

from parley.engine.service.dialect import ServiceLimits
from parley.text import limited_logger, waiting

WINDOW_SECONDS = 60.0
BYTES_PER_TOKEN = 4  # about what English prompts have; the estimate is corrected by the reply
_TELL_SECONDS = 30.0
_log = limited_logger(__name__)


def estimated_tokens(prompt_bytes: int, max_tokens: int) -> int:
    """Return about how many tokens a request will use."""
    return prompt_bytes // BYTES_PER_TOKEN + max_tokens


@dataclass(eq=False)
class Permit:
    """A request that may be sent; `tokens` is what it is known, or estimated, to use, and `began` when it began."""

    tokens: int
    began: float = 0.0


@dataclass(eq=False)
class _Waiting:
    """A request in the queue, with the bounds of its entry: two entries may name one service."""

    who: str
    permit: Permit
    limits: ServiceLimits
    may_begin: asyncio.Future[None]


class Limiter:
    """Lets the requests of this process to one service begin within its limits."""

    def __init__(self) -> None:
        self._queue: deque[_Waiting] = deque()
        self._in_flight = 0
        self._begun: deque[Permit] = deque()  # in the last minute
        self._look_again: asyncio.TimerHandle | None = None
        self._opened = time.monotonic()

    @asynccontextmanager
    async def turn(self, limits: ServiceLimits, tokens: int, who: str) -> AsyncIterator[Permit]:
        """Wait until a request of about `tokens` may be sent; it is in flight while the context lasts.

        `who` is what messages call the service.
        """
        waits = _Waiting(who, Permit(tokens), limits, asyncio.get_running_loop().create_future())
        self._queue.append(waits)
        try:
            self._advance()
            await self._begin(waits)
            yield waits.permit
        finally:
            if waits in self._queue:
                self._queue.remove(waits)
            else:
                self._in_flight -= 1
            self._advance()

    async def _begin(self, waits: _Waiting) -> None:
        began = time.monotonic()
        while not (await asyncio.wait([waits.may_begin], timeout=_TELL_SECONDS / 3))[0]:
            waited, (reason, _) = time.monotonic() - began, self._kept_by(self._queue[0])
            held = f"waiting for the limits of {waits.who}: {reason}"
            seldom = waiting(held, _TELL_SECONDS, self, self._opened, serious=False)
            _log.info("waiting for the limits of %s, %.0f s: %s", waits.who, waited, reason, extra=seldom)

    def _advance(self) -> None:
        """Let those at the head of the queue begin that may, and look again when a minute leaves room for the next."""
        if self._look_again is not None:
            self._look_again.cancel()
        while self._queue:
            first = self._queue[0]
            reason, seconds = self._kept_by(first)
            if reason:
                if seconds is not None:
                    self._look_again = first.may_begin.get_loop().call_later(seconds, self._advance)
                return
            self._queue.popleft()
            self._in_flight += 1
            first.permit.began = time.monotonic()
            self._begun.append(first.permit)
            first.may_begin.set_result(None)

    def _kept_by(self, first: _Waiting) -> tuple[str, float | None]:
        """Return what keeps a request waiting, "" if nothing does, and after how many seconds to look again."""
        limits, now = first.limits, time.monotonic()
        while self._begun and self._begun[0].began <= now - WINDOW_SECONDS:
            self._begun.popleft()
        left = self._begun[0].began + WINDOW_SECONDS - now if self._begun else None
        if limits.concurrent is not None and self._in_flight >= limits.concurrent:
            return f"{limits.concurrent} requests at once", None
        if limits.requests_per_minute is not None and len(self._begun) >= limits.requests_per_minute:
            return f"{limits.requests_per_minute} requests per minute", left
        most, used = limits.tokens_per_minute, sum(permit.tokens for permit in self._begun)
        if most is not None and used > 0 and used + first.permit.tokens > most:
            # One that is larger than the limit goes alone: it would wait for ever.
            return f"{most} tokens per minute", left
        return "", None


@cache
def limiter_of(*known_by: str | None) -> Limiter:
    """Return the limiter that all requests of this process to a service share, by what tells it from others."""
    return Limiter()
