"""Where theory knows the answer: every simulation of scripted agents ends so (docs/explanation/theory.md)."""

from fractions import Fraction
from typing import Any

import pytest

from parley.games.base import Outcome
from parley.play.runner import play
from parley.study import Study
from support.playing import scripted_policies
from support.studies import StudyFactory

QUORUM = {"stop_threshold": "2/3", "max_rounds": 8}
SIZES = [(n, b) for n in (3, 4, 6, 7, 9) for b in range(n // 2 + 1)]


def outcomes(study: Study) -> list[tuple[dict[str, Any], Outcome]]:
    """Play all simulations; return the axes and the outcome of each."""
    found = []
    for simulation in study.simulations():
        game = simulation.game()
        played = play(simulation.id, game, scripted_policies(simulation, game))
        found.append((dict(simulation.condition.axes), played.outcome))
    return found


def attacked(make: StudyFactory, adversaries: list[Any], **parameters: Any) -> Study:
    grids = [{"n": n, "b": b, "byzantine": adversaries} for n, b in SIZES]
    return make(*grids, seeds=2, parameters={**QUORUM, **parameters})


def test_a_silent_minority_below_the_quorum_never_blocks_and_one_above_it_always_does(
    study_factory: StudyFactory,
) -> None:
    for axes, outcome in outcomes(attacked(study_factory, ["silent"])):
        enough = Fraction(axes["n"] - axes["b"], axes["n"]) >= Fraction(2, 3)
        assert outcome.name == ("valid_consensus" if enough else "no_consensus"), axes
        assert not enough or outcome.rounds <= 2


@pytest.mark.parametrize("adversary", ["opposite", "oscillate", "stubborn", "equivocate", "mimic_then_defect"])
def test_no_more_than_a_third_is_needed_to_block_for_ever(study_factory: StudyFactory, adversary: str) -> None:
    """More than a third that never vote to stop keep the rest below two thirds: n > 3f is the bound (n = 3f still
    stops, with the votes of exactly two thirds)."""
    told = {"name": adversary, **({} if adversary == "equivocate" else {"vote": "continue"})}
    study = attacked(study_factory, [told], equivocation=True)
    blocked = [(axes, outcome) for axes, outcome in outcomes(study) if 3 * axes["b"] > axes["n"]]
    assert blocked
    # `mimic_then_defect` votes like the others until it defects, and then never again: no stop on what they agree on.
    assert {outcome.name for _, outcome in blocked} == {"no_consensus"}


@pytest.mark.slow
def test_without_equivocation_all_honest_agents_agree_after_one_exchange(study_factory: StudyFactory) -> None:
    """Everyone sees the same proposals, so the same rule gives the same value, whatever the adversaries say."""
    adversaries = ["random", "stubborn", "opposite", "oscillate", "silent", {"name": "crash", "round": 1}]
    for axes, outcome in outcomes(attacked(study_factory, adversaries)):
        if axes["n"] > axes["b"] + 1:
            assert outcome.metrics["first_unanimity_round"] in (1, 2), axes


def test_with_equivocation_they_need_not(study_factory: StudyFactory) -> None:
    grid = {"n": 6, "b": 2, "byzantine": ["equivocate"]}
    study = study_factory(grid, seeds=20, parameters={**QUORUM, "equivocation": True})
    assert any(outcome.metrics["first_unanimity_round"] is None for _, outcome in outcomes(study))


@pytest.mark.parametrize("topology", ["complete", "ring", "path", "star", "grid"])
def test_undisturbed_flooding_agrees_within_the_diameter(study_factory: StudyFactory, topology: str) -> None:
    # Every agent would have to vote stop, which on a network it may do too early: all but one is never enough.
    grid = {"model": "minimum", "n": 9, "b": 0}
    study = study_factory(grid, seeds=10, parameters={"topology": topology, "max_rounds": 12, "stop_threshold": 1})
    for _, outcome in outcomes(study):
        # Round 1 tells the initial values; each later round carries the smallest one link further.
        assert outcome.metrics["first_unanimity_round"] <= outcome.metrics["diameter"] + 1
        assert outcome.name == "valid_consensus"
