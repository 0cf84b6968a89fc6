"""The agents of the deliberation game: scripted ones, and what language models are told as adversaries."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from parley.games.deliberation.parameters import DeliberationParameters
from parley.games.deliberation.policies import POLICIES
from parley.games.deliberation.state import DeliberationView, Value
from parley.games.problems.problem import Problem
from parley.policies.kinds import ChosenPolicy
from support.deliberating import CHOICES, EIGHTEEN, deliberate, new_deliberation
from support.scripted import play_scripted


def chosen(name: str, **given: Any) -> ChosenPolicy:
    kind = POLICIES[name]
    return ChosenPolicy(kind, kind.Parameters(**given))


def view(
    turn: int = 1, own: Value | None = "17", problem: Problem = EIGHTEEN, **heard: Value | None
) -> DeliberationView:
    return DeliberationView("reflect" if turn else "initial", "agent_9", "honest", turn, problem, own, heard, "3")


def said(name: str, seen: DeliberationView, seed: int = 0, **given: Any) -> Mapping[str, Any]:
    policy = chosen(name, **given)
    assert policy.kind.rule is not None
    return policy.kind.rule(policy.parameters)(seen, np.random.default_rng(seed))


def share(name: str, seen: DeliberationView, answer: str, **given: Any) -> float:
    return sum(said(name, seen, seed, **given)["answer"] == answer for seed in range(1000)) / 1000


def test_a_solver_is_right_at_first_by_its_accuracy() -> None:
    first = view(0, None)
    assert said("solver", first, accuracy=1)["answer"] == "18"
    assert said("solver", first, accuracy=0)["answer"] != "18"
    assert share("solver", first, "18", accuracy=0.7) == pytest.approx(0.7, abs=0.05)


def test_a_solver_goes_over_to_a_majority_by_its_conformity() -> None:
    against = view(a="20", b="20", c="17")
    assert share("solver", against, "20", conformity=0.3) == pytest.approx(0.3, abs=0.05)
    assert said("solver", against, conformity=0)["answer"] == "17"
    tie = view(a="20", b="18")
    assert said("solver", tie, conformity=1)["answer"] == "17"


def test_a_solver_recognizes_the_right_answer_only_when_it_hears_it() -> None:
    heard = view(a="20", b="20", c="18")
    assert said("solver", heard, conformity=1, recognize=1)["answer"] == "18"
    assert share("solver", heard, "18", conformity=0, recognize=0.4) == pytest.approx(0.4, abs=0.05)
    assert said("solver", view(a="20"), conformity=0, recognize=1)["answer"] == "17"


def test_a_solver_whose_answer_could_not_be_read_answers_anew() -> None:
    assert said("solver", view(own=None), accuracy=1)["answer"] == "18"


def test_a_solver_chooses_among_policies_and_conforms() -> None:
    first = view(0, None, CHOICES)
    seen = {tuple(said("solver", first, seed)["policies"]) for seed in range(50)}
    assert len(seen) > 3
    assert () not in seen
    liked = ("lend tools",)
    assert said("solver", view(1, ("buy more books",), CHOICES, a=liked, b=liked), conformity=1)["policies"] == [
        *liked
    ]


def test_adversaries_push_the_wrong_answer_of_the_game() -> None:
    assert said("stubborn", view(0, None))["answer"] == "3"
    assert said("stubborn", view(4, "3", a="18", b="18"))["answer"] == "3"


def test_a_persuader_is_right_until_it_turns() -> None:
    answers = [said("persuader", view(turn, "18"), after=1)["answer"] for turn in range(4)]
    assert answers == ["18", "18", "3", "3"]


def test_a_silent_adversary_says_nothing_that_can_be_read() -> None:
    assert EIGHTEEN.read(said("silent", view())["answer"]) is None


def test_a_random_adversary_is_never_right_and_changes_its_mind() -> None:
    answers = {said("random", view(), seed)["answer"] for seed in range(50)}
    assert "18" not in answers
    assert len(answers) > 1


@pytest.mark.parametrize(
    ("after", "turns", "words"),
    [
        (0, 0, "in 0 turns, so it would only help; raise turns to 2 or more"),
        (0, 1, "in 1 turns, so it would only help; raise turns to 2 or more"),
        (1, 2, "in 2 turns, so it would only help; lower it to 0 or less, or raise turns to 3 or more"),
        (9, 2, "lower it to 0 or less, or raise turns to 11 or more"),
        (0, 2, ""),
        (1, 3, ""),
    ],
)
def test_a_persuader_whose_wrong_answer_nobody_hears_is_refused(after: int, turns: int, words: str) -> None:
    found = chosen("persuader", after=after).misfit(DeliberationParameters(turns=turns))
    assert words in found
    assert bool(found) == bool(words)


@pytest.mark.parametrize("hears", ["all", "neighbor"])
def test_what_a_persuader_pushes_last_is_heard_by_somebody(hears: str) -> None:
    """At the limit that is allowed: `after` is two less than the turns."""
    policies = {"honest": chosen("solver", accuracy=1, conformity=1), "byzantine": chosen("persuader", after=1)}
    game = new_deliberation("hhb", policies=policies, turns=3, hears=hears, stop_when_unanimous=False)
    trace = play_scripted(game).outcome.trace

    def heard_in(turn: int) -> set[str]:
        said = trace[turn - 1]["answers"]
        return {said[name] for heard in trace[turn]["heard"].values() for name in heard}

    assert [heard_in(turn) for turn in (1, 2, 3)] == [{"18"}, {"18"}, {"18", game.target}]


def game(b: int, adversary: str, seed: int = 0, **given: Any) -> Any:
    policies = {"honest": chosen("solver", **given), "byzantine": chosen(adversary)}
    roles = "h" * 5 + "b" * b
    return new_deliberation(roles, seed=seed, policies=policies, turns=4, stop_when_unanimous=False)


@pytest.mark.parametrize("adversary", ["stubborn", "persuader", "silent", "random"])
def test_agents_who_always_know_never_hang_whatever_adversaries_do(adversary: str) -> None:
    played = play_scripted(game(3, adversary, accuracy=1, conformity=0))
    assert played.outcome.name == "correct_consensus"


def test_conformists_follow_a_stubborn_majority() -> None:
    played = play_scripted(game(6, "stubborn", accuracy=1, conformity=1))
    assert played.outcome.name == "wrong_consensus"


@pytest.mark.slow
def test_deliberation_adds_what_recognition_allows() -> None:
    """Five agents of whom each is right with chance 0.5, and all recognize what is right: one right one is enough."""
    metrics = []
    for seed in range(300):
        played = play_scripted(game(0, "silent", seed, accuracy=0.5, conformity=0, recognize=1), seed)
        metrics.append(played.outcome.metrics)
    right = sum(of["consensus_correct"] for of in metrics) / 300
    single = sum(of["single_correct"] for of in metrics) / 300
    assert right == pytest.approx(1 - 0.5**5, abs=0.03)
    assert single == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("name", ["llm_stubborn", "llm_persuader"])
def test_a_language_model_as_adversary_is_told_its_strategy_and_its_target(name: str) -> None:
    policies = {"byzantine": chosen(name)}
    played = deliberate(new_deliberation("hb", policies=policies, turns=0), ["18", "3"])
    system = played.ask(0, 2).system
    assert system.endswith(chosen(name).instructions)
    assert "You work against them, in secret" in system
    assert "wrong answer" not in played.ask(0, 1).system
