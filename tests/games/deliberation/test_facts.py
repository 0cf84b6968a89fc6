"""Hidden profiles: facts that each hold some of, which together tell the answer."""

from typing import Any

import pytest

from parley.analysis.summarize import summarize
from parley.analysis.tables import read_table
from parley.games.problems.problem import letters
from parley.games.problems.sources import HiddenProfiles
from parley.play.replay import replay
from parley.study import Study
from parley.study.condition import Simulation
from support.studies import StudyFactory, play_all

OURS = HiddenProfiles(kind="hidden_profiles")


def study_of(study_factory: StudyFactory, model: str = "pooler", n: int = 4, seeds: int = 20, **given: Any) -> Study:
    grid = {"model": model, "n": n, "prompt": "improve", **given.pop("grid", {})}
    parameters = {"problems": "hidden_profiles", "turns": 1, **given}
    return study_factory(grid, game="deliberation", parameters=parameters, seeds=seeds)


def first_asked(study: Study) -> dict[str, str]:
    """Return what each agent is asked first in the first game, by its name."""
    return {ask.agent: ask.user for ask in next(next(iter(study.simulations())).game().play())}


@pytest.mark.promise("Of the twenty hidden profiles each fact rules out one choice, and only all of them leave one.")
def test_each_fact_of_ours_rules_out_the_choice_that_stands_in_its_place() -> None:
    """Whether it does is for eyes; that each rules out another one, and none the right one, is for this test."""
    problems = HiddenProfiles(kind="hidden_profiles", shuffle=False)._stored()
    assert len({problem.question for problem in problems}) == 20
    for problem in problems:
        assert len(problem.options) == len(problem.facts) + 1 == 5
        assert problem.answer == letters(problem.options)[-1]
    assert {OURS.problem(seed).answer for seed in range(40)} == set("ABCDE")
    assert OURS.problem(0).facts


@pytest.mark.parametrize(("n", "most"), [(2, 2), (3, 2), (4, 1), (6, 1)])
def test_each_fact_is_dealt_to_one_agent_and_stays_with_it(study_factory: StudyFactory, n: int, most: int) -> None:
    study = study_of(study_factory, n=n)
    holders: set[str] = set()
    for simulation in study.simulations():
        game = simulation.game()
        facts = game.problem.facts  # type: ignore[attr-defined]
        asks = next(game.play())
        held = {ask.agent: [fact for fact in facts if f"\n- {fact}" in ask.user] for ask in asks}
        assert sorted(fact for each in held.values() for fact in each) == sorted(facts)
        assert max(map(len, held.values())) == most
        assert next(simulation.game().play())[0].user == asks[0].user
        holders.add(next(name for name, each in held.items() if facts[0] in each))
    assert len(holders) > n / 2


def test_who_answers_alone_knows_what_one_who_talks_knows_or_is_not_compared(study_factory: StudyFactory) -> None:
    """Of dealt facts each of more agents would know less than one who talks knows at first."""
    grid = {"model": "pooler", "n": 4, "prompt": "improve", "vary": {"facts": ["dealt", "all"]}}
    parameters = {"problems": "hidden_profiles", "turns": 1}
    study = study_factory(grid, game="deliberation", parameters=parameters, seeds=3, compare_with=["independent"])
    arms = [(condition.axes["facts"], condition.axes["arm"]) for condition in study.conditions]
    assert sorted(arms) == [("all", "independent"), ("all", "talk"), ("dealt", "none")]
    [alone] = [condition for condition in study.conditions if condition.axes["arm"] == "independent"]
    game = Simulation(alone, 0).game()
    users = [ask.user for ask in next(game.play())]
    assert len(users) == 3 * 4 * 2
    assert all(fact in user for fact in game.problem.facts for user in users)  # type: ignore[attr-defined]


@pytest.mark.promise("Who pools facts is right after talking, at once where all know.")
def test_what_talking_is_for(study_factory: StudyFactory) -> None:
    study = study_of(study_factory, grid={"vary": {"facts": ["dealt", "all"]}}, turns=2)
    assert all(replay(record).identical for record in play_all(study))
    summarize(study)
    rates = (
        read_table(study.name, "decision_rates").query("rule == 'plurality'").set_index(["facts", "answers"])["right"]
    )
    assert rates.to_dict() == {
        **{("dealt", "first"): 0.0, ("dealt", "last"): 1.0},
        **{("all", "first"): 1.0, ("all", "last"): 1.0},  # unanimous at once
    }
