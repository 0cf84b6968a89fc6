"""The one comparison: what it says with pairs and without, in families, and where nothing is known."""

import numpy as np
import pytest

from parley.statistics.anytime import anytime_difference
from parley.statistics.differences import (
    CLUSTERED,
    MEANS,
    NO_PAIRS,
    NUMBER,
    RATE,
    SHARE,
    TESTED,
    Clusters,
    SamplePair,
    beside,
    compare,
)
from parley.statistics.stats import holm, mcnemar, sign_flip

YES, NO = np.ones(8), np.zeros(8)
HALF = np.array([0.0, 1.0] * 4)
NONE = np.full(8, np.nan)


def test_p_are_corrected_within_families_alone_and_keys_come_first() -> None:
    pairs = [
        SamplePair({"what": name}, NO, YES, RATE, family=family) for name, family in zip("abc", "xxy", strict=True)
    ]
    table = compare([*pairs, SamplePair({"what": "d"}, NO, HALF, RATE)])
    assert list(table)[:2] == ["what", "pairs"]
    p = float(mcnemar(0, 8))
    assert table["p_holm"].tolist() == pytest.approx([*holm([p, p]), p, np.nan], nan_ok=True)
    assert table["difference"].tolist() == [1, 1, 1, 0.5]


@pytest.mark.parametrize(
    ("kind", "without_pairs", "test", "difference"),
    [
        *((kind, "nothing", "", np.nan) for kind in (RATE, SHARE, NUMBER)),
        *((kind, MEANS, "", 0.5) for kind in (SHARE, NUMBER)),
        *((kind, TESTED, "chi-squared", 0.5) for kind in (RATE, SHARE)),
        (NUMBER, TESTED, "Welch", 0.5),
    ],
)
def test_without_pairs_all_simulations_are_compared_where_the_table_says_so(
    kind: str, without_pairs: str, test: str, difference: float
) -> None:
    [row] = compare([SamplePair({}, NO, HALF, kind, NO_PAIRS, NO_PAIRS, without_pairs=without_pairs)]).to_dict(
        "records"
    )
    assert (row["pairs"], row["simulations_to"], row["all_to"], row["test"]) == (0, 8, 0.5, test)
    assert [row["difference"]] == pytest.approx([difference], nan_ok=True)
    assert np.isnan(row["p"]) == (not test)


def test_seeds_signs_and_any_time() -> None:
    alike = Clusters(np.arange(8) // 2)
    of_rate = SamplePair({}, NO, HALF, RATE, clusters=alike, most=1.0)
    of_number = of_rate._replace(second=HALF + 0.1, kind=SHARE)
    rate, number = compare([of_rate, of_number], anytime=True).to_dict("records")
    assert (rate["test"], number["test"]) == (CLUSTERED, "t by seed")
    assert number["high"] <= 1
    assert rate["anytime_p"] == anytime_difference(np.full(4, 0.5))[2]
    [signs] = compare([SamplePair({}, NO, HALF, NUMBER, flips_signs=True)]).to_dict("records")
    assert signs["p"] == sign_flip(HALF)


def test_rows_without_samples_have_no_difference_and_no_rows_no_columns() -> None:
    table = beside([{"what": "a"}, {"what": "b"}], [None, SamplePair({}, NO, NONE, RATE)])
    assert table["what"].tolist() == ["a", "b"]
    assert table[["difference", "difference_low", "p"]].isna().all(axis=None)
    assert len(compare([])) == 0
