"""The vote after a deliberation: who is asked what, which ballots count, and what each rule makes of them."""

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from parley.errors import UsageError
from parley.games.deliberation.ballots import BALLOT, BALLOT_RULES, borda, instant_runoff, labels
from parley.games.deliberation.decisions import ballot_decisions, decisions
from parley.games.deliberation.game import DeliberationGame
from parley.games.deliberation.parameters import DeliberationParameters, DeliberationView
from parley.games.deliberation.policies import POLICIES
from parley.games.evidence import Decision
from parley.games.parameters import Group
from parley.play.record import write_record
from parley.play.replay import replay
from parley.play.runner import Play
from parley.policies import Ask
from parley.policies.kinds import ChosenPolicy
from parley.text.yamlfile import validated
from support.pages import data_of, recorded
from support.playing import EIGHTEEN, play_of
from support.playthrough import by_hand, simulation_of
from support.studies import StudyFactory

VOTES: list[Any] = ["ranked", "approval", "cumulative", "confidence", {"judge": "outside"}, {"judge": "one_of_them"}]
THIRD = Fraction(2, 3)
NAMES = [f"agent_{number}" for number in range(1, 6)]

# Elections by hand, about candidates that are called by their letters


def decided(answers: str, vote: str, ballots: Sequence[Mapping[str, int]], right: str) -> dict[str, str | None]:
    """Return what each rule decides, of first answers that are all different, these last ones, and ballots."""
    names = [f"agent_{place}" for place in range(len(answers))]
    rules = {"turns": 1, "stop_when_unanimous": False}
    trace: list[Any] = [
        {"session": 0, "turn": turn, "answers": dict(zip(names, given, strict=True)), "rules": rules}
        for turn, given in enumerate(([str(place) for place in range(len(answers))], answers))
    ]
    trace[-1]["vote"] = {
        "kind": vote,
        "candidates": {letter: letter for letter in answers},
        "ballots": dict(zip(names, ballots, strict=False)),
    }
    return {each.rule: each.value for each in decisions(right, THIRD, names, trace, vote) if each.answers != "first"}


def ranks(*orders: tuple[str, int]) -> list[dict[str, int]]:
    return [{letter: rank for rank, letter in enumerate(order, 1)} for order, times in orders for _ in range(times)]


# Nine agents: `a` leads, `b` is never last, and `c` wins once those who are for `b` have to choose.
NINE = ranks(("bca", 2), ("cba", 3), ("abc", 4))
ELECTIONS: list[tuple[str, str, str, list[dict[str, int]], str]] = [
    ("plurality", "bbcccaaaa", "ranked", NINE, "a"),
    ("borda", "bbcccaaaa", "ranked", NINE, "b"),
    ("instant_runoff", "bbcccaaaa", "ranked", NINE, "c"),
    ("approval", "aabbc", "approval", [{"a": 1, "c": 1}, {"c": 1}, {"b": 1, "c": 1}, {"b": 1}, {"c": 1}], "c"),
    ("cumulative", "aaabc", "cumulative", [{"a": 5, "c": 5}] * 3 + [{"b": 4, "c": 6}, {"c": 10}], "c"),
    ("confidence", "aaabc", "confidence", [{"a": 30}] * 3 + [{"b": 90}, {"c": 95}], "c"),
    ("judge", "aaabc", "judge_outside", [{"c": 1}], "c"),
    ("judge", "aaabc", "judge_one_of_them", [{"c": 1}], "c"),
]


@pytest.mark.promise("Every rule of a ballot has an election by hand in which it and no other rule of the game wins.")
@pytest.mark.parametrize(("rule", "answers", "vote", "ballots", "right"), ELECTIONS)
def test_an_election_that_one_rule_gets_right(
    rule: str, answers: str, vote: str, ballots: list[dict[str, int]], right: str
) -> None:
    found = decided(answers, vote, ballots, right)
    assert [name for name, value in found.items() if value == right] == [rule]
    assert {*BALLOT_RULES[vote]} <= {*found}


