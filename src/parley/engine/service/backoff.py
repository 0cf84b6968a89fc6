"""Trying again what a service could not do for now: the same request, byte for byte, after growing pauses.

The pauses are drawn from the request's seed and the try, so that those who failed together do not come back together.
"""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from parley.engine.service.fetch import Response
from parley.errors import EngineError
from parley.identity import stream

# Time-outs and conflicts of load on the way, rate limits, errors of a server that may be another one next time.
RETRIED = frozenset((408, 429, 500, 502, 503, 504, 529))
_FIRST_SECONDS = 1.0
_LONGEST_SECONDS = 60.0
_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


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


def given_up(failure: EngineError, tries: int, used: float, patience: float, asked: float | None) -> EngineError:
    """Return the error that ends a request: its last `failure`, and for how long it was tried."""
    if patience == 0:
        return failure
    if asked is not None and asked > patience:
        return EngineError(
            f"{failure}; it asks to wait {asked:.0f} s, longer than limits.patience_seconds ({patience:g}); "
            "run again later to go on from the journal"
        )
    return EngineError(
        f"{failure}; given up after {tries} tries and {used:.0f} s (limits.patience_seconds: {patience:g}); run again "
        "to go on from the journal"
    )
