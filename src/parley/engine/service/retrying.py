"""The requests to a service: within its limits, and tried again, after growing pauses, where that may help.

Nothing of this can change a reply: a request is sent again byte for byte, its seed included. The pauses are drawn from
the request's seed and the try, so that those who failed together do not come back together.
"""

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from parley import paths
from parley.engine.service.fetch import Client, RequestError, Response
from parley.engine.service.limits import Permit, limiter_of
from parley.engine.service.service import PROBE_SECONDS, Service
from parley.errors import EngineError, NotReadyError, ParleyError
from parley.files import open_to_append
from parley.identity import digest, stream
from parley.text import limited_logger, waiting

_UNANSWERED_SECONDS = 30.0  # of patience with a service that never answered: most often its address is wrong
_FIRST_SECONDS = 1.0
_LONGEST_SECONDS = 60.0
_SECONDS = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?")
_log = limited_logger(__name__)
_sleep = asyncio.sleep

Send = Callable[[], Awaitable[Response]]


class _PassingError(Exception):
    """A failure that may pass, after so many seconds; `asked` are those that the service asks to wait."""

    def __init__(self, failure: EngineError, seconds: float, asked: float | None = None) -> None:
        super().__init__(str(failure))
        self.failure, self.seconds, self.asked = failure, seconds, asked


class Retries:
    """Sends the requests of one simulation to a service, within its limits."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._known_by = (service.url, service.key_variable, service.served)
        self._mark = paths.service_answered(digest(["answered", *self._known_by])[:16])
        self._heard = False
        self._waited = 0.0  # seconds for the limits, added up over all requests
        self._requests = 0
        self._retried = 0
        self._paused = 0.0  # seconds, added up over all requests

    async def ready(self, http: Client) -> bool:
        """Return True if the service lists the model; raises NotReadyError, in words, if it does not."""
        service = self.service
        if not service.dialect.lists_models:
            return True  # its first request tells
        try:
            listed = await self.send(lambda: http.fetch("GET", f"{service.api}/models", PROBE_SECONDS), 0, None)
            service.check_models(listed)
        except EngineError as error:
            raise NotReadyError(str(error)) from error
        return True

    async def provenance(self, http: Client) -> Mapping[str, Any]:
        """Return what the service tells of itself."""
        return await self.service.provenance(http)

    def effort(self) -> dict[str, Any]:
        """Return what the requests took, for a record's provenance; nothing if all went at once."""
        waited = round(self._waited, 1)
        if not self._retried and not waited:
            return {}
        counts = {"requests": self._requests, "retried": self._retried, "retry_seconds": round(self._paused, 1)}
        return {"effort": {**counts, "limit_seconds": waited}}

    async def send(self, post: Send, seed: int, tokens: int | None) -> Response:
        """Send a request of about `tokens` by `post`, and return what comes: a reply, or an error that will not pass.

        Without `tokens` it uses none and counts for no limit. Raises EngineError if patience ends: that counts the
        pauses, and the tries after the first that failed; waits for limits it does not. There is little of it with a
        service that never answered, and then it counts the first try, too.
        """
        self._requests += tokens is not None
        tries, used = 0, 0.0  # seconds of patience
        while True:
            tries += 1
            try:
                return await self._attempt(post, tokens)
            except _PassingError as error:
                failed = error
            used += failed.seconds if tries > 1 or not self._answered else 0.0
            seconds = pause(seed, tries, failed.asked)
            if used + seconds > self._patience:
                raise self._given_up(failed, tries, used)
            self._retried += 1
            self._paused += seconds
            again = f"{failed}; trying again"
            _log.info("%s in %.0f s", again, seconds, extra=waiting(again, of=self))
            await _sleep(seconds)
            used += seconds

    async def _attempt(self, post: Send, tokens: int | None) -> Response:
        """Send once; raises _PassingError where another try may help."""
        came = time.monotonic()
        async with self._turn(tokens) as turn:
            began = time.monotonic()
            self._waited += began - came
            try:
                response = await post()
            except RequestError as error:
                lost = self.service.lost(error)
                raise lost if error.final else _PassingError(lost, time.monotonic() - began) from None
            self._hear()
            turn.tokens = turn.tokens if response.used is None else response.used.total
            if response.error is not None and response.error.passes:
                asked = retry_after(response, datetime.now(UTC))
                raise _PassingError(self.service.refused(response.error), time.monotonic() - began, asked)
            return response

    def _given_up(self, failed: _PassingError, tries: int, used: float) -> EngineError:
        patience = self._patience
        if patience == 0:
            return failed.failure
        if not self._answered:
            return NotReadyError(
                f"{failed}; it never answered, and was given up after {used:.0f} s: check source.url, that the server "
                "runs there, and proxies and firewalls in between"
            )
        asked = "" if failed.asked is None else f", and it asks to wait {failed.asked:.0f} s"
        return EngineError(
            f"{failed}; given up after {tries} tries and {used:.0f} s (limits.patience_seconds: "
            f"{patience:g}{asked}); run again to go on from the journal"
        )

    @property
    def _patience(self) -> float:
        most = self.service.limits.patience_seconds
        return most if self._answered else min(most, _UNANSWERED_SECONDS)

    def _turn(self, tokens: int | None) -> AbstractAsyncContextManager[Permit]:
        limits = self.service.limits
        if tokens is None or not limits.any:
            return nullcontext(Permit(0))
        return limiter_of(asyncio.get_running_loop(), *self._known_by).turn(limits, tokens, self.service.who)

    @property
    def _answered(self) -> bool:
        """Whether the service ever answered: this process, or in the same folder another."""
        self._heard = self._heard or self._mark.exists()
        return self._heard

    def _hear(self) -> None:
        if not self._answered:
            self._heard = True
            with suppress(ParleyError):  # others will have less patience
                os.close(open_to_append(self._mark))


def pause(seed: int, tries: int, asked: float | None = None) -> float:
    """Return the seconds to wait after the failure of a request's try number `tries`, which counts from 1.

    They double from 0.5 to 1 up to 30 to 60 seconds. What the service `asked` for comes first: then those of a first
    failure are added, so that not everybody comes back in the same moment.
    """
    share = (1 + float(stream("backoff", seed, tries).random())) / 2
    if asked is not None:
        return asked + share * _FIRST_SECONDS
    return share * min(_FIRST_SECONDS * 2.0 ** min(tries - 1, 30), _LONGEST_SECONDS)


def retry_after(response: Response, now: datetime) -> float | None:
    """Return the seconds that the header Retry-After asks for, as a number or a date; None if it asks for none."""
    value = response.headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(value):
        return float(value)
    try:
        until = parsedate_to_datetime(value)
        return max((until.replace(tzinfo=until.tzinfo or UTC) - now).total_seconds(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None
