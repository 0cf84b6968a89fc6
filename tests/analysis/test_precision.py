"""When a condition has enough seeds, and the interval that holds whenever one stops."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy

from parley.analysis import precision as rule
from parley.analysis.precision import Precision, anytime_interval, grown, precision, unreachable
from parley.analysis.stats import wilson_interval
from parley.play.simulate import simulate
from parley.study import Study
from parley.study.condition import Condition, Simulation
from support.studies import StudyFactory

GROWING: dict[str, Any] = {"from": 4, "by": 4, "to": 12, "until": {"outcome": "valid_consensus", "width": 0.4}}


def play(study: Study, *conditions: Condition) -> Precision:
    """Play what these conditions, or all, still miss; return how precise the study is then."""
    for condition in conditions or study.conditions:
        for seed in condition.seeds:
            if not (record := Simulation(condition, seed).record(study.name)).exists():
                simulate(study, record, [], 1.0)
    return precision(study)


def numbers(found: Precision) -> list[int]:
    return list(found.numbers.values())


@pytest.mark.slow
def test_certain_conditions_stop_first(study_factory: StudyFactory) -> None:
    # A majority always agrees: 8 of 8 are 0.32 wide, 4 of 4 0.49. Half of the other one's seeds end one way.
    study = study_factory({"model": "majority"}, {"model": "stubborn"}, seeds=GROWING)
    found = precision(study)
    assert (numbers(found), found.unplayed, found.may_grow) == ([4, 4], 2, True)
    found = play(study)
    assert (numbers(found), found.unplayed) == ([8, 8], 2)
    study = grown(study, found)
    found = play(study)
    assert (numbers(found), found.narrow, found.may_grow) == ([8, 8], 2, False)
    assert "of 2 conditions 2 precise enough; 16 simulations decided" in found.line(study)
    # A damaged record tells nothing and a missing one waits: 7 of 7 are 0.35 wide, 6 of 6 0.39, 5 of 5 0.43.
    records = [simulation.record("small") for simulation in study.simulations()]
    majority = [record for record in records if "majority" in str(record)]
    for record in majority[:3]:
        record.write_bytes(record.read_bytes()[:-100])
    assert precision(study).narrow == 1
    Path(majority[3]).unlink()
    assert precision(study).unplayed == 1


def test_what_is_never_precise_enough_stops_at_its_most(study_factory: StudyFactory) -> None:
    seeds = GROWING | {"until": {"outcome": "valid_consensus", "width": 0.1}}
    study = study_factory({"model": "majority"}, seeds=seeds)
    for number in (4, 8, 12):
        assert [len(condition.seeds) for condition in study.conditions] == [number]
        found = play(study)
        study = grown(study, found)
    assert (found.exhausted, found.may_grow) == (1, False)


def test_a_width_that_cannot_be_reached_is_said_with_the_number(study_factory: StudyFactory) -> None:
    study = study_factory({"n": [3, 4]}, seeds=GROWING)
    needed = next(n for n in range(12, 99) if np.diff(wilson_interval(n // 2, n))[0] <= 0.4)
    [line] = unreachable(study)
    assert line.startswith("seeds.to: 12: ")
    assert f"{np.diff(wilson_interval(6, 12))[0]:.2f} wide" in line
    assert line.endswith(f"width 0.4 needs {needed}")
    assert not list(unreachable(study_factory(seeds=GROWING | {"to": needed})))


# The interval that holds at any time


def test_anytime_by_hand_and_as_the_mixture_of_the_likelihood_ratio() -> None:
    # n = 1: 2 p > 0.05 for a success, 2 (1 - p) > 0.05 for none.
    assert anytime_interval(1, 1) == pytest.approx((0.025, 1.0))
    assert anytime_interval(0, 1) == pytest.approx((0.0, 0.975))
    # n = 2, one success: 3 * 2 p (1 - p) > 0.05.
    root = np.sqrt(1 - 4 * 0.05 / 6)
    assert anytime_interval(1, 2) == pytest.approx(((1 - root) / 2, (1 + root) / 2))
    assert np.isnan(anytime_interval(0, 0)).all()
    # By other means: the ratio of the beta mixture's probability to the binomial's is 20 at the limits.
    for successes, n in ((0, 7), (3, 7), (7, 7), (49, 50), (600, 1000)):
        mixture, limits = scipy.special.betaln(successes + 1, n - successes + 1), anytime_interval(successes, n)
        for limit, edge in zip(limits, (0.0, 1.0), strict=True):
            if limit != edge:
                likelihood = successes * np.log(limit) + (n - successes) * np.log1p(-limit)
                assert np.exp(mixture - likelihood) == pytest.approx(20, rel=1e-6), (successes, n)
        low, high = wilson_interval(successes, n)
        assert limits[0] <= low < high <= limits[1]


@pytest.mark.promise("An anytime-valid interval holds whenever one stops; Wilson's does not.")
@pytest.mark.slow
def test_anytime_holds_at_all_times_and_wilson_does_not() -> None:
    random = np.random.default_rng(3)
    missed = dict.fromkeys((anytime_interval, rule.wilson_interval), 0)
    for rate in (0.1, 0.5):
        for _ in range(60):
            ended = np.cumsum(random.random(100) < rate)
            for interval in missed:
                limits = [interval(int(ended[n - 1]), n) for n in range(5, 101, 5)]
                missed[interval] += any(not low <= rate <= high for low, high in limits)
    assert missed[anytime_interval] <= 6 < 15 < missed[rule.wilson_interval]
