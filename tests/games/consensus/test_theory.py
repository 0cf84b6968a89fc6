"""Where theory knows the answer: every simulation of scripted agents ends so (docs/explanation/theory.md)."""

from fractions import Fraction
from typing import Any

import pytest

from parley.games.base import Outcome
from support.playing import play_of
from support.studies import StudyFactory

pytestmark = pytest.mark.promise("Scripted agents end as theory says, in every simulation.")

SIZES = [(n, b) for n in (3, 6, 7) for b in range(n // 2 + 1)]
TOLD_TO_GO_ON = [{"name": name, "vote": "continue"} for name in ("opposite", "oscillate", "stubborn")]


def attacked(make: StudyFactory, adversaries: list[Any]) -> list[tuple[dict[str, Any], Outcome]]:
    """Play groups of all sizes with each of the adversaries; return the axes and the outcome of each game."""
    study = make(
        *({"n": n, "b": b, "byzantine": adversaries} for n, b in SIZES),
        seeds=1,
        parameters={"stop_threshold": "2/3", "max_rounds": 8, "equivocation": True},
    )
    return [(dict(one.condition.axes), play_of(one).outcome) for one in study.simulations()]


def test_a_silent_minority_below_the_quorum_never_blocks_and_one_above_it_always_does(
    study_factory: StudyFactory,
) -> None:
    for axes, outcome in attacked(study_factory, ["silent"]):
        enough = Fraction(axes["n"] - axes["b"], axes["n"]) >= Fraction(2, 3)
        assert outcome.name == ("valid_consensus" if enough else "no_consensus"), axes
        assert not enough or outcome.rounds <= 2


@pytest.mark.slow
def test_more_than_a_third_block_for_ever(study_factory: StudyFactory) -> None:
    """More than a third that never vote to stop keep the rest below two thirds: n > 3f is the bound (n = 3f still
    stops, with the votes of exactly two thirds)."""
    # `mimic_then_defect` votes like the others until it defects, and then never again: no stop on what they agree on.
    games = attacked(study_factory, [*TOLD_TO_GO_ON, "equivocate", "mimic_then_defect"])
    blocked = [outcome.name for axes, outcome in games if 3 * axes["b"] > axes["n"]]
    assert set(blocked) == {"no_consensus"}
