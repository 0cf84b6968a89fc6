"""The tables of coverage and size in benchmarks/, which docs/explanation/statistics.md names."""

import csv
import re

import numpy as np
import pytest

from benchmarks import coverage

pytestmark = pytest.mark.promise(
    "The tables of coverage and size in `benchmarks/` are those that `python -m benchmarks.coverage` computes."
)


def kept(name: str) -> list[list[str]]:
    """Return the cells of the rows of a table that was written."""
    with (coverage.FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))[1:]


def test_the_tables_have_every_case_for_every_size_and_each_can_be_simulated() -> None:
    for name, cases in (("coverage", coverage.INTERVALS), ("size", coverage.TESTS)):
        rows = kept(name)
        assert [row[0] for row in rows] == [case for case, _ in cases]
        assert all(re.fullmatch(r"\d+\.\d%( \(\d+\.\d%\))?", cell) for row in rows for cell in row[1:])
        assert {len(row) for row in rows} == {1 + len(coverage.SIZES)}
        for case, simulate in cases:
            assert all(0 <= share <= 1 for share in simulate(10, 4, np.random.default_rng(1))), case


def test_what_is_enumerated_is_what_the_tables_say() -> None:
    [rates, *_] = kept("coverage")
    assert rates[1:] == [f"{min(each):.1%} ({np.mean(each):.1%})" for each in map(coverage.rates_of, coverage.SIZES)]
    enumerated = {row[0]: row[1:] for row in kept("differences")}
    for name, (sizes, covered) in {
        "25 pairs": coverage.pairs_of(25),
        "5 pairs of shares, 1 apart in some and else equal": coverage.few_of(5, 1.0),
    }.items():
        assert enumerated[name] == [f"{max(sizes):.1%}", f"{min(covered):.1%}", f"{np.mean(covered):.1%}"]
    assert min(covered) > 0.94  # 0.1 without an interval for pairs that are all equal
