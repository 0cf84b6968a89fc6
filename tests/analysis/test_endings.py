"""The tables `endings` and `times`: when games ended and how, and how that differs between conditions."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from statsmodels.duration.survfunc import survdiff

from parley.analysis.endings import (
    ANY,
    ending_table,
    incidences,
    log_rank,
    median_interval,
    paired_log_rank,
    times_table,
    ways_to_end,
)
from parley.games.consensus.game import ConsensusGame
from parley.games.stag_hunt.game import StagHuntGame
from parley.statistics.stats import wilson_interval

pytestmark = pytest.mark.promise(
    "Times to stop, with competing ways to end, medians and log-rank tests agree with scipy, with the "
    "bootstrap and with cases by hand."
)

VALID, INVALID = "valid_consensus", "invalid_consensus"
OF = {"v": VALID, "i": INVALID, "-": "no_consensus"}


def rows(*conditions: str, seeds: Sequence[int] | None = None) -> pd.DataFrame:
    """Return simulations from texts such as "3v 5i 8-": rounds and outcome, where "-" met its deadline."""
    games = [(n, place, game) for n, each in enumerate(conditions) for place, game in enumerate(each.split())]
    return pd.DataFrame(
        {
            "n": n,
            "seed": seeds[place] if seeds else place,
            "rounds": int(game[:-1]),
            "outcome": OF[game[-1]],
            "finished_early": game[-1] != "-",
        }
        for n, place, game in games
    )


def times(table: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return the rows of the comparison along n, by the way to end."""
    return {row["ending"]: row for row in times_table(table, ["n"], ConsensusGame).to_dict("records")}


# Cumulative incidence


def curve(table: pd.DataFrame, ending: str, *columns: str) -> list[Any]:
    return table.loc[table["ending"] == ending, list(columns)].to_numpy().T.tolist()


def test_without_early_deadlines_the_incidence_is_a_share_with_its_wilson_interval() -> None:
    table = ending_table(rows("2v 2i 3v 5v 8- 8- 8- 8-"), ["n"], ConsensusGame)
    round_, at_risk, count, share = curve(table, VALID, "round", "at_risk", "count", "incidence")
    assert (round_, at_risk) == ([2, 3, 5, 8], [8, 6, 5, 4])
    assert (count, share) == ([1, 1, 1, 0], [1 / 8, 2 / 8, 3 / 8, 3 / 8])
    assert curve(table, INVALID, "count", "incidence") == [[1, 0, 0, 0], [1 / 8] * 4]
    assert curve(table, ANY, "incidence") == [[2 / 8, 3 / 8, 4 / 8, 4 / 8]]
    last = table[(table["ending"] == VALID) & (table["round"] == 8)].iloc[0]
    assert (last["low"], last["high"]) == pytest.approx(wilson_interval(3, 8))
    assert set(table["simulations"]) == {8}


def test_with_deadlines_within_a_condition_by_hand() -> None:
    # 6 play; one valid in round 1 (1/6); one deadline in 2; of 4 left one invalid in 3 (5/6 * 1/4);
    # then of 3 left one valid in 4 (5/6 * 3/4 * 1/3).
    table = ending_table(rows("1v 2- 3i 4v 5- 5-"), ["n"], ConsensusGame)
    by_hand = {
        VALID: [1 / 6, 1 / 6, 1 / 6, 1 / 6 + 5 / 24, 1 / 6 + 5 / 24],
        INVALID: [0, 0, 5 / 24, 5 / 24, 5 / 24],
        ANY: [1 / 6, 1 / 6, 9 / 24, 14 / 24, 14 / 24],
    }
    for ending, shares in by_hand.items():
        at_risk, found = curve(table, ending, "at_risk", "incidence")
        assert found == pytest.approx(shares), ending
        assert at_risk == [6, 5, 4, 3, 2]


def made(random: np.random.Generator, n: int) -> tuple[Any, Any]:
    """Return times and ways to end, of two, of games with deadlines of their own."""
    time, way = random.geometric(0.15, n), random.integers(1, 3, n)
    deadline = random.integers(2, 15, n)
    return np.minimum(time, deadline), np.where(time <= deadline, way, 0)


def test_the_interval_is_as_wide_as_the_bootstrap_says() -> None:
    random = np.random.default_rng(3)
    time, way = made(random, 400)
    first = incidences(time, way, 2)[0]
    again = []
    for _ in range(400):
        chosen = random.integers(0, 400, 400)
        curve = incidences(time[chosen], way[chosen], 2)[0]
        again.append(curve.share[np.searchsorted(curve.times, 6)])
    at = int(np.searchsorted(first.times, 6))
    assert (first.high - first.low)[at] == pytest.approx(2 * 1.96 * np.std(again), rel=0.1)


def test_what_a_condition_or_a_game_cannot_have_has_no_rows() -> None:
    table = ending_table(rows("2v 8-", "3v 3i"), ["n"], ConsensusGame, {(0,): frozenset({INVALID})})
    assert set(table[table["n"] == 0]["ending"]) == {VALID, ANY}
    assert set(table[table["n"] == 1]["ending"]) == {VALID, INVALID, ANY}
    never = rows("8- 8- 8-", "8- 8- 8-")  # games that always last their time
    assert ways_to_end(never, ConsensusGame) == []
    assert ending_table(never, ["n"], StagHuntGame).empty


