from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest

from parley.engine.service.backoff import given_up, is_final, pause, retry_after
from parley.errors import EngineError

NOW = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)


def test_pauses_double_and_have_an_end() -> None:
    for tries in range(1, 200):
        longest = min(2.0 ** (tries - 1), 60.0)
        assert longest / 2 <= pause(7, tries) <= longest


def test_a_pause_belongs_to_the_request_and_its_try() -> None:
    assert pause(7, 3) == pause(7, 3)
    assert len({pause(seed, 1) for seed in range(50)}) == 50


def test_what_the_service_asks_for_is_waited_and_a_little_more() -> None:
    found = {pause(seed, 5, 20.0) for seed in range(50)}
    assert len(found) == 50
    assert all(20.5 <= seconds <= 21.0 for seconds in found)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("1.5", 1.5),
        (format_datetime(NOW + timedelta(seconds=90), usegmt=True), 90.0),
        (format_datetime(NOW - timedelta(seconds=90), usegmt=True), 0.0),
        ("Fri, 01 May 2026 12:00:30 -0000", 30.0),
        *((text, None) for text in ("", "-1", "soon", "nan", "inf", "1e9", "1" * 400, "٣", "Fri, 99 May 2026")),
    ],
)
def test_retry_after_is_a_number_of_seconds_or_a_date(value: str, seconds: float | None) -> None:
    response = httpx.Response(429, headers={"Retry-After": value.encode()})
    assert retry_after(response, NOW) == seconds


def test_without_a_header_nothing_is_asked_for() -> None:
    assert retry_after(httpx.Response(429), NOW) is None


@pytest.mark.parametrize(
    ("error", "final"),
    [
        (httpx.ConnectError("[Errno 111] Connection refused"), False),
        (httpx.ReadTimeout(""), False),
        (httpx.RemoteProtocolError("Server disconnected without sending a response."), False),
        (httpx.ProxyError("503 Service Unavailable"), False),
        (httpx.ProxyError("407 Proxy Authentication Required"), True),
        (httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed"), True),
        (httpx.UnsupportedProtocol("x"), True),
    ],
)
def test_what_will_not_go_away_is_not_tried_again(error: httpx.HTTPError, final: bool) -> None:
    assert is_final(error) is final


def test_the_end_of_patience_says_how_long_it_was() -> None:
    failure = EngineError("the service for tiny answered 503: busy")
    assert given_up(failure, 1, 0.0, 0.0, None) is failure
    told = str(given_up(failure, 9, 571.0, 600.0, None))
    assert (
        told
        == f"{failure}; given up after 9 tries and 571 s (limits.patience_seconds: 600); run again to go on "
        + ("from the journal")
    )
    assert "asks to wait 3600 s, longer than limits.patience_seconds (600)" in str(
        given_up(failure, 1, 0.0, 600.0, 3600.0)
    )
