"""The table of questions, from simulations written out by hand."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy

from parley.analysis.contrasts import contrast_table
from parley.analysis.questions import Pairs, question_table
from parley.errors import ParleyError
from parley.statistics.anytime import anytime_difference
from parley.statistics.clustered import clustered_difference, paired_rates
from parley.statistics.differences import Clusters, SamplePair, compare
from parley.statistics.stats import (
    holm,
    mcnemar,
    mean_interval,
    p_below,
    paired_difference,
    paired_mean,
    wilson_interval,
)
from parley.study import Study
from support.studies import StudyFactory

pytestmark = pytest.mark.promise("A question is answered from all its pairs, by one family of tests.")

ASKED = {"name": "prompt", "outcome": "valid_consensus", "compare": "prompt", "over": ["n"], "smallest": 0.3}
GRID = {"n": [4, 6], "prompt": ["may_exist", "none_exist"], "seeds": 8}
# By n and seed, whether there was a valid consensus: with the first prompt, with the second.
WON = {4: ("11100000", "11111100"), 6: ("10000000", "10111111")}
SAME = "open: all pairs differ by the same"


def table_of(study: Study, is_valid: Callable[[Any], bool], **columns: Any) -> pd.DataFrame:
    """The table of simulations, of which some, by their rows, end in a valid consensus."""
    table = pd.DataFrame({**s.condition.axes, "seed": s.seed} for s in study.simulations())
    outcomes = ["valid_consensus" if is_valid(row) else "no_consensus" for row in table.to_dict("records")]
    return table.assign(outcome=outcomes, **columns)


def rows(study: Study, won: dict[int, tuple[str, str]] = WON, **columns: Any) -> pd.DataFrame:
    """The table of simulations that end as `won` says."""
    return table_of(study, lambda row: won[row["n"]][row["prompt"] == "none_exist"][row["seed"]] == "1", **columns)


@pytest.fixture
def study(study_factory: StudyFactory) -> Study:
    return study_factory(GRID, questions=[ASKED])


def cells(row: Any, names: str) -> list[Any]:
    return [row[name] for name in names.split()]


def test_pairs_of_all_strata_are_pooled(study: Study) -> None:
    row = question_table(rows(study), study).iloc[0]
    # n = 4: seeds 3, 4, 5 only with the second; n = 6: seeds 2 to 7.
    assert cells(row, "strata pairs only_first only_second both") == [2, 16, 0, 9, 4]
    assert cells(row, "value_from value_to") == [4 / 16, 13 / 16]
    assert row["difference"] == pytest.approx(9 / 16)
    at_any_time = anytime_difference(np.array([0, 0, 1, 2, 2, 2, 1, 1]) / 2)
    assert cells(row, "anytime_low anytime_high anytime_p") == pytest.approx(at_any_time)
    assert row["anytime_p_holm"] == row["anytime_p"]
    # By seed, over n = 4 and 6: seeds 2, 6 and 7 gain once, 3, 4 and 5 twice, 0 and 1 never.
    means = np.array([0, 0, 1, 2, 2, 2, 1, 1]) / 2
    z_squared = means.sum() ** 2 / (means**2).sum()
    assert row["p"] == row["p_holm"] == pytest.approx(scipy.stats.chi2.sf(z_squared, 1))
    half = 1.96 * np.sqrt(means.var() / 8 / (1 - 1.96**2 / 8))
    assert cells(row, "low high") == pytest.approx([9 / 16 - half, 9 / 16 + half], abs=1e-4)
    assert cells(row, "test answer") == ["clustered McNemar", "differs"]
    few = question_table(rows(study).query("seed > 3"), study).iloc[0]
    assert cells(few, "pairs answer") == [8, "open: fewer than 5 seeds"]


def test_only_seeds_that_both_have_and_what_the_game_pairs_by_are_pairs(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = rows(study, deal=0)
    here = (table["n"] == 4) & (table["prompt"] == "may_exist")
    row = question_table(table[~(here & (table["seed"] == 3))], study).iloc[0]
    assert cells(row, "pairs only_second") == [15, 8]
    none = question_table(table[table["prompt"] == "may_exist"], study).iloc[0]
    assert cells(none, "pairs answer") == [0, "no pairs"]
    assert pd.isna(none["p"])
    monkeypatch.setattr(study.game.evidence, "paired_by", ("deal",))
    table.loc[here & (table["seed"] < 3), "deal"] = 1
    assert cells(question_table(table, study).iloc[0], "pairs both") == [13, 1]


def test_all_questions_are_one_family(study_factory: StudyFactory) -> None:
    questions = [{**ASKED, "name": f"q{n}", "where": {"n": n}} for n in (4, 6)]
    study = study_factory(GRID, questions=questions)
    table = question_table(rows(study), study)
    first, second = (float(mcnemar(0, 3)), float(mcnemar(0, 6)))
    assert table["p"].tolist() == pytest.approx([first, second])
    assert table["p_holm"].tolist() == pytest.approx([max(first, 2 * second), 2 * second])  # second < first
    assert table["p_holm"].tolist() == pytest.approx(holm([first, second]).tolist())
    without = study_factory(GRID)
    none = question_table(rows(without), without)
    assert (len(none), list(none)) == (0, list(table))


def test_answers_in_words(study_factory: StudyFactory) -> None:
    grid = {"n": 4, "prompt": ["may_exist", "none_exist"], "seeds": 100}
    for only_first, only_second, smallest, answer in (
        (0, 30, 0.15, "differs"),
        (2, 2, 0.15, "no difference of 0.15 or more"),
        (2, 2, 0.01, "open"),
        (20, 30, 0.15, "open"),
        (0, 10, 0.3, "differs, by less than 0.3"),
    ):
        study = study_factory(grid, questions=[{**ASKED, "smallest": smallest}])
        same = "1" * (100 - only_first - only_second)
        won = ("1" * only_first + "0" * only_second + same, "0" * only_first + "1" * only_second + same)
        assert question_table(rows(study, {4: won}), study)["answer"].tolist() == [answer]


def test_an_answer_says_what_no_game_could_have_shown(study_factory: StudyFactory) -> None:
    grid = {"n": 4, "prompt": ["may_exist", "none_exist"], "seeds": 20}
    questions = [{**ASKED, "over": []}, {**ASKED, "over": [], "name": "share", "outcome": "final_honest_share"}]
    study = study_factory(grid, questions=[{**each, "smallest": 0.15} for each in questions])
    table = rows(study, {4: ("1" + "0" * 19, "0" * 20)}, final_honest_share=0.375)
    rate, share = question_table(table, study)["note"]
    assert "starts at 5%: a fall of 15 points could not have been seen" in rate
    assert "starts at 37.5%: a fall of 15 points" in share  # one of four agents has its own value at least
    assert "rise" not in rate + share
    fell = rows(study, {4: ("1" * 20, "0" * 20)}).assign(seed=0).drop_duplicates(["prompt"])
    assert "rise" not in question_table(fell, study)["note"][0]  # of one pair, which fell


def test_each_side_has_limits_of_its_own(study: Study, study_factory: StudyFactory) -> None:
    of_one = study_factory(GRID | {"n": 4}, questions=[{**ASKED, "over": []}])
    row = question_table(rows(of_one), of_one).iloc[0]  # 3 and 6 of 8
    assert cells(row, "low_from high_from low_to high_to") == pytest.approx(
        [*wilson_interval(3, 8), *wilson_interval(6, 8)]
    )
    pooled = question_table(rows(study), study).iloc[0]  # over seeds, which strata share: 8, not 16
    assert cells(pooled, "low_from high_from") == pytest.approx(wilson_interval(2, 8))
    number = {**ASKED, "outcome": "rounds", "smallest": 1.0}
    of_numbers = study_factory(GRID, questions=[number])
    table = rows(of_numbers).assign(rounds=lambda table: table["seed"].astype(float))
    row = question_table(table, of_numbers).iloc[0]
    mean = mean_interval(np.arange(8.0))
    assert cells(row, "low_to high_to") == pytest.approx([mean.low, mean.high])
    alike = question_table(table.assign(rounds=3.0), of_numbers).iloc[0]
    assert np.isnan(cells(alike, "low_from high_to")).all()


def talking(study_factory: StudyFactory, *questions: dict[str, Any], seeds: int) -> Study:
    """Return a study of cheap talk that asks these questions, each by the share of stags unless it says otherwise."""
    grid = {"model": "grim_trigger", "n": 4, "prompt": "plain", "vary": {"cheap_talk": [False, True]}, "seeds": seeds}
    asked = {"outcome": "stag_share", "compare": "cheap_talk"}
    return study_factory(grid, game="stag_hunt", questions=[{**asked, **question} for question in questions])


def test_quantities_are_compared_as_contrasts_compare_them(study_factory: StudyFactory) -> None:
    study = talking(study_factory, {"name": "talk", "smallest": 0.1}, seeds=6)
    shares = {False: [0.1, 0.4, 0.3, 0.6, np.nan, 0.2], True: [0.3, 0.5, 0.7, 0.9, 1.0, 0.4]}
    played = [(s.condition.axes, s.seed) for s in study.simulations()]
    table = pd.DataFrame(
        {**axes, "seed": seed, "outcome": "cooperation", "stag_share": shares[str(axes["cheap_talk"]) == "true"][seed]}
        for axes, seed in played
    )
    row = question_table(table, study).iloc[0]
    contrasts = contrast_table(table, study.axes, study.game)
    same = contrasts[contrasts["what"] == "stag_share"].iloc[0]
    assert row["pairs"] == same["pairs"] == 5  # a simulation without the number is in no pair
    assert [row["difference"], same["difference"]] == pytest.approx([0.24, 0.24])
    x, y = (np.delete(shares[value], 4) for value in (False, True))
    assert cells(row, "low high p") == cells(same, "low high p") == list(paired_mean(x, y))
    assert pd.isna(row["only_first"])


def test_shares_that_are_all_equal_rule_out_a_difference(study_factory: StudyFactory) -> None:
    questions = [
        {"name": "talk", "smallest": 0.2},
        {"name": "less", "smallest": 0.16},
        {"name": "pay", "outcome": "honest_payoff", "smallest": 0.2},
    ]
    study = talking(study_factory, *questions, seeds=20)
    table = question_table(table_of(study, bool, stag_share=1.0, honest_payoff=5.0), study)
    # 1.96^2 / (20 + 1.96^2) = 0.161, which Tango's interval of 0 of 20 discordant pairs has, too.
    assert cells(table.iloc[0], "low high") == pytest.approx([-0.16113, 0.16113], abs=1e-5)
    assert table["answer"].tolist() == ["no difference of 0.2 or more", "open", SAME]
    assert table["p"].tolist() == [1, 1, 1]


def test_a_difference_of_shares_is_at_most_1(study_factory: StudyFactory) -> None:
    study = talking(study_factory, {"name": "talk", "smallest": 0.2}, seeds=2)
    played = table_of(study, bool)
    talk = (played["cheap_talk"].astype(str) == "true").to_numpy(float)
    shares = np.abs(talk - 0.1 * played["seed"].to_numpy())
    row = question_table(played.assign(stag_share=shares), study).iloc[0]
    assert cells(row, "difference high") == pytest.approx([0.9, 1])


@pytest.mark.promise("A trend along an axis of numbers is one question, by the line of each seed.")
def test_a_trend_is_by_the_line_of_each_seed(study_factory: StudyFactory) -> None:
    trend = {"name": "b", "outcome": "valid_consensus", "trend": "b", "smallest": 0.2}
    grid = {"model": "majority", "n": 6, "b": [0, 1, 2], "byzantine": "random", "prompt": "may_exist", "seeds": 4}
    study = study_factory(grid, questions=[trend])
    [comparison] = study.comparisons
    assert [[condition.axes["b"] for condition in each] for each in comparison.between] == [[0, 1, 2]]
    won = {0: "1111", 1: "1001", 2: "0001"}
    table = table_of(study, lambda row: won[row["b"]][row["seed"]] == "1")
    row = question_table(table, study).iloc[0]
    # Lines of 1, 1, 0; of 1, 0, 0; of 1, 0, 0; of 1, 1, 1.
    assert cells(row, "from to pairs test") == ["0", "2", 4, "t of lines"]
    assert cells(row, "value_from value_to difference") == pytest.approx([23 / 24, 5 / 24, -0.75])
    assert row["p"] == pytest.approx(scipy.stats.ttest_1samp([-1, -1, -1, 0], 0).pvalue)
    # A seed that one of the conditions has not has no line.
    assert question_table(table[(table["b"] != 1) | (table["seed"] > 0)], study).iloc[0]["pairs"] == 3
    for change, said in (
        ({"trend": "prompt"}, "no numbers"),
        ({"where": {"b": [0, 1]}}, "a trend needs three"),
        ({"compare": "b"}, "remove"),
    ):
        with pytest.raises(ParleyError, match=said):
            study_factory(grid, questions=[{**trend, **change}])


SOON = {"name": "soon", "outcome": {"time_to": "valid_consensus"}, "compare": "prompt", "smallest": 2}


@pytest.mark.promise("How soon games end in one way is asked with a log-rank test: other ends and deadlines never do.")
def test_a_stop_without_consensus_is_not_sooner(study_factory: StudyFactory) -> None:
    grid = {"n": 4, "prompt": ["may_exist", "none_exist"], "seeds": 20}
    study = study_factory(
        grid, parameters={"max_rounds": 9}, questions=[SOON, {**SOON, "name": "rounds", "outcome": "rounds"}]
    )
    table = rows(study, {4: ("1" * 20, "1" * 10 + "0" * 10)}, finished_early=True)
    # With the second prompt half of the games stop in round 2, and agree on nothing valid.
    stops = table["outcome"] == "no_consensus"
    soon, mean = question_table(table.assign(rounds=np.where(stops, 2, 4 + table["seed"] % 2)), study).to_dict(
        "records"
    )
    assert (soon["difference"] > 0, mean["difference"] < 0) == (True, True)
    assert cells(soon, "test answer only_first only_second both") == ["paired log-rank", "differs", 10, 0, 10]
    assert soon["value_to"] == soon["value_from"] / 2 + 5  # "never" is round 10
    assert "100% of the first games end so, and 50%" in soon["note"]
    late = question_table(table.assign(rounds=9, finished_early=False), study).iloc[0]
    assert cells(late, "value_from value_to answer") == [10, 10, "no difference of 2 or more"]
    trend = {"compare": None, "trend": "n", "over": ["prompt"]}
    for change in (trend, {"expected": [0.1, 0.2]}, {"outcome": {"time_to": "rounds"}}):
        with pytest.raises(ParleyError, match=r"time|unknown outcome"):
            study_factory(grid | {"n": [4, 5, 6]}, questions=[{**SOON, "over": ["n"], **change}])


GRIDS = [
    {"model": "solver", "n": None, "honest": 3, "b": 0, "prompt": "improve", "vary": {"turns": [1]}},
    {"model": "solver", "n": None, "honest": 7, "b": 0, "prompt": "improve", "vary": {"turns": [0]}},
]
FIRST, LAST = "first_majority_correct_honest", "last_majority_correct_honest"
# By n and seed, whether the first majority was right, and the last.
RIGHT = {3: ("1000000000", "1111111100"), 7: ("1111000000", "1111000000")}


def test_two_outcomes_of_the_same_simulations_are_paired_by_simulation(study_factory: StudyFactory) -> None:
    questions = [
        {"name": "turn", "outcomes": [FIRST, LAST], "where": {"n": 3}, "smallest": 0.2},
        {"name": "alone", "outcomes": [FIRST, LAST], "where": {"n": 7}, "smallest": 0.2},
    ]
    parameters = {"problems": "arithmetic"}
    study = study_factory(*GRIDS, game="deliberation", parameters=parameters, seeds=10, questions=questions)
    played = []
    for simulation in study.simulations():
        axes, seed = simulation.condition.axes, simulation.seed
        first, last = (flags[seed] == "1" for flags in RIGHT[int(axes["n"])])
        answer = None if (axes["n"], seed) == (3, 9) else last
        played.append({**axes, "seed": seed, "outcome": "agreed", FIRST: first, LAST: answer})
    table = question_table(pd.DataFrame(played), study)
    turn, alone = table.to_dict("records")
    counts = "pairs only_first only_second both"
    # Seed 9 has no last answer. Of the other nine: 0 in both, 1 to 7 only in the last, 8 in none.
    assert cells(turn, counts) == [9, 0, 7, 1]
    assert cells(turn, "low high") == pytest.approx([float(x) for x in paired_difference(1, 0, 7, 1)])
    assert cells(turn, "what axis from to") == [f"{FIRST} -> {LAST}", "", "", ""]
    assert cells(alone, counts) == [10, 0, 0, 4]
    assert table["p_holm"].tolist() == pytest.approx([2 * float(mcnemar(0, 7)), 1])
    assert table["answer"].tolist()[0] == "differs"


def test_what_contradicts_an_interval_is_explained(study_factory: StudyFactory) -> None:
    grid = {"n": 4, "prompt": ["may_exist", "none_exist"], "seeds": 40}
    asked = {**ASKED, "over": []}
    others = [
        {**asked, "name": f"q{place}", "outcome": "premature_stop", "smallest": 0.5 + place / 10} for place in (0, 1)
    ]
    study = study_factory(grid, questions=[asked, *others])
    row = question_table(rows(study, {4: ("0" * 40, "1" * 4 + "0" * 36)}), study).iloc[0]
    # Four of 40 that all differ alike: p 0.046 by itself.
    assert row["answer"] == "no difference of 0.3 or more"
    row = question_table(rows(study, {4: ("1" * 9 + "0" * 31, "0" * 20 + "1" * 20)}), study).iloc[0]
    assert (row["low"] > 0, row["p_holm"] > 0.05, row["answer"]) == (True, True, "open")
    assert "excludes 0 by itself" in row["note"]
    assert row["together_low"] < 0 < row["together_high"]


@pytest.mark.parametrize(("seeds", "size"), [(5, 0.08), (10, 0.06)])
def test_seeds_that_move_all_strata_alike_leave_the_size_and_the_claims_of_equivalence(
    seeds: int, size: float
) -> None:
    random, strata, times = np.random.default_rng(5), 8, 1000
    ps, alike, unclustered = [], [], []
    for _ in range(times):
        # Half of the seeds favor the first in all strata, half the second.
        favored = np.tile(random.random(seeds) < 0.5, strata)
        x, y = (random.random(seeds * strata) < np.where(favored == side, 0.8, 0.2) for side in (True, False))
        pairs = Pairs(x.astype(float), y.astype(float), np.tile(np.arange(seeds), strata))
        means, number = pairs.by_seed
        ps.append(clustered_difference(*paired_rates(pairs.first, pairs.second, pairs.seeds))[2])
        unclustered.append(mcnemar(*pairs.counts[1:3]) < 0.05)
        # The second is 0.3 more often now: that it is not is said falsely.
        alike.append(p_below(np.minimum(means + 0.3, 1), 0.3, 1.0, number) < 0.025)
    assert np.mean(unclustered) > 0.2
    assert np.mean(np.array(ps) < 0.05) < size
    assert np.mean(np.array(ps) < 0.05 / 6) < 0.0125  # the first step of Holm's correction: t rejects in 3% of five
    assert np.mean(alike) < 0.03


@pytest.mark.promise("A question over strata weighs them alike, however many seeds each has.")
def test_strata_of_unequal_seeds_weigh_the_same(study_factory: StudyFactory) -> None:
    asked = {"name": "all", "outcome": "valid_consensus", "compare": "prompt", "over": ["n"], "smallest": 0.1}
    prompts = ["may_exist", "none_exist"]
    grids = [{"n": n, "seeds": seeds, "prompt": prompts} for n, seeds in ((3, 60), (4, 12))]
    study = study_factory(*grids, questions=[asked])
    # In the many games of three agents nothing differs, in the few of four all do but two.
    table = table_of(study, lambda row: row["n"] == 4 and row["prompt"] == "may_exist" and row["seed"] > 1)
    [row] = question_table(table, study).to_dict("records")
    assert row["difference"] == pytest.approx(-10 / 24)
    assert row["together_low"] < -10 / 24 < row["together_high"]


@pytest.mark.promise("Where over 5% of the pairs are missing, an answer has its bounds at worst beside it.")
def test_missing_pairs_bound_an_answer_at_worst(study_factory: StudyFactory) -> None:
    study = study_factory({**GRID, "n": 4, "seeds": 40}, questions=[{**ASKED, "over": []}])
    won = {4: ("1" * 20 + "0" * 20, "1" * 40)}
    table = rows(study, won)
    for gone, said in ((0, False), (2, False), (4, True)):
        [row] = question_table(table[table["seed"] >= gone], study).to_dict("records")
        assert ("pairs are missing" in row["note"]) is said
    # 20 of 36 known pairs differ; the four others could all go down or all go up.
    assert "4 of 40 pairs are missing: with them it could be +40 to +60 points" in row["note"]


def test_bounds_at_worst_are_of_each_stratum_and_a_question_without_games_counts(study_factory: StudyFactory) -> None:
    questions = [ASKED, {**ASKED, "name": "other", "smallest": 0.2}]
    study = study_factory({**GRID, "seeds": 12}, questions=questions)
    won = {4: ("0" * 12, "0" * 12), 6: ("1" * 12, "0" * 12)}
    table = rows(study, won)
    here = table[(table["n"] == 4) | (table["seed"] < 2)]  # of six agents two pairs, which fall
    row, _ = question_table(here, study).to_dict("records")
    assert (row["worst_low"], row["worst_high"]) == pytest.approx((-0.5, 1 / 3))
    assert row["p_holm"] == pytest.approx(min(1, 2 * row["p"]), nan_ok=True)
    alone = study_factory(
        {**GRID, "n": 4},
        {**GRID, "n": 6},
        questions=[{**ASKED, "where": {"n": n}, "over": [], "name": f"at-{n}"} for n in (4, 6)],
    )
    both = question_table(rows(alone), alone)
    gone = question_table(rows(alone).query("n == 4"), alone)
    assert np.isnan(gone["p"][1])
    assert gone["p_holm"][0] == pytest.approx(min(1, 2 * gone["p"][0]))
    assert both["p"][0] == gone["p"][0]


@pytest.mark.parametrize(("sizes", "most"), [((40, 10), 0.085), ((100, 5), 0.085), ((60, 1), 0.0)])
def test_numbers_over_unequal_strata_keep_their_size(sizes: tuple[int, int], most: float) -> None:
    random, times, rejected = np.random.default_rng(7), 400, 0
    seeds, strata = np.concatenate([np.arange(size) for size in sizes]), np.repeat([0, 1], sizes)
    for _ in range(times):
        y = random.normal(size=len(seeds)) + np.where(strata == 0, 0.0, 0.0)
        pair = SamplePair({}, np.zeros(len(y)), y, "number", clusters=Clusters(seeds, strata))
        [row] = compare([pair]).to_dict("records")
        assert row["difference"] == pytest.approx(np.mean([y[strata == each].mean() for each in (0, 1)]))
        rejected += row["p"] < 0.05
    assert rejected / times <= most
