"""What holds for all deliberations, and what can be none; docs/playthroughs shows how single ones go."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.errors import UsageError
from parley.games.base import Game, new_game
from parley.games.deliberation.game import DeliberationGame
from parley.games.deliberation.parameters import DeliberationParameters, DeliberationView
from parley.games.parameters import Group
from parley.games.problems.problem import Problem
from parley.play.runner import play
from parley.policies import Reply
from parley.policies.kinds import ScriptedPolicy
from support.playing import answering, drive, new_deliberation
from support.playthrough import simulation_of


def new(grid: dict[str, Any] | None = None, seed: int = 0, **parameters: Any) -> Game:
    return simulation_of("deliberation", grid or {}, {"reply_format": "json", **parameters}, seed).game()


def agents(honest: int, byzantine: int = 0) -> list[Group]:
    return [Group("honest", honest), Group("byzantine", byzantine)]


# What can be played

CANNOT_BE_PLAYED: list[tuple[dict[str, Any], list[Group], str]] = [
    ({}, agents(0, 3), "an honest agent"),
    ({"panel_size": 4}, agents(3), "panel_size: 4"),
    ({"panel_size": 3, "redeliberations": 1}, agents(3), "redeliberations: 1: 1 panels of 3"),
    ({"panel_size": 1, "redeliberations": 2}, agents(2, 4), "redeliberations: 2: 2 panels of 1"),
]
OUT_OF_RANGE: list[dict[str, Any]] = [
    {"hears": "nobody", "problems": "policies"},
    {"redeliberations": 1},
    {"talk": 2, "turns": 0},
    {"talk": 2, "turns": 2},
]


def test_what_cannot_be_played_is_refused() -> None:
    for parameters, groups, named in CANNOT_BE_PLAYED:
        with pytest.raises(UsageError, match=named):
            DeliberationGame.check(DeliberationParameters(**parameters), groups)
    at_the_limit = {"panel_size": 1, "redeliberations": 1, "fewest_honest": 1, "reading": "strict"}
    DeliberationGame.check(DeliberationParameters(**at_the_limit), agents(2, 4))
    for parameters in OUT_OF_RANGE:
        with pytest.raises(ValueError, match=next(iter(parameters))):
            DeliberationParameters(**parameters)


# Who hears what

REPLY = {"answer": "7", "argument": "I counted to seven."}


def asks_of(game: Game) -> list[list[Any]]:
    """Return what is asked in each phase of a game in which all give one reply."""
    return drive(game, lambda ask: Reply(ask.reply_model.model_validate(REPLY)))[0]


@pytest.mark.promise(
    "Speaking in turn, agents hear those before them as they have just answered; at once, nobody does."
)
@pytest.mark.parametrize(
    ("order", "second"),
    [("at_once", ["4", "1", "2", "3"]), ("in_turn", ["4", "4", "4", "4"])],
)
def test_who_repeats_the_agent_before_it_says_in_turn_what_that_one_has_just_said(
    order: str, second: list[str]
) -> None:
    """Four agents say 1 to 4, then each what it hears of the one before it, the first of them of the last."""

    def repeat(view: DeliberationView, rng: object) -> dict[str, str]:
        number = int(view.agent[-1])
        answer = view.heard.get(f"agent_{(number - 2) % 4 + 1}") or number
        return {"argument": "So it was said.", "answer": str(answer)}

    game = new_deliberation("hhhh", order=order, turns=1, reply_format="json")
    played = play("game", game, {seat.name: ScriptedPolicy(repeat) for seat in game.seats})
    first, last = played.outcome.trace
    assert (list(first["answers"].values()), list(last["answers"].values())) == (["1", "2", "3", "4"], second)
    told = [exchange.ask.user for exchange in played.exchanges if exchange.ask.phase == "reflect"]
    assert [f'agent_{(place - 1) % 4 + 1}: "{answer}"' in told[place] for place, answer in enumerate(second)] == [
        True
    ] * 4
    # Of the three others that an agent hears no answer leads; in turn the third and the fourth hear 4 lead.
    assert last["measures"]["conformity"] == (1.0 if order == "in_turn" else None)


def test_agents_that_speak_in_turn_take_their_times_together() -> None:
    for order, ends in (("at_once", "turn_limit"), ("in_turn", "time_limit")):
        game = new_deliberation("hh", order=order, turns=1, time_limit=5, reply_format="json")
        _, outcome = drive(game, lambda ask: answering(ask, ask.agent[-1], 2000))
        assert outcome.detail == ends


@pytest.mark.promise("Who hears nobody is told of nobody, and asked as often as who talks.")
def test_who_hears_nobody_gets_its_own_answer_alone() -> None:
    talk, alone = (asks_of(new({"n": 3}, hears=hears, stop_when_unanimous=False)) for hears in ("all", "nobody"))
    assert [len(asks) for asks in alone] == [len(asks) for asks in talk] == [3, 3, 3]
    for ask in [ask for asks in alone for ask in asks]:
        assert not ask.view.heard
        others = {f"agent_{number}" for number in (1, 2, 3)} - {ask.agent}
        assert not any(word in ask.system + ask.user for word in (*others, "others", "agree", "deliberate"))
        assert ask.user.count(REPLY["argument"]) == (ask.phase == "reflect")


@pytest.mark.promise(
    "A placebo brings the answers of others to another problem, once asked, and none to the one at hand."
)
@pytest.mark.parametrize("problems", ["arithmetic", {"kind": "arithmetic", "first": 2}])
def test_a_placebo_is_of_another_problem(problems: Any) -> None:
    for seed in range(8):
        talk: Any = new({"n": 3, "b": 1}, seed, problems=problems)
        game: Any = new({"n": 3, "b": 1}, seed, problems=problems, hears="another_problem", stop_when_unanimous=False)
        assert (game.problem, game.target) == (talk.problem, talk.target)
        assert game.another.question != game.problem.question
        first, *later = asks_of(game)
        assert [ask.phase for ask in first] == ["another_problem"] * 3
        assert all(ask.view.problem == game.another for ask in first)
        assert {ask.view.target for ask in first if ask.role == "byzantine"} == {game._other_target}
        for ask in [ask for asks in later for ask in asks]:
            assert (ask.view.problem, ask.view.heard) == (game.problem, {})
            assert game.problem.question in ask.user
            assert (game.another.question in ask.user) == (ask.phase == "reflect")
            assert ask.user.count(REPLY["argument"]) == (3 if ask.phase == "reflect" else 0)
        assert not any(heard for entry in game.trace for heard in entry["heard"].values())
    with pytest.raises(ValueError, match="problem"):
        new_game(DeliberationGame, game.parameters, agents(2), "improve", 0, game.problem.as_json())


def test_a_turn_takes_as_long_as_its_slowest_reply() -> None:
    game = new_deliberation("hh", time_limit=2, turns=3, stop_when_unanimous=False)
    turns, _ = drive(game, lambda ask: answering(ask, "18", 1000 * (ask.agent == "agent_2")))
    assert len(turns) == 2


# Who deliberates on what


@pytest.mark.promise("A hung problem is never given to the same agents twice.")
@settings(max_examples=40)
@given(st.integers(2, 6), st.integers(1, 5), st.integers(1, 3), st.integers(0, 99))
def test_no_panel_is_drawn_twice_and_each_has_an_honest_agent(n: int, size: int, honest: int, seed: int) -> None:
    size, honest = min(size, n - 1), min(honest, n)
    again = 1 if size > 1 or honest > 1 else 0
    parameters = DeliberationParameters(turns=0, panel_size=size, redeliberations=again)
    game = new_game(DeliberationGame, parameters, agents(honest, n - honest), "improve", seed)
    trusted = {seat.name for seat in game.seats if seat.role == "honest"}
    drawn = [tuple(ask.agent for ask in asks) for asks in drive(game, lambda ask: Reply(None, "refused"))[0]]
    assert len(drawn) == len({*drawn}) == 1 + again
    for panel in drawn:
        assert len(panel) == size
        assert trusted & {*panel}
        assert list(panel) == sorted(panel)
    everyone = new_game(DeliberationGame, DeliberationParameters(), agents(honest, n - honest), "improve", seed)
    assert [ask.agent for ask in next(everyone.play())] == [f"agent_{place + 1}" for place in range(n)]


def test_a_share_of_the_agents_answers_first_by_chain_of_thought() -> None:
    for share, n, number in ((0, 4, 0), ("1/2", 4, 2), ("1/2", 5, 3), ("1/3", 4, 1), (1, 4, 4)):
        asks = next(new({"n": n}, cot_share=share).play())
        first = [next(iter(ask.reply_model.model_fields)) for ask in asks]
        assert first.count("argument") == number, (share, n)


def test_the_same_seed_has_the_same_problem_and_target_whoever_plays() -> None:
    for seed in range(5):
        each = (agents(3), agents(5), agents(4, 1))
        games: Any = [new_game(DeliberationGame, DeliberationParameters(), groups, "improve", seed) for groups in each]
        assert len({(game.problem.id, game.target) for game in games}) == 1


def test_a_records_problem_is_played_and_not_drawn_again() -> None:
    eighteen = Problem("eighteen", "number", "What is {target} in {agents}?", "18")
    game: Any = new_game(DeliberationGame, DeliberationParameters(), agents(2), "improve", 0, eighteen.as_json())
    assert game.problem == eighteen
    assert all(eighteen.question in ask.user for ask in next(game.play()))  # its braces are no places
    with pytest.raises(ValueError, match="problem"):
        new_game(DeliberationGame, DeliberationParameters(), agents(2), "improve", 0, {"id": 7})


@pytest.mark.promise("Prompts of honest agents leak neither the right answer nor the adversaries' target.")
def test_honest_agents_are_told_neither_the_right_answer_nor_the_target() -> None:
    for seed in range(20):
        parameters = DeliberationParameters(reply_format="json")
        game: Any = new_game(DeliberationGame, parameters, agents(1, 1), "improve", seed)
        for ask in next(game.play()):
            told = [ask.agent[6:], "2"] + ([] if ask.role == "honest" else [game.target])
            assert re.findall(r"-?[\d/]+", ask.system) == told
            assert ask.view.target == (None if ask.role == "honest" else game.target)