# Medians


def test_the_interval_of_the_median_by_hand() -> None:
    # Of 10 games k have ended by a round; Wilson: [0.24, 0.76] of 5 holds one half, as do 2 (up to 0.51) and 8 (0.49).
    assert median_interval([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], [True] * 10) == (2, 9)
    # With the deadline at 8 the upper limit is not reached.
    low, high = median_interval([1, 2, 3, 4, 5, 6, 7, 8, 8, 8], [True] * 8 + [False] * 2)
    assert (low, math.isnan(high)) == (2, True)
    assert np.isnan([median_interval([8] * 9, [False] * 9), median_interval([], [])]).all()


# Conditions that differ in one axis


def test_the_log_rank_test_by_hand_and_by_statsmodels() -> None:
    # Round 1: one of two in each group, and only the first's ends: 1 - 1/2, variance 1/4. Then the second is alone.
    assert log_rank([1, 2], [True, True], [0, 1]) == pytest.approx(2 * scipy.stats.norm.sf(1))
    for seed in range(4):
        random = np.random.default_rng(seed)
        (time, way), (other, ways) = made(random, 30), made(random, 40)
        both = np.r_[time, other], np.r_[way, ways] > 0, np.repeat([0, 1], [30, 40])
        assert log_rank(*both) == pytest.approx(survdiff(*both)[1]), seed
    late = [*range(1, 101), *range(201, 301)]
    assert 0 < log_rank(late, [True] * 200, [0] * 100 + [1] * 100) < 1e-20
    later = ([1, *range(2, 51)], [0] + [1] * 49, [1] + [0] * 49)  # all of the first group end when nobody else plays
    for nothing in ([2, 2, 2, 2], [1] * 4, [0, 0, 1, 1]), ([8, 8], [0, 0], [0, 1]), ([1, 2], [1, 1], [0, 0]), later:
        assert math.isnan(log_rank(*nothing)), nothing


def test_the_paired_log_rank_test_by_hand() -> None:
    # Round 1: two of four end, so a score of 1 - 1/2 for both of them; round 2: the other two, 1 - 1/2 - 1. The pairs
    # differ by -1 and -1: z = -2 / sqrt(2).
    p = paired_log_rank([[1, 2], [1, 2]], [[True, True], [True, True]])
    assert p == pytest.approx(2 * scipy.stats.norm.sf(math.sqrt(2)))
    nothing = [paired_log_rank([[3, 3]], [[True] * 2]), paired_log_rank([[8, 8]], [[False] * 2])]
    assert np.isnan([*nothing, paired_log_rank([], [])]).all()


def test_the_paired_log_rank_test_by_all_exchanges() -> None:
    time, way = made(np.random.default_rng(0), 20)
    pairs, ended = time.reshape(10, 2), (way > 0).reshape(10, 2)

    def excess(exchanged: np.ndarray[Any, Any]) -> float:
        """Return how many more of the second games end than the log-rank test expects."""
        t, e = (np.where(exchanged[:, None], each[:, ::-1], each) for each in (pairs, ended))
        more = 0.0
        for moment in np.unique(t[e]):
            at_risk, ending = (t >= moment).sum(axis=0), ((t == moment) & e).sum(axis=0)
            more += ending[1] - ending.sum() * at_risk[1] / at_risk.sum()
        return more

    excesses = np.array([excess(np.array(row)) for row in itertools.product([False, True], repeat=10)])
    z = excesses[0] / excesses.std()
    assert abs(z) > 0.1
    assert paired_log_rank(pairs, ended) == pytest.approx(2 * scipy.stats.norm.sf(abs(z)))


def test_a_half_of_the_time_is_found() -> None:
    random = np.random.default_rng(8)
    slow = [int(round_) for round_ in random.integers(10, 31, 60)]
    row = times(rows(*(" ".join(f"{round_}v" for round_ in each) for each in (slow, [r // 2 for r in slow]))))[ANY]
    assert (row["from"], row["to"], row["pairs"], row["median_to"]) == ("0", "1", 60, row["median_from"] // 2)
    # In pairs the ratio is the same for every draw, but for rounding down.
    assert row["ratio_low"] > 0.45
    assert row["ratio_high"] <= 0.5
    assert row["high"] < 0
    assert row["p"] < 1e-6


def test_a_way_to_end_is_compared_among_those_that_ended_so() -> None:
    of = times(rows("2v 4v 6v 3i 8-", "8v 8v 3i 3i 8-"))
    valid, every = of[VALID], of[ANY]
    assert (valid["median_from"], valid["median_to"], valid["ratio"]) == (4, 8, 2)
    assert (valid["simulations_from"], valid["simulations_to"], valid["pairs"]) == (3, 2, 2)
    assert (every["ended_from"], every["simulations_from"]) == (4, 5)
    assert np.isnan([valid["p"], valid["low"]]).all()  # of three and two games
    assert valid["test"] == ""
    assert every["p_holm"] == every["p"]