def test_without_a_ballot_of_honest_agents_they_decide_nothing() -> None:
    """Such games count, too: no decision is not right. Where another one was the judge, they had no say."""
    last: Any = {"vote": {"kind": "confidence", "candidates": {"A": "a", "B": "b"}, "ballots": {"x": {"A": 1}}}}
    assert ballot_decisions("confidence", last, []) == {"confidence": None}
    assert ballot_decisions("judge_one_of_them", last, []) == {}


def test_graded_consensus_accepts_what_all_selections_share() -> None:
    given = [("x", "y"), ("x", "z"), ("x",)]
    answers = {str(k): list(of) for k, of in enumerate(given)}
    trace: list[Any] = [{"session": 0, "turn": 0, "answers": answers, "rules": {"turns": 0}}]
    found = {each.rule: each.value for each in decisions(None, THIRD, ["0", "1", "2"], trace)}
    assert [rule for rule, value in found.items() if value == "x"] == ["graded"]


@pytest.mark.promise("A tie of a ballot decides nothing, and neither do ballots without a point.")
@pytest.mark.parametrize(
    ("vote", "ballots"),
    [
        ("ranked", ranks(("abc", 1), ("bca", 1), ("cab", 1))),
        ("ranked", ranks(("ab", 2), ("ba", 2))),
        ("approval", [{"a": 1, "b": 1}, {"a": 0, "b": 0}]),
        ("approval", [{"a": 0, "b": 0}] * 2),
        ("cumulative", [{"a": 7, "b": 3}, {"a": 3, "b": 7}]),
        ("confidence", [{"a": 40}, {"b": 20}, {"b": 20}]),
        ("confidence", [{"a": 0}, {"b": 0}]),
        ("judge_outside", []),
    ],
)
def test_ties_decide_nothing(vote: str, ballots: list[dict[str, int]]) -> None:
    assert [rule(ballots) for rule in BALLOT_RULES[vote].values()] == [None] * len(BALLOT_RULES[vote])


def test_who_is_first_on_the_fewest_leaves_together_only_where_the_order_changes_nothing() -> None:
    assert instant_runoff(ranks(("abcd", 4), ("bacd", 3), ("cbad", 1), ("dbac", 1))) == "b"
    assert instant_runoff(ranks(("abc", 4), ("bca", 2), ("cba", 2))) is None  # either could go on to tie with `a`


orders = some.integers(2, 5).flatmap(lambda k: some.lists(some.permutations("abcde"[:k]), min_size=1, max_size=9))


@pytest.mark.promise("Borda and instant runoff treat candidates and voters alike, and elect whom all rank first.")
@given(orders=orders, data=some.data())
def test_neither_names_nor_the_order_of_ballots_matter(orders: list[list[str]], data: Any) -> None:
    ballots = ranks(*(("".join(order), 1) for order in orders))
    renamed = dict(zip(sorted(orders[0]), data.draw(some.permutations(orders[0])), strict=True))
    others = [{renamed[letter]: rank for letter, rank in ballot.items()} for ballot in ballots]
    for rule in (borda, instant_runoff):
        winner = rule(ballots)
        assert rule(data.draw(some.permutations(others))) == (winner and renamed[winner])
        first = orders[0][0]
        agreed = ranks(*((first + "".join(order).replace(first, ""), 1) for order in orders))
        assert rule(agreed) == first


# In games


def voted(answers: list[Any], vote: Any, ballots: Any = None, grid: Any = None, **parameters: Any) -> Play:
    """Play honest agents who answer so, and vote so."""
    moves = {"0 initial": answers} | ({} if ballots is None else {f"0 {BALLOT}": ballots})
    given = {"turns": 0, "decision": vote, "reply_format": "json", "retries": 0, **parameters}
    return by_hand(simulation_of("deliberation", {"n": len(answers), **(grid or {})}, given).game(), moves)


def ballot_asks(play: Play) -> list[Ask]:
    return [x.ask for x in play.exchanges if x.ask.phase == BALLOT]


