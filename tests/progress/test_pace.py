import pytest

from parley.progress.pace import Pace


def test_a_rate_is_over_what_has_passed_since_the_first_request() -> None:
    pace = Pace()
    assert pace.rates(100.0) is None
    pace.put(90.0, 100.0, (1, 300, 20))
    pace.put(91.0, 105.0, (1, 600, 60))
    assert pace.rates(110.0) == pytest.approx((2 / 20, 900 / 20, 80 / 20))


def test_a_rate_forgets_what_is_long_ago() -> None:
    pace = Pace()
    pace.put(100.0, 100.0, (10,))
    pace.put(300.0, 300.0, (3,))
    assert pace.rates(330.0) == pytest.approx((3 / 120,))
    assert pace.rates(330.0, 600) == pytest.approx((13 / 230,))
    assert pace.rates(500.0) is None  # unknown, not 0
    assert pace.last == 300.0
