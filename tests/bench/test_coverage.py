"""The table of coverage and size in benchmarks/, of which docs/explanation/statistics.md has the worst cells."""

import re

import numpy as np
import pytest

from benchmarks import coverage

pytestmark = pytest.mark.promise(
    "The table of coverage is what `python -m benchmarks.run coverage` computes, and the docs have its worst cells."
)


def test_the_table_has_every_case_and_each_can_be_measured() -> None:
    rows, cases = coverage.kept(), coverage.CASES
    assert {(row[0], row[1]) for row in rows} == {(kind, name) for kind in cases for name, _ in cases[kind]}
    assert all(re.fullmatch(r"\d+\.\d%", row[place]) for row in rows for place in (3, 5))
    for kind in cases:
        for name, measure in cases[kind]:
            assert all(0 <= share <= 1 for _, share in measure(5, 2, np.random.default_rng(1))), name


def test_what_is_enumerated_is_what_the_table_says_and_the_page_has_the_worst() -> None:
    found = dict(coverage.wilsons(10, 0, np.random.default_rng(0)))
    assert ["interval (95%)", "a rate (Wilson)", "10", f"{min(found.values()):.1%}"] in [
        row[:4] for row in coverage.kept()
    ]
    page = coverage.PAGE.read_text(encoding="utf-8")
    assert all(line in page for line in coverage.shown())