@pytest.mark.promise("Each vote is asked once, after the last turn, about lettered answers without names.")
@pytest.mark.parametrize(
    ("problems", "reply_format"), [("arithmetic", "json"), ("wason", "text"), ("policies", "two_steps")]
)
@pytest.mark.parametrize("vote", VOTES)
def test_agents_vote_on_what_is_left(vote: Any, problems: str, reply_format: str) -> None:
    given = {"turns": 1, "problems": problems, "reply_format": reply_format, "panel_size": 4, "decision": vote}
    given["stop_when_unanimous"] = False
    game = simulation_of("deliberation", {"n": 5, "b": 1}, given).game()
    options = game.problem.options or ("8", "9", "10")
    said = [[option] if problems == "policies" else option for option in (*options[:2], *options[:3])]
    play = by_hand(game, {"0 initial": said, "1 reflect": said})
    asks, found = ballot_asks(play), play.outcome.trace[-1]["vote"]
    panel = {*play.outcome.trace[-1]["answers"]}
    asked = {ask.agent for ask in asks}
    assert asked == panel if isinstance(vote, str) else len(asked) == 1
    assert asked <= panel if vote != {"judge": "outside"} else asked.isdisjoint(panel)
    assert {ask.round for ask in asks} == {1}
    assert list(found["candidates"]) == ["A", "B", "C"][: len(found["candidates"])]
    for ask in asks:
        texts = "\n".join(message["content"] for message in ask.messages)
        assert not any(f"{name}:" in texts for name in panel)
        assert all(f"  {letter}: " in texts for letter in found["candidates"])
        assert "{" not in texts
        assert ("push" in texts) == (ask.role == "byzantine")
    assert None not in found["ballots"].values()
    assert {each.answers for each in rules_of(play, given)} == {"first", "last", "course", "ballot"}


def rules_of(play: Play, parameters: Mapping[str, Any]) -> list[Decision]:
    p = validated(DeliberationParameters, dict(parameters), "parameters")
    return list(decisions(play.outcome.metrics["right_answer"], p.theta, NAMES, play.outcome.trace, p.decision))


def test_without_two_answers_nobody_is_asked_and_all_rules_have_the_one_there_is() -> None:
    for said, expected in (["8", "8", "8 or 9"], "8"), ([None, "8 or 9", None], None):
        play = voted(said, "ranked")
        assert ballot_asks(play) == []
        rows = [each for each in rules_of(play, {"decision": "ranked"}) if each.answers == "ballot"]
        assert [(each.rule, each.value) for each in rows] == [("borda", expected), ("instant_runoff", expected)]
    assert {each.answers for each in rules_of(play, {})} == {"first"}


@pytest.mark.promise(
    "A ballot is read strictly: ranks each once, ten points in all; one that is not counts for nothing."
)
@pytest.mark.parametrize(
    ("vote", "right", "wrong"),
    [
        ("ranked", {"A": 2, "B": 1}, {"A": 1, "B": 1}),
        ("cumulative", {"A": 3, "B": 7}, {"A": 3, "B": 6}),
        ("approval", {"A": "yes", "B": "yes"}, {"A": "yes", "B": "perhaps"}),
        ("confidence", {"confidence": 100}, {"confidence": 101}),
        ({"judge": "one_of_them"}, {"choice": "B"}, {"choice": "C"}),
    ],
)
def test_ballots_are_read_strictly(vote: Any, right: dict[str, Any], wrong: dict[str, Any]) -> None:
    play = voted(["8", "9", "8"], vote, [right, wrong, right])
    failures = {x.ask.agent: x.reply.failure for x in play.exchanges if x.ask.phase == BALLOT}
    assert set(failures.values()) <= {None, "out_of_range"}
    ballots = play.outcome.trace[-1]["vote"]["ballots"]
    for name, ballot in ballots.items():
        assert (ballot is None) == (name == "agent_2") == (failures[name] is not None)
    if vote == "confidence":  # it is for one's own answer
        assert len({*ballots["agent_1"]} | {*ballots["agent_3"]}) == 1
    if vote == "ranked":
        assert {each.value for each in rules_of(play, {"decision": vote}) if each.answers == "ballot"} == {
            play.outcome.trace[-1]["vote"]["candidates"]["B"]
        }


def test_only_who_has_an_answer_is_asked_how_sure_it_is() -> None:
    assert {ask.agent for ask in ballot_asks(voted(["8", "9", None, "8 or 9"], "confidence"))} == {
        "agent_1",
        "agent_2",
    }


