"""Limits of a service, kept by the one process that plays it: requests at once, requests and tokens a minute.

Requests begin in the order in which they come, and nobody overtakes: so none starves. What a request will cost in
tokens is estimated when it begins and corrected when its reply is there.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
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


class Limiter:
    """Lets the requests of one event loop to one service begin within its limits."""

    def __init__(self) -> None:
        self._next = asyncio.Lock()  # of the request that begins next; the others wait for it in their order
        self._ended = asyncio.Event()  # that a request did, since the next one looked
        self._in_flight = 0
        self._begun: deque[Permit] = deque()  # in the last minute
        self._opened = time.monotonic()

    @asynccontextmanager
    async def turn(self, limits: ServiceLimits, tokens: int, who: str) -> AsyncIterator[Permit]:
        """Wait until a request of about `tokens` may be sent; it is in flight while the context lasts.

        `limits` are those of its entry: two entries may name one service, which messages call `who`.
        """
        permit, came = Permit(tokens), time.monotonic()
        async with self._next:
            while (kept := self._kept_by(limits, tokens)) is not None:
                reason, seconds = kept
                self._tell(who, reason, time.monotonic() - came)
                self._ended.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._ended.wait(), min(seconds, _TELL_SECONDS / 3))
            permit.began = time.monotonic()
            self._begun.append(permit)
            self._in_flight += 1
        try:
            yield permit
        finally:
            self._in_flight -= 1
            self._ended.set()

    def _tell(self, who: str, reason: str, waited: float) -> None:
        if waited >= _TELL_SECONDS / 3:
            seldom = waiting(
                f"waiting for the limits of {who}: {reason}", _TELL_SECONDS, self, self._opened, serious=False
            )
            _log.info("waiting for the limits of %s, %.0f s: %s", who, waited, reason, extra=seldom)

    def _kept_by(self, limits: ServiceLimits, tokens: int) -> tuple[str, float] | None:
        """Return what keeps a request waiting, and for how many seconds at most; None if nothing does."""
        now = time.monotonic()
        while self._begun and self._begun[0].began <= now - WINDOW_SECONDS:
            self._begun.popleft()
        if limits.concurrent is not None and self._in_flight >= limits.concurrent:
            return f"{limits.concurrent} requests at once", WINDOW_SECONDS
        left = self._begun[0].began + WINDOW_SECONDS - now if self._begun else 0.0
        if limits.requests_per_minute is not None and len(self._begun) >= limits.requests_per_minute:
            return f"{limits.requests_per_minute} requests per minute", left
        most, used = limits.tokens_per_minute, sum(permit.tokens for permit in self._begun)
        if most is not None and used > 0 and used + tokens > most:
            # One that is larger than the limit goes alone: it would wait for ever.
            return f"{most} tokens per minute", left
        return None


@cache
def limiter_of(loop: asyncio.AbstractEventLoop, *known_by: str | None) -> Limiter:
    """Return the limiter that all requests of a loop to a service share, by what tells it from others."""
    return Limiter()
