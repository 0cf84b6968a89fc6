"""The requests to a service: so many at once, and tried again, after growing pauses, where that may help.

Nothing of this can change a reply: a request is sent again byte for byte, its seed included. The pauses are drawn from
the request's seed and the try, so that those who failed together do not come back together.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any

from parley.engine.service.fetch import Client, RequestError, Response
from parley.engine.service.service import PROBE_SECONDS, Service
from parley.errors import EngineError, NotReadyError
from parley.identity import stream
from parley.text import limited_logger, waiting

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

    async def ready(self, http: Client) -> bool:
        """Return True if the service lists the model; raises NotReadyError, in words, if it does not."""
        service = self.service
        if not service.dialect.lists_models:
            return True  # its first request tells
        try:
            listed = await self.send(lambda: http.fetch("GET", f"{service.api}/models", PROBE_SECONDS), 0)
            service.check_models(listed)
        except EngineError as error:
            raise NotReadyError(str(error)) from error
        return True

    async def send(self, post: Send, seed: int) -> Response:
        """Send a request by `post`, and return what comes: a reply, or an error that will not pass.

        Raises EngineError if patience ends: that counts the pauses, and the tries after the first that failed; waits
        for other requests it does not.
        """
        patience = self.service.limits.patience_seconds
        tries, used = 0, 0.0  # seconds of patience
        while True:
            tries += 1
            try:
                return await self._attempt(post)
            except _PassingError as error:
                failed = error
            used += failed.seconds if tries > 1 else 0.0
            seconds = pause(seed, tries, failed.asked)
            if used + seconds > patience:
                raise _given_up(failed, tries, used, patience)
            again = f"{failed}; trying again"
            _log.info("%s in %.0f s", again, seconds, extra=waiting(again, of=self))
            await _sleep(seconds)
            used += seconds

    async def _attempt(self, post: Send) -> Response:
        """Send once; raises _PassingError where another try may help."""
        async with self._turn():
            began = time.monotonic()
            try:
                response = await post()
            except RequestError as error:
                lost = self.service.lost(error)
                raise lost if error.final else _PassingError(lost, time.monotonic() - began) from None
            if response.error is not None and response.error.passes:
                asked = retry_after(response, datetime.now(UTC))
                raise _PassingError(self.service.refused(response.error), time.monotonic() - began, asked)
            return response

    def _turn(self) -> AbstractAsyncContextManager[Any]:
        service = self.service
        if service.limits.concurrent is None:
            return nullcontext()
        known_by = (service.url, service.key_variable, service.served)
        return _places(asyncio.get_running_loop(), service.limits.concurrent, *known_by)


@cache
def _places(loop: asyncio.AbstractEventLoop, concurrent: int, *known_by: str | None) -> asyncio.Semaphore:
    """Return what all requests of a loop to a service share, by what tells it from others."""
    return asyncio.Semaphore(concurrent)


def _given_up(failed: _PassingError, tries: int, used: float, patience: float) -> EngineError:
    if patience == 0:
        return failed.failure
    asked = "" if failed.asked is None else f", and it asks to wait {failed.asked:.0f} s"
    often = "1 try" if tries == 1 else f"{tries} tries"
    return type(failed.failure)(
        f"{failed}; given up after {often} and {used:.0f} s (limits.patience_seconds: "
        f"{patience:g}{asked}); run again to go on from the journal"
    )


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
