"""`repeats`: the same seeds again, with other sampling seeds and all else alike."""

import pytest

from parley.identity import request_seed
from parley.study.condition import Simulation
from support.studies import StudyFactory

pytestmark = pytest.mark.promise("Repeats deal the same and sample anew.")

GRID = {"model": "random", "n": 3}


def test_the_first_repeat_is_what_a_study_without_repeats_plays(study_factory: StudyFactory) -> None:
    once = list(study_factory(GRID, seeds=2).simulations())
    repeated = study_factory(GRID, seeds=2, repeats=3)
    every = list(repeated.simulations())
    assert [s.id for s in every if not s.condition.repeat] == [s.id for s in once]
    assert len({s.id for s in every}) == len({s.record("small") for s in every}) == 6
    assert list(repeated.shown.simulations()) == [s for s in every if not s.condition.repeat]


def test_a_repeat_is_dealt_the_same_and_samples_anew(study_factory: StudyFactory) -> None:
    first, second = (Simulation(c, 0) for c in study_factory(GRID, repeats=2).conditions)
    assert first.record("small").parent != second.record("small").parent
    assert [seat.name for seat in first.game().seats] == [seat.name for seat in second.game().seats]
    assert first.game().rng.random() == second.game().rng.random()
    assert request_seed(first.id, 1, "vote", "agent_1", 0) != request_seed(second.id, 1, "vote", "agent_1", 0)
