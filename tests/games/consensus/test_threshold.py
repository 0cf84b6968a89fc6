"""The stop threshold is told as it is played: what prompts say, whose ids that changes, what cannot be said."""

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import pytest

from parley.errors import UsageError
from parley.games.consensus.prompts import share_text
from parley.policies import Ask
from parley.study.condition import Simulation
from parley.study.prompt_sent import asked
from support.playing import new_consensus
from support.studies import StudyFactory
from support.turns import new_swarms, take_turns

# By whom and in which phase it is told, and how often.
PLACES = {("honest", "propose"): 2, ("honest", "vote"): 2, ("byzantine", "propose"): 1}
SAID = [
    (0.5, "50%+"),
    ("1/2", "50%+"),
    (0.665, "66.5%+"),
    ("2/3", "2/3+"),
    ("5/6", "5/6+"),
    (1, "100%"),
    (0.66, "66%+"),
]


def first_round(prompt: str, **parameters: Any) -> list[Ask]:
    game = new_consensus("hhb", prompt=prompt, **parameters)
    return list(asked(game, 0, last_round=1))


def systems(asks: Iterable[Ask]) -> dict[tuple[str, str], str]:
    return {(ask.role, ask.phase): ask.system for ask in asks}


@pytest.mark.parametrize(("threshold", "said"), SAID)
@pytest.mark.parametrize("prompt", ["may_exist", "none_exist"])
def test_every_prompt_tells_the_threshold_that_is_played(prompt: str, threshold: Any, said: str) -> None:
    paper = systems(first_round(prompt))
    for place, text in systems(first_round(prompt, stop_threshold=threshold)).items():
        times = PLACES.get(place, 0)
        assert paper[place].count("66%+") == times  # the table above has them all
        assert text == paper[place].replace("66%+", said)
        assert text.count(said) == times


@pytest.mark.parametrize(("threshold", "said"), [("2/3", "two-thirds"), (0.66, "66%"), (0.5, "50%"), (1, "100%")])
@pytest.mark.parametrize("prompt", ["may_exist", "none_exist"])
def test_turns_tell_it_too(prompt: str, threshold: Any, said: str) -> None:
    [ask, *_] = take_turns(new_swarms("hh", prompt=prompt, stop_threshold=threshold), [(1, "continue")] * 2).asks
    assert f'- The game ends when at least {said} of agents vote "stop", or after 11 rounds.\n' in ask.system


def test_a_value_that_looks_like_the_printed_threshold_stays() -> None:
    swarms = new_swarms("hh", stop_threshold=0.5, task="Agree on two-thirds.")
    [ask, *_] = take_turns(swarms, [(1, "continue")] * 2).asks
    assert "Task context: Agree on two-thirds.\n" in ask.system


@pytest.mark.parametrize("threshold", [0.123456, 0.6667, "22/31", "1/3000"])
def test_what_prompts_cannot_say_is_refused_in_one_line(study_factory: StudyFactory, threshold: Any) -> None:
    with pytest.raises(UsageError, match=r"grids\[0\]: stop_threshold: 0\.\d+: prompts cannot say it; use ") as caught:
        study_factory({"vary": {"stop_threshold": [0.5, threshold]}})
    assert "\n" not in str(caught.value)


def test_shares_have_words_or_none() -> None:
    said = {
        "1/2": "50%",
        "7/8": "87.5%",
        "1/3": "1/3",
        "19/20": "95%",
        "11/19": "11/19",
        "11/21": None,
        "1/10000": None,
    }
    assert {share: share_text(Fraction(share)) for share in said} == said


MODELS = {"tiny": {"source": {"repo": "o/t", "revision": "a" * 40}}}


def test_ids_change_where_agents_read_something_else(study_factory: StudyFactory) -> None:
    """The hashes are those of the version that said 66% whatever was played."""
    before = {
        ("tiny", 0.66): "f0daf082c7da5aed",
        ("majority", 0.66): "925a9c9ba4729101",
        ("majority", "2/3"): "5299e860af49eded",
        ("tiny", "2/3"): "57fa963772b08619",
        ("tiny", 0.5): "c49212113b901491",
        ("majority", 0.5): "deb95a6207819224",
    }
    found = {}
    for model, threshold in before:
        grid = {"model": model, "b": 1}
        study = study_factory(grid, models=MODELS, parameters={"stop_threshold": threshold, "max_rounds": 3})
        found[model, threshold] = study.conditions[0].identity[:16]
    kept = [("tiny", 0.66), ("majority", 0.66), ("majority", "2/3")]
    assert {key: found[key] == before[key] for key in before} == {key: key in kept for key in before}


def test_scripted_agents_at_two_thirds_are_asked_as_before(study_factory: StudyFactory) -> None:
    """They read nothing, and thousands of records of theirs must replay."""
    parameters = {"stop_threshold": "2/3", "max_rounds": 3}
    [condition] = study_factory({"model": "majority", "b": 1}, parameters=parameters).conditions
    asks = list(asked(Simulation(condition, 0).game(), 0))
    assert "66%+ of ALL agents" in systems(asks)["honest", "propose"]
    assert not [name for name in condition.prompt_digests if name.endswith("threshold")]
