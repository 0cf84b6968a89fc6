"""The table of coverage and size in benchmarks/, of which docs/explanation/statistics.md has the worst cells."""

import numpy as np
import pytest

from benchmarks import coverage

pytestmark = pytest.mark.promise(
    "The table of coverage is what `python -m benchmarks.run coverage` computes, and the docs have its worst cells."
)


def test_the_table_has_every_case_and_each_can_be_measured() -> None:
    rows, cases = coverage.kept(), coverage.CASES
    names = {(kind, name) for kind in cases for name, _ in cases[kind]}
    assert {*zip(rows["kind"], rows["what"], strict=True)} == names
    assert rows[["worst", "mean"]].stack().str.fullmatch(r"\d+\.\d%").all()
    for kind in cases:
        for name, measure in cases[kind]:
            assert all(0 <= np.mean(share) <= 1 for _, share in measure(5, 2, np.random.default_rng(1))), name


def test_what_is_enumerated_is_what_the_table_says_and_the_page_has_the_worst() -> None:
    found = dict(coverage.wilsons(10, 0, np.random.default_rng(0)))
    kept = coverage.kept().set_index(["kind", "what", "n"])["worst"]
    assert kept["interval (95%)", "a rate (Wilson)", "10"] == f"{min(found.values()):.1%}"
    page = coverage.PAGE.read_text(encoding="utf-8")
    assert all(line in page for line in coverage.shown())
