"""What `parley plan` assumes, and what simulations take by records that are written out here."""

import math
from typing import Any

import numpy as np
import pytest

from parley import paths
from parley.analysis.made_by import ALIKE, ESTIMATED, PER_AGENT, SAME, SCRIPTED, Costs, played
from parley.analysis.planning import AssumedRates, Planned, level, plan_table, planned, total_cost
from parley.play.record import Summary
from parley.play.simulate import simulate_shard
from parley.statistics.power import Rates, power_of_pooled, power_of_rates
from parley.study import Study, load_study
from parley.study.condition import SCRIPTED as ENGINE
from parley.study.condition import Condition
from support import REPOSITORY
from support.studies import StudyFactory

pytestmark = pytest.mark.promise(
    "A plan uses stated rates or those of a pilot, and shows `?` for hours that nobody measured."
)

ASKED = {"name": "prompt", "outcome": "valid_consensus", "compare": "prompt", "over": ["n"], "smallest": 0.2}
GRID = {"n": [4, 6], "prompt": ["may_exist", "none_exist"], "seeds": 30}


def records_of(study: Study) -> list[Any]:
    """Play a scripted study; return its simulations with their summaries."""
    simulate_shard(study, ENGINE, 0)
    return played(study)


def rates(plan: Planned) -> Rates:
    assert isinstance(plan.assumed, AssumedRates)
    return plan.assumed.rates


def test_without_records_rates_are_about_a_half_and_pairs_independent(study_factory: StudyFactory) -> None:
    study = study_factory(GRID, questions=[ASKED])
    (plan,) = planned(study, [])
    assert (rates(plan), plan.pairs) == (Rates(0.4, 0.4 + 0.2), 0)
    assert "no pilot" in plan.basis
    row = plan_table(study, [plan]).iloc[0]
    assert row["power"] == power_of_pooled(30, 2, Rates(0.4, 0.6), 0.05)
    seeds, half = row["seeds_80"], row["smallest_80"] / 2
    assert power_of_pooled(seeds - 1, 2, Rates(0.4, 0.6), 0.05) < 0.8
    assert power_of_pooled(seeds, 2, Rates(0.4, 0.6), 0.05) >= 0.8
    assert power_of_pooled(30, 2, Rates(0.5 - half, 0.5 + half), 0.05) == pytest.approx(0.8, abs=0.01)
    assert (row["strata"], row["seeds"], row["pairs"]) == (2, 30, 60)


def test_strata_of_unequal_seeds_are_planned_as_if_all_had_the_fewest(study_factory: StudyFactory) -> None:
    grids = [{**GRID, "n": n, "seeds": seeds} for n, seeds in ((3, 60), (4, 8))]
    study = study_factory(*grids, questions=[ASKED])
    row = plan_table(study, planned(study, [])).iloc[0]
    assert (row["pairs"], row["power"]) == (68, power_of_pooled(8, 2, Rates(0.4, 0.6), 0.05))


@pytest.mark.slow
def test_two_outcomes_of_a_simulation_go_together_as_in_the_records(study_factory: StudyFactory) -> None:
    outcomes = ["first_majority_correct_honest", "last_majority_correct_honest"]
    asked = {"name": "turn", "outcomes": outcomes, "smallest": 0.2, "expected": [0.6, 0.9]}
    solver = {"model": {"name": "solver", "accuracy": 0.55, "recognize": 1.0}, "n": 3, "prompt": "improve"}
    parameters = {"problems": "arithmetic", "turns": 1}
    study = study_factory(solver, game="deliberation", parameters=parameters, seeds=30, questions=[asked])
    row = plan_table(study, planned(study, [])).iloc[0]
    assert row["power"] == pytest.approx(power_of_rates(30, Rates(0.6, 0.9), 0.05))
    records = records_of(study)
    [within] = planned(study, records)
    wins = [[r.outcome["metrics"][name] for name in outcomes] for _, r in records]
    assert within.pairs == 30
    assert rates(within).correlation == pytest.approx(np.corrcoef(np.array(wins, dtype=float).T)[0, 1])


def test_each_pair_of_values_of_a_question_takes_its_part_of_the_level(study_factory: StudyFactory) -> None:
    study = study_factory({"n": [4, 6, 8], "seeds": 30}, questions=[ASKED | {"compare": "n", "over": []}])
    assert level(study) == pytest.approx(0.025)


def test_stated_rates_count_and_several_questions_share_the_level(study_factory: StudyFactory) -> None:
    questions = [{**ASKED, "expected": [0.6, 0.8]}, {**ASKED, "name": "other"}]
    study = study_factory(GRID, questions=questions)
    assert level(study) == pytest.approx(0.025)
    first, other = planned(study, [])
    assert (rates(first).first, rates(first).second) == pytest.approx((0.6, 0.8))
    table = plan_table(study, [first, other])
    assert table["power"][0] == power_of_pooled(30, 2, Rates(0.6, 0.8), 0.025)


