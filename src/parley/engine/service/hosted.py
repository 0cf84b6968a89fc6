"""The requests to a service: within its limits, and again where that may help.

Nothing of this can change a reply: a request is sent again byte for byte, its seed included.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from parley.engine.service.backoff import RETRIED, given_up, pause, retry_after
from parley.engine.service.fetch import Http, RequestError, Response, fetch
from parley.engine.service.limits import Limiter, Turn
from parley.engine.service.service import PROBE_SECONDS, Service, has_no_quota
from parley.errors import EngineError, NotReadyError
from parley.policies import used_tokens
from parley.text.logs import limited_logger, waiting

_log = limited_logger(__name__)
_sleep = asyncio.sleep

Send = Callable[[], Awaitable[Response]]


class Hosted:
    """What a client needs of a service while it sends requests to it."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._limiter: Limiter | None = None
        self._requests = 0
        self._retried = 0
        self._paused = 0.0  # seconds, added up over all requests
        self.who = service.who
        self.served = service.served
        self.seconds = service.seconds
        self.strict = service.strict
        self.dialect = service.dialect
        self.api = service.api
        self.http = service.http
        self.redacted = service.redacted
        self.holds_key = service.holds_key

    async def open(self, stack: AsyncExitStack) -> None:
        """Take part in the service's limits, if it has any, until `stack` is closed."""
        service = self._service
        if service.limits.any:
            known_by = (service.url, service.key_variable, service.served)
            self._limiter = await stack.enter_async_context(Limiter(known_by, service.limits, self.who))

    async def ready(self, http: Http) -> bool:
        """Return True if the service lists the model; raises NotReadyError, in words, if it does not."""
        if not self.dialect.lists_models:
            return True  # its first request tells
        try:
            listed = await self._send(lambda: fetch(http, "GET", f"{self.api}/models", PROBE_SECONDS), 0, None)
            self._service.check_models(listed)
        except EngineError as error:
            raise NotReadyError(str(error)) from error
        return True

    async def provenance(self, http: Http) -> Mapping[str, Any]:
        """Return what the service tells of itself."""
        return await self._service.provenance(http)

    async def refused(self, response: Response) -> EngineError:
        """Return the error for an answer other than 200."""
        return self._service.refused(response)

    async def send(self, post: Send, seed: int, tokens: int) -> Response:
        """Send a request of about `tokens` by `post`, and return the answer, whatever its status.

        Raises EngineError if patience ends, or if a failure will not go away.
        """
        self._requests += 1
        return await self._send(post, seed, tokens)

    def effort(self) -> dict[str, Any]:
        """Return what the requests took, for a record's provenance; nothing if all went at once."""
        waited = round(self._limiter.waited, 1) if self._limiter is not None else 0.0
        if not self._retried and not waited:
            return {}
        told = {"requests": self._requests, "retried": self._retried, "retry_seconds": round(self._paused, 1)}
        return {"effort": {**told, "limit_seconds": waited}}

    async def _send(self, post: Send, seed: int, tokens: int | None) -> Response:
        """Patience counts the pauses, and the tries after the first that failed; waits for limits it does not."""
        patience = self._service.limits.patience_seconds
        tries, used = 0, 0.0
        while True:
            tries += 1
            response: Response | None = None
            began = time.monotonic()
            try:
                async with self._turn(tokens) as turn:
                    began = time.monotonic()
                    response = await post()
                    if self._limiter is not None:
                        turn.tokens = _charged(response, turn.tokens)
                if response.status_code not in RETRIED:
                    return response
                failure = self._service.refused(response)
                final = has_no_quota(response) or self._service.remedy(response) is not None
            except RequestError as error:
                failure, final = self._service.lost(error), error.final
            if final:
                raise failure
            if tries > 1:
                used += time.monotonic() - began
            asked = None if response is None else retry_after(response, datetime.now(UTC))
            wait = pause(seed, tries, asked)
            if used + wait > patience:
                raise given_up(failure, tries, used, patience, asked)
            _log.info("%s; trying again in %.0f s", failure, wait, extra=waiting(f"{failure}; trying again", of=self))
            used += wait
            self._retried += 1
            self._paused += wait
            await _sleep(wait)

    @asynccontextmanager
    async def _turn(self, tokens: int | None) -> AsyncIterator[Turn]:
        if self._limiter is None or tokens is None:  # asking for the list of models uses none
            yield Turn(0)
            return
        async with self._limiter.turn(tokens) as turn:
            yield turn


def _charged(response: Response, estimate: int) -> int:
    """Return the tokens that an answer used of a limit: what it says; none for an error."""
    if response.status_code != 200:
        return 0
    used = used_tokens(response.content)
    return estimate if used is None else used.total
