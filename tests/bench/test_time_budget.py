"""A budget of time."""

from benchmarks.budget import TimeBudget


def test_what_no_longer_fits_is_not_allowed() -> None:
    now = [100.0]
    budget = TimeBudget(2, clock=lambda: now[0])
    assert budget.left == 120
    assert budget.allows(120)
    now[0] += 90
    assert budget.allows(30)
    assert not budget.allows(31)
    now[0] += 300
    assert budget.left == 0
    assert budget.dropped == "not measured: dropped to keep within --minutes 2"
