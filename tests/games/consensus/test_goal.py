"""What has to be agreed on: real values, values near to each other, and values within the honest hull."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.analysis.tables import read_table
from parley.games.consensus.game import ConsensusGame
from parley.games.consensus.parameters import Goal, Value, in_hull
from parley.study import Study
from parley.study.prompt_sent import asked
from support.playing import new_consensus
from support.studies import StudyFactory, summarized

HELD = st.lists(st.one_of(st.integers(0, 9), st.floats(0, 9)), min_size=1, max_size=8)


@pytest.mark.promise("Agents agree if their values lie within `agree_within`; with 0 that is the paper's agreement.")
@given(held=HELD, within=st.floats(0, 10))
def test_agreement_is_the_share_of_values_that_lie_near_to_each_other(held: list[Value], within: float) -> None:
    goal = Goal(within=within)
    near = [sum(low <= value <= low + within for value in held) for low in held]
    assert goal.share(held) == max(near) / len(held)
    assert goal.agreed(held) == (max(near) == len(held))
    assert Goal().share(held) == max(map(held.count, held)) / len(held)


@given(held=HELD, initial=HELD)
def test_initial_values_are_in_the_hull(held: list[Value], initial: list[Value]) -> None:
    assert Goal(validity="hull").valid(held, initial) == in_hull(held, initial)
    if Goal().valid(held, initial):
        assert in_hull(held, initial)


def _played(make: StudyFactory, **parameters: object) -> Study:
    model = {"name": "stubborn", "vote": "stop"}
    return summarized(make({"model": model}, parameters={"max_rounds": 2, **parameters}, seeds=3))


@pytest.mark.promise("Games of real values, of tolerances and of the hull end as their goal says, in tables too.")
def test_who_keeps_its_value_agrees_within_the_range_alone(study_factory: StudyFactory) -> None:
    for within, outcome in ((50.0, "valid_consensus"), (0.0, "premature_stop")):
        study = _played(study_factory, values="real", agree_within=within, validity="hull")
        rows, turns = (read_table(study.name, name) for name in ("simulations", "turns"))
        assert set(rows["outcome"]) == {outcome}
        assert turns["value"].dtype == "float64"
        assert (turns["value"] % 1 > 0).any()


def _lines(game: ConsensusGame) -> set[str]:
    asks = list(asked(game, seed=0, last_round=1))
    return {line for ask in asks for text in (ask.system, ask.user) for line in text.splitlines()}


@pytest.mark.promise("Prompts say what is played; one sentence differs where the paper's would be wrong.")
@pytest.mark.parametrize(
    ("parameters", "gone", "said"),
    [
        ({"agree_within": 2.5}, 0, "Values within 2.5 of each other count as the SAME value."),
        ({"validity": "hull"}, 2, "Any value from the smallest to the largest initial value of honest agents"),
        ({"values": "real"}, 3, "Propose numbers between 0 and 50 only"),
    ],
)
@pytest.mark.parametrize("reply_format", ["json", "text"])
def test_prompts_say_what_is_played(parameters: dict[str, Any], gone: int, said: str, reply_format: str) -> None:
    paper, found = (_lines(new_consensus("hhh", reply_format=reply_format, **given)) for given in ({}, parameters))
    assert any(said in line for line in found - paper)
    told = [line for line in paper - found if "Your" not in line and "Reasoning" not in line]  # values are others
    assert len(told) == gone if reply_format == "json" else told or not gone
    assert not any("integer" in line for line in found) or parameters.get("values") != "real"