@pytest.mark.slow
def test_a_pilot_of_enough_pairs_tells_rates_and_correlation(study_factory: StudyFactory) -> None:
    grid = {"model": ["random", "majority"], "n": 3, "seeds": 25}
    asked = {"name": "model", "outcome": "valid_consensus", "compare": "model", "smallest": 0.2}
    study = study_factory(grid, questions=[asked], parameters={"max_rounds": 3, "value_max": 1})
    records = records_of(study)
    won = [r.outcome["name"] == "valid_consensus" for s, r in records if s.condition.axes["model"] == "random"]
    (plan,) = planned(study, records)
    assert plan.pairs == 25
    assert rates(plan).first == pytest.approx(sum(won) / 25)
    (few,) = planned(study, [record for record in records if record[0].seed < 19])
    assert (few.pairs, rates(few).first) == (0, 0.4)  # 19 pairs say too little


def test_a_quantity_needs_a_pilot(study_factory: StudyFactory) -> None:
    grid = {"model": "grim_trigger", "n": 4, "prompt": "plain", "vary": {"cheap_talk": [False, True]}, "seeds": 6}
    asked = [
        {"name": name, "outcome": name, "compare": "cheap_talk", "smallest": 0.1}
        for name in ("honest_payoff", "stag_share")
    ]
    plan, of_share = planned(study_factory(grid, game="stag_hunt", questions=asked), [])
    assert plan.assumed is None
    table = plan_table(study_factory(grid, game="stag_hunt", questions=asked[:1]), [plan])
    assert table.iloc[0][["power", "seeds_80"]].isna().all()
    assert of_share.assumed is not None  # a share varies at most as a rate does
    assert of_share.assumed.power(50, 0.05) == pytest.approx(power_of_rates(50, Rates(0.45, 0.55), 0.05))


# Costs


def summary(prompt: int, completion: int, start: int, end: int, device: str = "NVIDIA H100, 550") -> Summary:
    told = {"prompt_tokens": prompt, "completion_tokens": completion, "cached_tokens": 0}
    when = [f"2026-01-01T00:00:{second:02}+00:00" for second in (start, end)]
    made = {"started": when[0], "ended": when[1], "engines": {"tiny": {"device": device}}}
    return Summary({}, {}, told, "", made, {})


def asking(study_factory: StudyFactory, price: bool = True, **changes: Any) -> Study:
    model = {"source": {"repo": "owner/tiny", "revision": "a" * 40}, "gpus": 2}
    model |= {"price": {"prompt": 10, "completion": 30}} if price else {}
    grid = {"model": "tiny", "n": [4, 6, 8], "prompt": ["may_exist", "none_exist"], "seeds": 10, **changes}
    return study_factory(grid, models={"tiny": model})


def test_scripted_agents_cost_nothing_and_what_nobody_measured_is_estimated(study_factory: StudyFactory) -> None:
    scripted, none = study_factory(GRID), Costs([])
    total, known = total_cost(scripted.conditions, none)
    assert (total.tokens, total.hours, total.gpu_hours, total.money, known) == (0, 0, 0, 0, {})
    assert none.of(scripted.conditions[0])[1] == SCRIPTED
    study = asking(study_factory)
    cost, source = none.of(study.conditions[0])
    assert source == ESTIMATED
    assert cost.money == pytest.approx((10 * cost.prompt + 30 * cost.completion) / 1e6)
    assert math.isnan(cost.hours)  # nobody knows the pace
    most, least = (total_cost(study.conditions, none, at_most)[0] for at_most in (True, False))
    assert most.tokens > least.tokens > 10 * sum(len(c.seeds) for c in study.conditions) * 100
    assert math.isnan(total_cost(asking(study_factory, price=False).conditions, Costs([]))[0].money)


@pytest.mark.promise("Without a record, costs are bounded, and estimated within a factor of three of what games took.")
def test_what_is_estimated_is_near_what_was_recorded_and_below_the_bound(study_factory: StudyFactory) -> None:
    taken: list[tuple[Condition, int, int]] = []
    with paths.rooted(REPOSITORY / "findings"):
        for name in ("findings-consensus", "findings-hunt"):
            study = load_study(REPOSITORY / "config" / "findings" / f"{name}.yaml", needs_weights=False)
            taken += [
                (s.condition, *map(r.telemetry.__getitem__, ("prompt_tokens", "completion_tokens")))
                for s, r in played(study)
                if r.outcome["rounds"] >= s.condition.parameters.longest  # as estimated
            ]
    # A game of the demo by SmolLM2-135M: it ends in the first of its rounds.
    taken += [(study_factory({"model": "tiny", "n": 4}, parameters={"max_rounds": 1}).conditions[0], 3918, 187)]
    assert len(taken) > 100
    costs = {condition.game: Costs([]) for condition, *_ in taken}
    for condition, prompt, completion in taken:
        usual, most = (costs[condition.game].estimate(condition, at_most) for at_most in (False, True))
        assert prompt / 3 < usual.prompt < 3 * prompt
        assert completion / 3 < usual.completion < 3 * completion
        assert prompt < most.prompt
        assert completion < most.completion


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
    study = asking(study_factory, price=False, n=4)
    costs = Costs([(next(study.simulations()), summary(900, 100, 0, 10, "CPU, some"))])
    cost, _ = costs.of(study.conditions[0])
    assert (cost.gpu_hours, cost.hours, math.isnan(cost.money)) == (0, pytest.approx(10 / 3600), True)
    assert total_cost(study.conditions, costs)[0].tokens == 2 * 10 * 1000
