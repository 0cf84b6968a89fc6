"""The table of questions, from simulations written out by hand."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy

from parley.analysis.contrasts import contrast_table
from parley.analysis.questions import Pairs, question_table
from parley.analysis.simulations import simulation_row
from parley.analysis.stats import benjamini_hochberg, holm, mcnemar, paired_difference, paired_mean
from parley.play.simulate import simulate_shard
from parley.play.usable import read_records
from parley.study import Study
from parley.study.condition import SCRIPTED
from support.studies import StudyFactory

ASKED = {"name": "prompt", "outcome": "valid_consensus", "compare": "prompt", "over": ["n"], "smallest": 0.3}
GRID = {"n": [4, 6], "prompt": ["may_exist", "none_exist"], "seeds": 8}
# By n and seed, whether there was a valid consensus: with the first prompt, with the second.
WON = {4: ("11100000", "11111100"), 6: ("10000000", "10111111")}


def rows(study: Study, won: dict[int, tuple[str, str]], **columns: Any) -> pd.DataFrame:
    """The table of simulations."""
    table = []
    for simulation in study.simulations():
        axes = simulation.condition.axes
        flags = won[int(axes["n"])][axes["prompt"] == "none_exist"]
        outcome = "valid_consensus" if flags[simulation.seed] == "1" else "no_consensus"
        table.append({**axes, "seed": simulation.seed, "outcome": outcome})
    return pd.DataFrame(table).assign(**columns)


def test_pairs_of_all_strata_are_pooled(study_factory: StudyFactory) -> None:
    study = study_factory(GRID, questions=[ASKED])
    row = question_table(rows(study, WON), study).iloc[0]
    # n = 4: seeds 3, 4, 5 only with the second; n = 6: seeds 2 to 7.
    assert (row["strata"], row["pairs"]) == (2, 16)
    assert (row["only_first"], row["only_second"], row["both"]) == (0, 9, 4)
    assert row["value_from"] == 4 / 16
    assert row["value_to"] == 13 / 16
    assert row["difference"] == pytest.approx(9 / 16)
    assert (row["low"], row["high"]) == pytest.approx([float(x) for x in paired_difference(4, 0, 9, 3)])
    assert row["p"] == row["p_holm"] == float(mcnemar(0, 9))
    assert row["test"] == "McNemar"
    assert row["answer"] == "differs"


def test_only_seeds_that_both_have_are_pairs(study_factory: StudyFactory) -> None:
    study = study_factory(GRID, questions=[ASKED])
    table = rows(study, WON)
    lacking = table[~((table["n"] == 4) & (table["prompt"] == "may_exist") & (table["seed"] == 3))]
    row = question_table(lacking, study).iloc[0]
    assert (row["pairs"], row["only_second"]) == (15, 8)


def test_all_questions_are_one_family(study_factory: StudyFactory) -> None:
    questions = [{**ASKED, "name": f"q{n}", "where": {"n": n}} for n in (4, 6)]
    study = study_factory(GRID, questions=questions)
    table = question_table(rows(study, WON), study)
    first, second = (float(mcnemar(0, 3)), float(mcnemar(0, 6)))
    assert table["p"].tolist() == pytest.approx([first, second])
    assert table["p_holm"].tolist() == pytest.approx([max(first, 2 * second), 2 * second])  # second < first
    assert table["p_holm"].tolist() == pytest.approx(holm([first, second]).tolist())


@pytest.mark.parametrize(
    ("only_first", "only_second", "smallest", "answer"),
    [
        (0, 30, 0.15, "differs"),
        (2, 2, 0.15, "no difference of 0.15 or more"),
        (2, 2, 0.01, "open"),
        (20, 30, 0.15, "open"),
        (0, 10, 0.3, "differs, by less than 0.3"),
    ],
)
def test_answers_in_words(
    study_factory: StudyFactory, only_first: int, only_second: int, smallest: float, answer: str
) -> None:
    grid = {"n": 4, "prompt": ["may_exist", "none_exist"], "seeds": 100}
    study = study_factory(grid, questions=[{**ASKED, "smallest": smallest}])
    same = 100 - only_first - only_second
    won = {4: ("1" * only_first + "0" * only_second + "1" * same, "0" * only_first + "1" * only_second + "1" * same)}
    assert question_table(rows(study, won), study)["answer"].tolist() == [answer]


def test_quantities_are_compared_as_contrasts_compare_them(study_factory: StudyFactory) -> None:
    grid = {"model": "grim_trigger", "n": 4, "prompt": "plain", "vary": {"cheap_talk": [False, True]}, "seeds": 6}
    asked = {"name": "talk", "outcome": "stag_share", "compare": "cheap_talk", "smallest": 0.1}
    study = study_factory(grid, game="stag_hunt", questions=[asked])
    shares = {"false": [0.1, 0.4, 0.3, 0.6, np.nan, 0.2], "true": [0.3, 0.5, 0.7, 0.9, 1.0, 0.4]}
    table = pd.DataFrame(
        {
            **s.condition.axes,
            "seed": s.seed,
            "outcome": "cooperation",
            "stag_share": shares[str(s.condition.axes["cheap_talk"])][s.seed],
        }
        for s in study.simulations()
    )
    row = question_table(table, study).iloc[0]
    contrasts = contrast_table(table, study.axes, study.game)
    same = contrasts[contrasts["what"] == "stag_share"].iloc[0]
    assert row["pairs"] == same["pairs"] == 5  # a simulation without the number is in no pair
    assert row["difference"] == pytest.approx(same["difference"]) == pytest.approx(0.24)
    assert (row["low"], row["high"]) == pytest.approx((same["low"], same["high"]))
    x, y = (np.delete(shares[value], 4) for value in ("false", "true"))
    assert row["p"] == paired_mean(x, y)[2]
    assert pd.isna(row["only_first"])


def test_shares_that_are_all_equal_rule_out_a_difference(study_factory: StudyFactory) -> None:
    grid = {"model": "grim_trigger", "n": 4, "prompt": "plain", "vary": {"cheap_talk": [False, True]}, "seeds": 20}
    asked = {"compare": "cheap_talk"}
    questions = [
        {**asked, "name": "talk", "outcome": "stag_share", "smallest": 0.2},
        {**asked, "name": "less", "outcome": "stag_share", "smallest": 0.16},
        {**asked, "name": "pay", "outcome": "honest_payoff", "smallest": 0.2},
    ]
    study = study_factory(grid, game="stag_hunt", questions=questions)
    played = [
        {**s.condition.axes, "seed": s.seed, "outcome": "cooperation", "stag_share": 1.0, "honest_payoff": 5.0}
        for s in study.simulations()
    ]
    table = question_table(pd.DataFrame(played), study).set_index("question")
    # 1.96^2 / (20 + 1.96^2) = 0.161, which Tango's interval of 0 of 20 discordant pairs has, too.
    assert (table.loc["talk", "low"], table.loc["talk", "high"]) == pytest.approx((-0.16113, 0.16113), abs=1e-5)
    assert table["answer"].tolist() == ["no difference of 0.2 or more", "open", "open: all pairs differ by the same"]
    assert table["p"].tolist() == [1, 1, 1]


GRIDS = [
    {"model": "solver", "n": None, "honest": 3, "b": 0, "prompt": "improve", "vary": {"turns": [1]}},
    {"model": "solver", "n": None, "honest": 7, "b": 0, "prompt": "improve", "vary": {"turns": [0]}},
]
FIRST, LAST = "first_majority_correct_honest", "last_majority_correct_honest"
BETWEEN = {
    "first": {"outcome": FIRST, "where": {"n": 7}},
    "second": {"outcome": LAST, "where": {"n": 3}},
}
# By n and seed, whether the first majority was right, and the last.
RIGHT = {3: ("1000000000", "1111111100"), 7: ("1111000000", "1111000000")}


def deliberations(study: Study) -> pd.DataFrame:
    """The table of simulations, of which one has no answer."""
    table = []
    for simulation in study.simulations():
        axes = simulation.condition.axes
        first, last = (flags[simulation.seed] == "1" for flags in RIGHT[int(axes["n"])])
        row = {**axes, "seed": simulation.seed, "outcome": "agreed", FIRST: first, LAST: last}
        table.append(row | ({LAST: None} if (axes["n"], simulation.seed) == (3, 9) else {}))
    return pd.DataFrame(table)


def test_two_outcomes_of_the_same_simulations_and_two_sides_are_one_family(study_factory: StudyFactory) -> None:
    questions = [
        {"name": "turn", "outcomes": [FIRST, LAST], "where": {"n": 3}, "smallest": 0.2},
        {"name": "compute", "compare": BETWEEN, "smallest": 0.2},
    ]
    study = study_factory(
        *GRIDS, game="deliberation", parameters={"problems": "arithmetic"}, seeds=10, questions=questions
    )
    table = question_table(deliberations(study), study)
    turn, compute = table.to_dict("records")
    # Seed 9 has no last answer. Of the other nine: 0 in both, 1 to 7 only in the last, 8 in none.
    assert (turn["pairs"], turn["only_first"], turn["only_second"], turn["both"]) == (9, 0, 7, 1)
    assert (turn["low"], turn["high"]) == pytest.approx([float(x) for x in paired_difference(1, 0, 7, 1)])
    assert (turn["what"], turn["axis"], turn["from"], turn["to"]) == (f"{FIRST} -> {LAST}", "", "", "")
    # Seven first answers against the last of three: 0 to 3 in both, 4 to 7 only in the last of three.
    assert (compute["pairs"], compute["only_first"], compute["only_second"], compute["both"]) == (9, 0, 4, 4)
    assert (compute["value_from"], compute["value_to"]) == (pytest.approx(4 / 9), pytest.approx(8 / 9))
    assert (compute["axis"], compute["from"], compute["to"]) == ("n, turns", "n=7, turns=0", "n=3, turns=1")
    ps = [float(mcnemar(0, 7)), float(mcnemar(0, 4))]
    assert table["p"].tolist() == pytest.approx(ps)
    assert table["p_holm"].tolist() == pytest.approx([2 * ps[0], max(ps[1], 2 * ps[0])])
    assert table["answer"].tolist() == ["differs", "differs"]
    assert turn["kind"] == compute["kind"] == "indicator"


def test_two_quantities_of_the_same_simulations_are_compared_by_t(study_factory: StudyFactory) -> None:
    shares = ["final_participation", "final_confidence"]
    asked = {"name": "sure", "outcomes": shares, "where": {"n": 3}, "smallest": 0.1}
    study = study_factory(
        *GRIDS, game="deliberation", parameters={"problems": "arithmetic"}, seeds=5, questions=[asked]
    )
    x, y = np.array([0.3, 0.5, 0.6, 0.9, np.nan]), np.array([0.4, 0.4, 0.9, 1.0, 0.2])
    table = deliberations(study)
    row = question_table(table.assign(**{shares[0]: x[table["seed"]], shares[1]: y[table["seed"]]}), study).iloc[0]
    assert (row["pairs"], row["test"]) == (4, "t")
    assert row["p"] == pytest.approx(scipy.stats.ttest_rel(y[:4], x[:4]).pvalue)
    assert row["difference"] == pytest.approx(0.1)
    assert pd.isna(row["only_first"])


def test_wary_players_are_a_control_of_the_question_about_the_prompt(study_factory: StudyFactory) -> None:
    grid = {"model": ["wary", {"name": "wary", "vote": "stop"}], "n": 4, "prompt": ["may_exist", "none_exist"]}
    asked = {"compare": "prompt", "over": "model", "smallest": 0.2}
    questions = [
        {**asked, "name": "mention", "outcome": "valid_consensus"},
        {**asked, "name": "stop", "outcome": "premature_stop", "where": {"model": "wary-vote-stop"}},
        {**asked, "name": "rounds", "outcome": "rounds", "where": {"model": "wary"}},
    ]
    study = study_factory(grid, parameters={"max_rounds": 6}, seeds=12, questions=questions)
    simulate_shard(study, SCRIPTED, 0)
    records = read_records(study)
    played = [simulation_row(s, summary) for s, summary in zip(records.simulations, records.summaries, strict=True)]
    mention, stop, rounds = question_table(pd.DataFrame(played), study).to_dict("records")
    # Told that some may be Byzantine, none agrees; told that none is, all agree once they know each other's values.
    assert (mention["pairs"], mention["only_first"], mention["only_second"]) == (24, 0, 24)
    assert (stop["only_first"], stop["only_second"], stop["answer"]) == (12, 0, "differs")
    assert (rounds["value_from"], rounds["value_to"], rounds["answer"]) == (6, 2, "open: all pairs differ by the same")


def test_without_questions_the_table_is_empty_and_has_its_columns(study_factory: StudyFactory) -> None:
    study = study_factory(GRID)
    table = question_table(rows(study, WON), study)
    assert table.empty
    assert {"question", "p_holm", "answer"} <= set(table)


def test_without_any_pair_nothing_is_answered(study_factory: StudyFactory) -> None:
    study = study_factory(GRID, questions=[ASKED])
    table = rows(study, WON)
    row = question_table(table[table["prompt"] == "may_exist"], study).iloc[0]
    assert (row["pairs"], row["answer"]) == (0, "no pairs")
    assert pd.isna(row["p"])


def test_contrasts_have_the_share_of_false_discoveries_over_all_their_rows(study_factory: StudyFactory) -> None:
    study = study_factory(GRID)
    table = contrast_table(rows(study, WON), study.axes, study.game)
    p = table["p"].to_numpy(dtype=float)
    m, order = len(p), np.argsort(p)
    by_hand = np.empty(m)
    for rank, place in enumerate(order, 1):  # the least m p / i of this and all larger p
        by_hand[place] = min(1.0, min(m * p[order[i - 1]] / i for i in range(rank, m + 1)))
    assert m > 4
    assert table["p_bh"].to_numpy() == pytest.approx(by_hand)
    assert list(table)[-3:] == ["p_holm", "p_bh", "noise"]


def test_benjamini_and_hochbergs_own_example() -> None:
    # Their section 3.2: of 15 p values the four smallest are below 0.05 in this way.
    p = [
        0.0001,
        0.0004,
        0.0019,
        0.0095,
        0.0201,
        0.0278,
        0.0298,
        0.0344,
        0.0459,
        0.3240,
        0.4262,
        0.5719,
        0.6528,
        0.7590,
        1,
    ]
    adjusted = benjamini_hochberg([*p, np.nan])
    assert (adjusted[:-1] < 0.05).sum() == 4
    assert np.isnan(adjusted[-1])
    assert adjusted[3] == pytest.approx(15 * 0.0095 / 4)
    assert np.isnan(benjamini_hochberg([np.nan])).all()


def test_what_is_small_by_itself_alone_is_open(study_factory: StudyFactory) -> None:
    grid = {"n": 4, "prompt": ["may_exist", "none_exist"], "seeds": 8}
    study = study_factory(
        grid, questions=[{**ASKED, "name": f"q{number}", "smallest": 0.2 - number / 100} for number in range(8)]
    )
    table = question_table(rows(study, {4: ("00000001", "11111111")}), study)
    assert (table["p"] < 0.02).all()
    assert (table["p_holm"] > 0.05).all()
    assert set(table["answer"]) == {"open"}


def test_pairs_share_what_the_game_pairs_by(study_factory: StudyFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    study = study_factory(GRID, questions=[ASKED])
    monkeypatch.setattr(study.game.evidence, "paired_by", ("deal",))
    table = rows(study, WON, deal=0)
    table.loc[(table["n"] == 4) & (table["prompt"] == "may_exist") & (table["seed"] < 3), "deal"] = 1
    row = question_table(table, study).iloc[0]
    assert (row["pairs"], row["both"]) == (13, 1)


def test_strata_of_one_seed_need_not_be_independent(study_factory: StudyFactory) -> None:
    study = study_factory(GRID, questions=[ASKED])
    row = question_table(rows(study, WON), study).iloc[0]
    # By seed, over n = 4 and 6: seeds 2, 6 and 7 gain once, 3, 4 and 5 twice, 0 and 1 never.
    sums = [0, 0, 1, 2, 2, 2, 1, 1]
    assert row["p_by_seed"] == pytest.approx(scipy.stats.ttest_1samp(sums, 0).pvalue)


def test_a_seed_that_moves_all_strata_alike_makes_the_pooled_p_too_small_but_not_that_by_seed() -> None:
    random, strata, seeds = np.random.default_rng(5), 6, 40
    small: dict[str, list[bool]] = {"pooled": [], "by_seed": []}
    for _ in range(400):
        # No difference on the whole: half of the seeds favor the first in all strata, half the second.
        favored = np.tile(random.random(seeds) < 0.5, strata)
        x, y = (random.random(seeds * strata) < np.where(favored == side, 0.8, 0.2) for side in (True, False))
        pairs = Pairs(x.astype(float), y.astype(float), np.tile(np.arange(seeds), strata))
        _, first, second, _ = pairs.counts
        small["pooled"].append(bool(mcnemar(first, second) < 0.05))
        small["by_seed"].append(pairs.p_by_seed < 0.05)
    assert np.mean(small["pooled"]) > 0.2
    assert 0.03 < np.mean(small["by_seed"]) < 0.08
