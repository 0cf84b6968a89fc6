"""What `parley plan` assumes, and what simulations take by records that are written out here."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from parley.analysis.costs import ALIKE, PER_AGENT, SAME, SCRIPTED, UNKNOWN, Costs
from parley.analysis.planning import level, plan_table, planned, total_cost, width_table
from parley.analysis.power import Rates, power_of_rates
from parley.analysis.stats import mcnemar, wilson_interval
from parley.errors import UsageError
from parley.play.record import Summary
from parley.play.simulate import simulate_shard
from parley.play.usable import read_own, read_records
from parley.study import Study
from parley.study.condition import SCRIPTED as ENGINE
from support.studies import StudyFactory

ASKED = {"name": "prompt", "outcome": "valid_consensus", "compare": "prompt", "over": ["n"], "smallest": 0.2}
GRID = {"n": [4, 6], "prompt": ["may_exist", "none_exist"], "seeds": 30}
PRICED = {
    "tiny": {
        "source": {"repo": "owner/tiny", "revision": "a" * 40},
        "gpus": 2,
        "price": {"prompt": 10, "completion": 30},
    }
}


def summary(prompt: int, completion: int, start: int, end: int, device: str = "NVIDIA H100, 550") -> Summary:
    told = {"prompt_tokens": prompt, "completion_tokens": completion, "cached_tokens": 0}
    when = [f"2026-01-01T00:{second // 60:02}:{second % 60:02}+00:00" for second in (start, end)]
    made = {"started": when[0], "ended": when[1], "engines": {"tiny": {"device": device}}}
    return Summary({}, {}, told, "", made)


def test_without_records_rates_are_about_a_half_and_pairs_independent(study_factory: StudyFactory) -> None:
    study = study_factory(GRID, questions=[ASKED])
    (plan,) = planned(study, [])
    assert (plan.first, plan.difference, plan.correlation, plan.pairs) == (0.4, 0.2, 0.0, 0)
    assert plan.basis == "rates about one half, the hardest; pairs independent: no pilot"
    row = plan_table(study, [plan], Costs([])).iloc[0]
    assert row["power"] == row["power_alone"] == pytest.approx(power_of_rates(60, Rates(0.4, 0.6), 0.05))
    assert row["power_one_stratum"] == pytest.approx(power_of_rates(30, Rates(0.4, 0.6), 0.05))
    assert power_of_rates(2 * row["seeds_80"], Rates(0.4, 0.6), 0.05) >= 0.8
    assert power_of_rates(2 * row["seeds_80"] - 2, Rates(0.4, 0.6), 0.05) < 0.8
    half = row["smallest_80"] / 2
    assert power_of_rates(60, Rates(0.5 - half, 0.5 + half), 0.05) == pytest.approx(0.8, abs=0.01)
    assert (row["strata"], row["seeds"], row["pairs"], row["simulations"]) == (2, 30, 60, 120)


def test_two_outcomes_and_two_sides_are_planned(study_factory: StudyFactory) -> None:
    first, last = "first_majority_correct_honest", "last_majority_correct_honest"
    sides = {"first": {"outcome": first, "where": {"n": 7}}, "second": {"outcome": last, "where": {"n": 3}}}
    questions = [
        {"name": "turn", "outcomes": [first, last], "where": {"n": 3}, "smallest": 0.2, "expected": [0.6, 0.9]},
        {"name": "compute", "compare": sides, "smallest": 0.2, "expected": [0.6, 0.9]},
    ]
    solver = {"model": {"name": "solver", "accuracy": 0.55, "recognize": 1.0}, "n": None, "prompt": "improve"}
    grids = [{**solver, "honest": h, "vary": {"turns": [t]}} for h, t in ((3, 1), (7, 0))]
    study = study_factory(
        *grids, game="deliberation", parameters={"problems": "arithmetic"}, seeds=30, questions=questions
    )
    plans = planned(study, [])
    assert [plan.basis for plan in plans] == [
        "rates as expected; outcomes of one simulation independent: no pilot",
        "rates as expected; pairs independent: no pilot",
    ]
    table = plan_table(study, plans, Costs([]))
    power = power_of_rates(30, Rates(0.6, 0.9), 0.025)
    assert table["power"].tolist() == pytest.approx([power, power])
    assert table["simulations"].tolist() == [30, 60]  # the former needs one condition alone
    assert table["what"].tolist() == [f"{first} -> {last}"] * 2
    assert table["axis"].tolist() == ["", "n, turns"]
    # Records tell how the two outcomes of a simulation go together.
    simulate_shard(study, ENGINE, 0)
    records = read_records(study)
    within = planned(study, list(zip(records.simulations, records.summaries, strict=True)))[0]
    wins = [[s.outcome["metrics"][name] for name in (first, last)] for s in records.summaries]
    three = [won for won, s in zip(wins, records.simulations, strict=True) if s.condition.axes["n"] == 3]
    assert (within.pairs, within.basis) == (30, "rates as expected; correlation of 30 pairs")
    assert within.correlation == pytest.approx(np.corrcoef(np.array(three, dtype=float).T)[0, 1])


def test_two_ways_to_end_never_go_together(study_factory: StudyFactory) -> None:
    ends = {"outcomes": ["valid_consensus", "invalid_consensus"], "smallest": 0.2, "expected": [0.4, 0.6]}
    grid = {"n": 4, "b": 0, "prompt": "may_exist", "model": "majority"}
    study = study_factory(grid, seeds=30, questions=[{"name": "ends", **ends}])
    [plan] = planned(study, [])
    assert plan.basis == "rates as expected; no simulation ends both ways"
    power = plan_table(study, [plan], Costs([]))["power"][0]
    # All 30 are discordant: the sign test of 60% by hand.
    found = [k for k in range(31) if mcnemar(k, 30 - k) < 0.05]
    assert power == pytest.approx(sum(scipy.stats.binom.pmf(k, 30, 0.6) for k in found if k > 15), abs=0.01)


def test_stated_rates_count_and_several_questions_share_the_level(study_factory: StudyFactory) -> None:
    questions = [{**ASKED, "expected": [0.6, 0.8]}, {**ASKED, "name": "other"}]
    study = study_factory(GRID, questions=questions)
    assert level(study) == pytest.approx(0.025)
    first, other = planned(study, [])
    assert (first.first, first.difference) == pytest.approx((0.6, 0.2))
    table = plan_table(study, [first, other], Costs([]))
    assert table["power"][0] == pytest.approx(power_of_rates(60, Rates(0.6, 0.8), 0.025))
    assert table["power_alone"][0] == pytest.approx(power_of_rates(60, Rates(0.6, 0.8), 0.05))
    given, _ = planned(study, [], base=0.9)
    assert (given.first, given.difference) == pytest.approx((0.9, -0.2))


def test_a_pilot_tells_rates_and_correlation(study_factory: StudyFactory) -> None:
    grid = {"model": ["random", "majority"], "n": 3, "seeds": 25}
    asked = {"name": "model", "outcome": "valid_consensus", "compare": "model", "smallest": 0.2}
    study = study_factory(grid, questions=[asked], parameters={"max_rounds": 3})
    simulate_shard(study, ENGINE, 0)
    records = [(s, read_own(s.record(study.name), s)) for s in study.simulations()]
    won = [
        [r.outcome["name"] == "valid_consensus" for s, r in records if s.condition.axes["model"] == m]
        for m in grid["model"]
    ]
    (plan,) = planned(study, records)
    assert plan.pairs == 25
    assert plan.first == pytest.approx(sum(won[0]) / 25)
    assert "25 pairs" in plan.basis
    (few,) = planned(study, [record for record in records if record[0].seed < 19])
    assert few.pairs == 0  # 19 pairs say too little
    assert few.first == 0.4


@pytest.mark.parametrize("smallest", [0.5, 0.6, 0.8, 1.0])
def test_both_rates_are_rates_however_large_the_difference(study_factory: StudyFactory, smallest: float) -> None:
    study = study_factory(GRID, questions=[{**ASKED, "smallest": smallest}])
    (plan,) = planned(study, [])
    assert (plan.first, plan.first + plan.difference) == pytest.approx((0.5 - smallest / 2, 0.5 + smallest / 2))
    row = plan_table(study, [plan], Costs([])).iloc[0]
    assert row["power"] > 0.99
    assert row["seeds_80"] <= 20
    # No other base makes it harder.
    bases = [step / 100 for step in range(101) if step / 100 + smallest <= 1]
    assert row["power"] <= min(power_of_rates(60, Rates(base, base + smallest), 0.05) for base in bases) + 1e-9


def test_a_pilot_whose_rate_leaves_no_room_does_not_tell_it(study_factory: StudyFactory) -> None:
    grid = {"model": ["random", "majority"], "n": 3, "seeds": 25}
    asked = {"name": "model", "outcome": "valid_consensus", "compare": "model", "smallest": 0.9}
    study = study_factory(grid, questions=[asked], parameters={"max_rounds": 3, "value_max": 1})
    simulate_shard(study, ENGINE, 0)
    records = [(s, read_own(s.record(study.name), s)) for s in study.simulations()]
    (plan,) = planned(study, records)
    assert (plan.first, plan.difference) == pytest.approx((0.05, 0.9))
    assert plan.basis.startswith("rates about one half, the hardest, as that of 25 pairs leaves no room;")


@pytest.mark.parametrize(("base", "fits"), [(0.3, True), (0.31, False), (0.5, False), (0.69, False), (0.7, True)])
def test_a_base_that_leaves_no_room_is_refused(study_factory: StudyFactory, base: float, fits: bool) -> None:
    study = study_factory(GRID, questions=[{**ASKED, "smallest": 0.7}])
    if fits:
        (plan,) = planned(study, [], base)
        assert 0 <= plan.first + plan.difference <= 1
        return
    with pytest.raises(UsageError, match=f"--base {base:g}: prompt: .* 0.7 .* at most 0.3 or at least 0.7$"):
        planned(study, [], base)


def test_growing_seeds_are_planned_at_the_least_and_at_the_most(study_factory: StudyFactory) -> None:
    growing = {"from": 10, "by": 5, "to": 40, "until": {"outcome": "valid_consensus", "width": 0.2}}
    study = study_factory({**GRID, "seeds": growing}, questions=[ASKED])
    plans = planned(study, [])
    grown = plan_table(study, plans, Costs([])).iloc[0]
    for number, suffix in ((10, ""), (40, "_most")):
        fixed_study = study_factory({**GRID, "seeds": number}, questions=[ASKED])
        fixed = plan_table(fixed_study, planned(fixed_study, []), Costs([])).iloc[0]
        for name in ("seeds", "pairs", "power", "power_alone", "power_one_stratum", "smallest_80", "simulations"):
            assert grown[f"{name}{suffix}"] == fixed[name] == fixed[f"{name}_most"], (name, number)
    assert grown["power"] < grown["power_most"]
    assert width_table(study).set_index("seeds")["of_the_study"][[10, 25, 40]].tolist() == [True, False, True]


def test_costs_of_growing_seeds_are_told_at_the_most_too(study_factory: StudyFactory) -> None:
    growing = {"from": 10, "by": 5, "to": 40, "until": {"outcome": "valid_consensus", "width": 0.2}}
    study = asking(study_factory, n=4, seeds=growing)
    costs = Costs([(next(study.simulations()), summary(900, 100, 0, 10))])
    assert total_cost(study.conditions, costs)[0].tokens == 2 * 10 * 1000
    assert total_cost(study.conditions, costs, at_most=True)[0].tokens == 2 * 40 * 1000


def test_a_quantity_needs_a_pilot(study_factory: StudyFactory) -> None:
    grid = {"model": "grim_trigger", "n": 4, "prompt": "plain", "vary": {"cheap_talk": [False, True]}, "seeds": 6}
    asked = {"name": "talk", "outcome": "stag_share", "compare": "cheap_talk", "smallest": 0.1}
    study = study_factory(grid, game="stag_hunt", questions=[asked])
    (plan,) = planned(study, [])
    assert plan.power is None
    row = plan_table(study, [plan], Costs([])).iloc[0]
    assert math.isnan(row["power"])
    assert pd.isna(row["seeds_80"])


def test_scripted_agents_take_no_tokens(study_factory: StudyFactory) -> None:
    study = study_factory(GRID)
    total, known = total_cost(study.conditions, Costs([]))
    assert (total.tokens, total.hours, total.gpu_hours, total.money) == (0, 0, 0, 0)
    assert known == {}
    assert Costs([]).of(study.conditions[0])[1] == SCRIPTED


def asking(study_factory: StudyFactory, **changes: Any) -> Study:
    return study_factory(
        {"model": "tiny", "n": [4, 6, 8], "prompt": ["may_exist", "none_exist"], "seeds": 10, **changes}, models=PRICED
    )


def test_what_nobody_measured_is_unknown(study_factory: StudyFactory) -> None:
    study = asking(study_factory)
    cost, source = Costs([]).of(study.conditions[0])
    assert source == UNKNOWN
    assert math.isnan(cost.tokens)
    assert math.isnan(total_cost(study.conditions, Costs([]))[0].money)


def test_costs_are_those_of_the_records_that_come_nearest(study_factory: StudyFactory) -> None:
    study = asking(study_factory)
    four, other_four, six = study.conditions[0], study.conditions[1], study.conditions[2]
    simulations = [s for s in study.simulations() if s.condition is four][:2]
    # Two simulations that overlap, then a pause: the engine was at work for 30 s and gave 30,000 tokens.
    records = [(simulations[0], summary(9_000, 1_000, 0, 20)), (simulations[1], summary(18_000, 2_000, 10, 30))]
    costs = Costs(records)
    cost, source = costs.of(four)
    assert source == SAME
    assert (cost.prompt, cost.completion) == (13_500, 1_500)
    assert cost.hours == pytest.approx(15_000 * 30 / 30_000 / 3600)
    assert cost.gpu_hours == pytest.approx(2 * cost.hours)  # the entry says that a server takes two
    assert cost.money == pytest.approx((13_500 * 10 + 1_500 * 30) / 1e6)
    assert costs.of(other_four)[1] == ALIKE
    larger, source = costs.of(six)
    assert source == PER_AGENT
    assert larger.tokens == pytest.approx(15_000 * 6 / 4)
    total, known = total_cost(study.conditions, costs)
    assert total.tokens == pytest.approx(20 * 15_000 * (1 + 6 / 4 + 8 / 4))
    assert known == {SAME: ["tiny"], ALIKE: ["tiny"], PER_AGENT: ["tiny"]}


def test_a_cpu_takes_no_gpu_hours_and_without_a_price_there_is_no_money(study_factory: StudyFactory) -> None:
    study = study_factory({"model": "tiny", "seeds": 2})
    record = (next(study.simulations()), summary(100, 10, 0, 10, "CPU, some"))
    cost, _ = Costs([record]).of(study.conditions[0])
    assert cost.gpu_hours == 0
    assert cost.hours == pytest.approx(10 / 3600)
    assert math.isnan(cost.money)


def test_widths_are_wilsons(study_factory: StudyFactory) -> None:
    table = width_table(study_factory(seeds=37)).set_index("seeds")
    assert table.index.is_monotonic_increasing
    assert table.loc[37, "of_the_study"]
    low, high = wilson_interval(50, 100)
    assert table.loc[100, "width_at_50"] == pytest.approx(high - low)
    low, high = wilson_interval(9, 10)
    assert table.loc[10, "width_at_90"] == pytest.approx(high - low)