def test_choices_keep_their_letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = {"question": "Which is blue?", "choices": ["grass", "blood", "the sky"], "answer": "the sky"}
    (tmp_path / "own.jsonl").write_text(json.dumps(line | {"id": "blue"}) + "\n")
    play = voted(
        ["C", "B", "C"],
        "approval",
        problems={"kind": "jsonl", "answers": "choice", "path": str(tmp_path / "own.jsonl")},
    )
    assert play.outcome.trace[-1]["vote"]["candidates"] == {"B": "B", "C": "C"}
    ask = ballot_asks(play)[0]
    assert f'  B: "{ask.view.problem.options[1]}" | Argument' in ask.user  # in the order that was drawn


def test_labels_go_on_after_z() -> None:
    assert list(islice(labels(), 25, 29)) == ["Z", "AA", "AB", "AC"]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"decision": {"judge": "outside"}}, "4 of 4 agents may deliberate, and the judge is one who did not; lower"),
        ({"decision": {"judge": "outside"}, "panel_size": 2, "redeliberations": 1}, "4 of 4 agents may deliberate"),
        ({"decision": "borda"}, "decision"),
        ({"decision": {"judge": "somebody"}}, "decision"),
    ],
)
def test_what_cannot_be_voted_is_refused_in_one_line(given: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why) as refused:
        DeliberationGame.check(validated(DeliberationParameters, given, "parameters"), [Group("honest", 4)])
    assert "\n" not in str(refused.value)


@pytest.mark.promise(
    "Scripted adversaries vote for what they push, solvers for their own answer or what they recognize."
)
@pytest.mark.parametrize(
    ("name", "own", "given", "first"),
    [
        ("stubborn", "18", {}, "B"),
        ("persuader", "18", {}, "B"),
        ("solver", "17", {"accuracy": 1, "recognize": 0}, "C"),
        ("solver", "17", {"accuracy": 0, "recognize": 1}, "A"),
        ("solver", None, {"accuracy": 1}, "A"),
    ],
)
def test_how_scripted_agents_vote(name: str, own: str | None, given: dict[str, Any], first: str) -> None:
    policy = ChosenPolicy(POLICIES[name], POLICIES[name].Parameters(**given))
    heard = {"A": "18", "B": "3", "C": "17"}
    for vote, chosen in (("ranked", 1), ("approval", "yes"), ("cumulative", 10), ("judge_outside", first)):
        view = DeliberationView(BALLOT, "agent_9", "byzantine", 1, EIGHTEEN, own, heard, "3", vote=vote)
        assert policy.kind.rule is not None
        said = policy.rule(view, np.random.default_rng(0))
        assert [key for key, value in said.items() if value == chosen] == ["choice" if "choice" in said else first]


def test_a_game_with_a_vote_is_not_imported() -> None:
    p = DeliberationParameters(decision="approval")
    with pytest.raises(ValueError, match="cannot be imported"):
        DeliberationGame.imported_material(p, {}, {"problem": EIGHTEEN.as_json()})


def test_a_vote_changes_no_outcome() -> None:
    said = ["8", "9", "8", "8"]
    with_vote, without = (voted(said, vote).outcome for vote in ("ranked", "none"))
    assert (with_vote.name, with_vote.metrics) == (without.name, without.metrics)


@pytest.mark.promise("A game with a vote replays, and the explorer has what the vote decides.")
@pytest.mark.parametrize("vote", VOTES)
def test_a_vote_of_scripted_agents_replays_and_is_shown(study_factory: StudyFactory, vote: Any) -> None:
    grid = {
        "model": {"name": "solver", "accuracy": 0.5, "recognize": 0.3},
        "n": 5,
        "b": 2,
        "byzantine": ["stubborn", "persuader", "silent", "random"],
        "prompt": "improve",
    }
    parameters = {"panel_size": 3, "decision": vote}
    study = study_factory(grid, {**grid, "model": "urn"}, game="deliberation", seeds=2, parameters=parameters)
    for simulation in study.simulations():
        play = play_of(simulation)
        write_record(simulation.record("small"), simulation, play, {})
        assert replay(simulation.record("small")).difference is None
    label = vote if isinstance(vote, str) else f"judge_{vote['judge']}"
    shown = [text for game in data_of(recorded(study)) for text in game["results"].values()]
    assert all(any(f"; {rule}: " in text for text in shown) for rule in BALLOT_RULES[label])
