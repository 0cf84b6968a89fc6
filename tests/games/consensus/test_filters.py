"""Filters around agents of the consensus game: what is dropped, who does not hear it, and what is kept of it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.errors import UsageError
from parley.games.consensus.filters import SCORE, dropped, reputation
from parley.games.consensus.game import ConsensusGame
from parley.games.consensus.parameters import ConsensusParameters
from parley.games.parameters import Group
from parley.play.record import read_trace
from parley.play.replay import replay
from parley.play.runner import Play
from parley.policies import Ask
from parley.text.yamlfile import validated
from support.pages import data_of
from support.playing import play_of
from support.playthrough import by_hand, simulation_of
from support.studies import StudyFactory, play_all

ME, NAMES = "agent_1", [f"agent_{number}" for number in range(1, 12)]
FILTERS: list[dict[str, int]] = [{"trim": 1}, {"reputation": 1}, {"scored": 1}]
VALUES = st.lists(st.one_of(st.none(), st.integers(0, 20)), min_size=2, max_size=len(NAMES))
HEARD = VALUES.map(lambda values: dict(zip(NAMES, values, strict=False)))
ROUNDS = st.lists(HEARD, min_size=1, max_size=4)


def chosen(given_filter: Any) -> Any:
    return validated(ConsensusParameters, {"filter": given_filter}, "parameters").filter


def left_out(given_filter: Any, *rounds: dict[str, Any], scores: dict[str, int] | None = None) -> str:
    """Return whom agent_1 does not hear; agents are called by their number in `rounds`."""
    named = [{f"agent_{number}": value for number, value in each.items()} for each in rounds]
    found = dropped(chosen(given_filter), ME, named, {f"agent_{n}": s for n, s in (scores or {}).items()})
    return " ".join(name.removeprefix("agent_") for name in found)


# By hand


@pytest.mark.promise("Each filter drops what its definition says, on games small enough to do by hand.")
def test_trim_drops_the_extremes_beyond_ones_own_value() -> None:
    now = {"1": 10, "2": 3, "3": 5, "4": 12, "5": 40, "6": 41, "7": 10}
    assert left_out({"trim": 1}, now) == "6 2"
    assert left_out({"trim": 2}, now) == "6 5 2 3"
    assert left_out({"trim": 9}, now) == "6 5 4 2 3"  # the equal one stays
    assert left_out({"trim": 1}, {"1": 50, "2": 3, "3": 50}) == "2"  # nobody is above
    assert left_out({"trim": 1}, {"1": 5, "2": 9, "10": 9, "3": 5}) == "10"  # of equals the last by number
    assert left_out({"trim": 1}, {"1": None, "2": 9, "3": 5}) == ""  # nothing to be beyond of
    assert left_out({"trim": 1}, {"1": 5, "2": None, "3": 5}) == ""


def test_reputation_counts_distance_and_moves() -> None:
    rounds = [{"1": 10, "2": 20, "3": 30, "4": 40}, {"1": 20, "2": 20, "3": 20, "4": 40}]
    named = [{f"agent_{n}": v for n, v in each.items()} for each in rounds]
    # agent_3: |30 - 20| in round 1; 0 in round 2, in which it moved by 10 towards the others of round 1.
    assert [reputation(f"agent_{n}", named) for n in (2, 3, 4)] == [-5, 0, -20]
    assert left_out({"reputation": 1}, *rounds) == "4"
    assert left_out({"reputation": 2}, *rounds) == "4 2"
    assert left_out({"reputation": 1}, rounds[0] | {"4": None}) == "3"  # who is silent is not counted
    away = [{"1": 10, "2": 12, "3": 12}, {"1": 10, "2": 14, "3": 12}]
    assert left_out({"reputation": 1}, *away) == "2"
    same = {"1": 5, "2": 5, "3": 5}
    assert left_out({"reputation": 1}, same) == "3"  # of equals the last by number


def test_the_worst_scores_are_dropped() -> None:
    now = {"1": 5, "2": 5, "3": 6, "4": 7}
    assert left_out({"scored": 1}, now, scores={"2": 0, "3": 5, "4": 10}) == "2"
    assert left_out({"scored": 2}, now, scores={"2": 3, "3": 3, "4": 3}) == "4 3"
    assert left_out({"scored": 2}, now) == ""


# Whatever is said


@pytest.mark.promise("A filter never drops an agent's own message, nor more than it may; without one all is heard.")
@given(rounds=ROUNDS, number=st.integers(1, 4), scores=st.dictionaries(st.sampled_from(NAMES[1:]), st.integers(0, 10)))
def test_a_filter_never_drops_its_own_nor_too_many(
    rounds: list[dict[str, Any]], number: int, scores: dict[str, int]
) -> None:
    now = rounds[-1]
    assert dropped(chosen("none"), ME, rounds, scores) == []
    for kind in ("trim", "reputation", "scored"):
        found = dropped(chosen({kind: number}), ME, rounds, scores)
        assert ME not in found
        assert all(now[name] is not None for name in found)
        if kind != "trim" or now[ME] is None:
            assert len(found) <= number
            continue
        assert all(now[name] != now[ME] for name in found)
        assert sum(now[name] > now[ME] for name in found) <= number
        assert sum(now[name] < now[ME] for name in found) <= number


# In a game


def game_of(moves: dict[str, Any], b: int = 1, n: int = 4, **parameters: Any) -> Play:
    simulation = simulation_of("consensus", {"n": n, "b": b}, {"max_rounds": 2, **parameters})
    return by_hand(simulation.game(), moves)


def ask_of(play: Play, number: int, phase: str, role: str = "honest") -> Ask:
    found = [x.ask for x in play.exchanges if (x.ask.round, x.ask.phase, x.ask.role) == (number, phase, role)]
    return found[0]


ROUND_1 = {"1 propose": [20, 20, 20, 20]}


def with_outlier(play: Play) -> str:
    """Return the name of the Byzantine agent."""
    return ask_of(play, 1, "propose", "byzantine").agent


@pytest.mark.promise(
    "What a filter drops is in no prompt and no view of that agent, at once and later; Byzantine agents hear all."
)
@pytest.mark.parametrize("given_filter", FILTERS)
@pytest.mark.parametrize("rules", ["paper", "published_code"])
def test_what_is_dropped_is_not_heard_and_kept_in_the_trace(given_filter: dict[str, int], rules: str) -> None:
    liar = with_outlier(game_of({}))
    lie = {"value": 49, "public_reasoning": "Trust me."}
    moves = {f"{number} propose": [lie if name == liar else 20 for name in NAMES[:4]] for number in (1, 2)}
    play = game_of(moves, filter=given_filter, rules=rules, stop_threshold=1)
    for ask in (ask_of(play, 1, "vote"), ask_of(play, 2, "propose"), ask_of(play, 2, "vote")):
        shown = ask.user.partition("MAKE YOUR DECISION")[0]
        assert f"{liar}:" not in shown
        assert "Trust me." not in shown
        assert f"{ask.agent}" in shown
        assert liar not in {**ask.view.this_round, **ask.view.last_round}
        assert all(liar not in each and ask.agent in each for each in ask.view.earlier)
    assert "Trust me." in ask_of(play, 2, "vote", "byzantine").user
    first = play.outcome.trace[0]
    assert first["filtered"][ask_of(play, 1, "vote").agent][liar] is None
    assert liar not in first["filtered"]
    assert first["proposals"][liar] == 49


def test_who_is_silent_filters_by_the_value_that_it_holds() -> None:
    held = game_of({}, b=0).outcome.metrics["initial_values"]["agent_2"]
    moves = {"1 propose": [held - 1, None, held + 1, held]}
    play = game_of(moves, b=0, filter={"trim": 1}, max_rounds=1, retries=0)
    assert list(play.outcome.trace[0]["filtered"]["agent_2"]) == ["agent_3", "agent_1"]


@pytest.mark.parametrize("given_filter", FILTERS[1:])
def test_the_distance_is_from_the_others_and_from_ones_own_value(given_filter: dict[str, int]) -> None:
    liar = with_outlier(game_of({}))
    play = game_of({"1 propose": [0 if name == liar else 40 for name in NAMES[:4]]}, filter=given_filter, max_rounds=1)
    honest = [name for name in NAMES[:4] if name != liar]
    assert play.outcome.trace[0]["filtered"] == {name: {liar: None} for name in honest}


@pytest.mark.promise("Each honest agent scores what it heard in one more question; a failed score drops nobody.")
@pytest.mark.parametrize("reply_format", ["json", "text", "two_steps"])
def test_scores_are_asked_for_and_decide(reply_format: str) -> None:
    agents = NAMES[:4]
    liar = with_outlier(game_of({}))
    honest = [name for name in agents if name != liar]
    judge, other, failing = honest
    scores: dict[str, Any] = {name: (0 if name == other else 9) for name in agents if name != judge}
    moves = {**ROUND_1, "1 score": {judge: scores, failing: {"raw": "none"}}}
    play = game_of(moves, filter={"scored": 1}, reply_format=reply_format, max_rounds=1, retries=0)
    judged = {x.ask.agent for x in play.exchanges if x.ask.phase == SCORE}
    assert judged == set(honest)
    ask = next(x.ask for x in play.exchanges if x.ask.phase == SCORE and x.ask.agent == judge)
    asked = " ".join(message["content"] for message in ask.messages)
    assert all(f"{name}: 20" in asked for name in agents if name != judge)
    assert ", ".join(scores) in ask.user
    filtered_now = play.outcome.trace[0]["filtered"]
    assert filtered_now[judge] == {other: None}
    assert failing not in filtered_now


SCORING = {"max_rounds": 1, "filter": {"scored": 1}}


def test_rules_score_by_the_distance_from_their_own_value() -> None:
    play = play_of(simulation_of("consensus", {"n": 4, "b": 0, "model": "majority"}, SCORING))
    scored = [x for x in play.exchanges if x.ask.phase == SCORE]
    assert len(scored) == len(play.outcome.trace[0]["filtered"]) == 4
    assert all(x.reply.value is not None for x in scored)


# As a parameter


@pytest.mark.promise("A filter is an axis with short labels; a study without one keeps its identity.")
def test_a_filter_is_an_axis_and_none_is_left_out_of_identities(study_factory: StudyFactory) -> None:
    study = study_factory({"vary": {"filter": ["none", *FILTERS]}})
    labels = ["none", "trim-1", "reputation-1", "scored-1"]
    assert [condition.axes["filter"] for condition in study.conditions] == labels
    unfiltered = study_factory({}).conditions[0]
    assert study.conditions[0].identity == unfiltered.identity
    assert not unfiltered.parameters.model_dump().keys() & {"filter", "score"}
    assert len({condition.identity for condition in study.conditions}) == len(labels)
    parameters = study.conditions[1].parameters
    assert ConsensusParameters.model_validate(parameters.model_dump(mode="json")) == parameters


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"filter": {"trim": 3}}, "4 agents hear 3 others, and none would be left; lower f to 2 or less"),
    ({"filter": {"trim": 0}}, "write {trim: 1}, or a larger"),
    ({"filter": "trim"}, "write {trim: 1}"),
    ({"filter": {"trim": 1}, "protocol": "swarms"}, "filter has no effect with protocol: swarms"),
]


@pytest.mark.parametrize(("parameters", "why"), REFUSED)
def test_what_cannot_be_filtered_is_refused_in_one_line(parameters: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why) as refused:
        ConsensusGame.check(validated(ConsensusParameters, parameters, "parameters"), [Group("honest", 4)])
    assert len(str(refused.value).splitlines()) <= len(parameters["filter"])


# Afterwards


@pytest.mark.promise("A game with a filter replays; the explorer shows who did not hear what.")
@pytest.mark.parametrize("given_filter", FILTERS)
def test_a_filtered_game_replays_and_the_explorer_has_what_was_dropped(
    study_factory: StudyFactory, given_filter: dict[str, int]
) -> None:
    grid = {"n": 4, "b": 1, "byzantine": "random"}
    study = study_factory(grid, parameters={"max_rounds": 4, "stop_threshold": 1, "filter": given_filter})
    [path] = play_all(study)
    assert replay(path).difference is None
    [game] = data_of(study)
    unheard = {
        (name, entry["round"]): of for entry in read_trace(path) for name, of in entry.get("filtered", {}).items()
    }
    assert unheard
    assert set(game["unheard"]) == set(unheard)
    for place, said in game["unheard"].items():
        assert [each.partition(":")[0] for each in said] == list(unheard[place])
