"""`rules: published`: the paper's prompts, its repeated question, and rounds that count for nothing."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from parley.games.base import Outcome
from parley.games.network.graph import Network
from parley.games.stag_hunt.game import StagHuntGame
from parley.games.stag_hunt.parameters import StagHuntParameters
from parley.policies import Ask, Reply
from parley.policies.parsing import parse_reply
from parley.study.prompt_sent import asked
from support.hunting import chosen, new_hunt
from support.studies import StudyFactory

PAPER: dict[str, Any] = {"rules": "published"}
STAR = Network.of_edges(4, [(0, 1), (0, 2), (0, 3)])
RING = Network.of_edges(4, [(0, 1), (1, 2), (2, 3), (3, 0)])
SPOKE_TOLD = "You can only see the hub player's (Agent_1) message. Other players' messages are hidden from you."


def sent(
    player: int, number: int, phase: str, network: Network | None = None, roles: str = "hhhb", **given: Any
) -> str:
    game = new_hunt(roles, network, {"byzantine": chosen("betray")}, **PAPER, **given)
    wanted = (f"agent_{player}", number, phase)
    return next(ask.user for ask in asked(game, 0) if (ask.agent, ask.round, ask.phase) == wanted)


def play(game: StagHuntGame, broken: dict[tuple[int, str, str], str]) -> tuple[list[Ask], Outcome]:
    """Play with models that all hunt the stag, but for replies that are given as text, by round, phase and agent."""
    good = {
        "signal": {"reasoning": "", "action": {"type": "communicate", "word": "stag"}},
        "act": {"reasoning": "", "action": {"choice": "Hunt Stag"}},
    }

    def answer(ask: Ask) -> Reply:
        text = broken.get((ask.round, ask.phase, ask.agent), json.dumps(good[ask.phase.removesuffix("_again")]))
        return parse_reply(text, "stop", ask.reply_model)

    playing, seen = game.play(), []
    asks = next(playing)
    while True:
        seen += asks
        try:
            asks = playing.send([answer(ask) for ask in asks])
        except StopIteration as end:
            return seen, end.value


def test_its_defaults_are_the_papers() -> None:
    p = StagHuntParameters(**PAPER)
    assert (p.rounds, p.retries, p.show_points, p.history_rounds) == (5, 0, True, None)
    assert [(s.temperature, s.max_tokens) for s in (p.signal, p.act)] == [(0.0, 512)] * 2
    assert StagHuntParameters(**PAPER, rounds=3).rounds == 3


def test_it_is_part_of_the_identity_only_where_it_is_set(study_factory: StudyFactory) -> None:
    grid = {"model": "grim_trigger", "prompt": "plain"}
    plain, told, paper, preset = (
        study_factory(grid, game="stag_hunt", parameters=parameters).conditions[0].identity
        for parameters in ({}, {"rules": "parley"}, PAPER, {"count_told": True, "hides": "words+actions"})
    )
    assert plain == told == preset != paper


@pytest.mark.parametrize("given", [{"stag": 9}, {"needed": 3}, {"cheap_talk": False}, {"reply_format": "text"}])
def test_what_its_prompts_do_not_say_cannot_be_played(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=f"its prompts are for {next(iter(given))}: "):
        StagHuntParameters(**PAPER, **given)


def test_the_prompts_are_told_of_as_many_players_as_there_are() -> None:
    assert "a Stag Hunt Game with N=6 players" in sent(2, 1, "signal", roles="hhhhhb")
    act = sent(2, 2, "act", roles="hhhhhb")
    assert "There are 6 players in total." in act
    assert "If ALL 6 players choose" in act
    assert "The 6 words broadcast by all players" in act
    assert " 4 " not in sent(2, 1, "act", roles="hhhhhb").replace("Round 4", "")


def test_the_history_has_the_points_of_all_by_their_own_numbers() -> None:
    assert (
        '### GAME HISTORY\nRound 1:\n  Agent_1: "stag", then Hunt Stag (0 points)\n  Agent_2: "stag", then Hunt Stag '
        '(0 points)\n  Agent_3: "stag", then Hunt Stag (0 points)\n  Agent_4: "stag", then Hunt Hare (3 points)\n'
    ) in sent(2, 2, "act")


def test_explicit_hides_words_and_only_from_those_who_act() -> None:
    star: dict[str, Any] = {"topology": "star", "disclosure": "explicit"}
    spoke = sent(2, 2, "act", STAR, **star)
    assert f"### COMMUNICATION VISIBILITY\n{SPOKE_TOLD}\n\n### MESSAGES YOU CAN SEE\n  Agent_1: " in spoke
    assert '"... Consider what unseen players might have said. Is it safe to cooperate?"' in spoke
    assert "\n  Agent_4: Hunt Hare (3 points)" in spoke
    assert '\n  Agent_4: "stag", then Hunt Hare (3 points)' in sent(2, 2, "signal", STAR, **star)
    assert "You are the central hub. You can see all players' messages." in sent(1, 1, "act", STAR, **star)
    ring = sent(1, 1, "act", RING, topology="ring", disclosure="explicit")
    assert "from your neighbors: Agent_2, Agent_4. Other" in ring


def test_silent_hides_words_actions_and_points_everywhere_and_tells_no_count() -> None:
    for phase in ("signal", "act"):
        spoke = sent(2, 2, phase, STAR, topology="star", disclosure="silent")
        assert "Agent_3" not in spoke
        assert "4" not in spoke
        assert "COMMUNICATION VISIBILITY" not in spoke
    assert "with a group of players" in sent(2, 1, "signal", STAR, topology="star", disclosure="silent")


def test_a_malformed_reply_is_asked_for_once_more_with_a_reminder() -> None:
    asks, outcome = play(new_hunt(**PAPER, rounds=2), {(1, "act", "agent_2"): "no JSON"})
    [again] = [ask for ask in asks if ask.phase == "act_again"]
    first = next(ask for ask in asks if (ask.agent, ask.phase) == ("agent_2", "act"))
    assert again.user.startswith(first.user + "\n\nYour last reply could not be read.")
    assert (again.agent, again.round, again.reply_model) == ("agent_2", 1, first.reply_model)
    assert outcome.metrics["excluded_rounds"] == 0
    assert outcome.name == "cooperation"


@pytest.mark.parametrize("phase", ["signal", "act"])
def test_a_round_whose_reply_stays_malformed_counts_for_nothing(phase: str) -> None:
    bad = {(2, f"{phase}{again}", "agent_2"): "no JSON" for again in ("", "_again")}
    asks, outcome = play(new_hunt(**PAPER, rounds=2), bad)
    assert sum(ask.phase.endswith("_again") for ask in asks) == 1
    assert [entry.get("excluded", False) for entry in outcome.trace] == [False, True]
    assert set(outcome.trace[1]["measures"].values()) == {None}
    assert {
        name: outcome.metrics[name] for name in ("excluded_rounds", "stag_share", "honest_payoff", "successes")
    } == {
        "excluded_rounds": 1,
        "stag_share": 1,
        "honest_payoff": 10,
        "successes": 1,
    }
    assert outcome.name == "cooperation"  # of the last round that counts


def test_a_game_without_a_round_that_counts_has_an_outcome_of_its_own() -> None:
    bad = {(n, f"act{again}", "agent_1"): "{}" for n in (1, 2) for again in ("", "_again")}
    _, outcome = play(new_hunt("hhhb", **PAPER, rounds=2), bad)
    assert outcome.name == "excluded"
    assert [outcome.metrics[name] for name in ("stag_share", "honest_payoff", "loss", "recovered")] == [None] * 4


def test_reactions_are_read_from_rounds_that_count() -> None:
    hare = '{"reasoning": "", "action": {"choice": "Hunt Hare"}}'
    betrayed = {(1, "act", "agent_4"): hare, (3, "act", "agent_1"): hare}
    _, outcome = play(new_hunt("hhhb", **PAPER, rounds=3), betrayed)
    assert outcome.metrics["rounds_until_retreat"] == 2
    lost = {(3, f"signal{again}", "agent_2"): "" for again in ("", "_again")}
    _, outcome = play(new_hunt("hhhb", **PAPER, rounds=3), {**betrayed, **lost})
    assert outcome.metrics["rounds_until_retreat"] is None
    assert outcome.metrics["after_betrayal"]["agent_1"]["stags"] == 1


def test_of_several_words_others_hear_the_first() -> None:
    said = '{"reasoning": "", "action": {"type": "communicate", "word": "stag, all of us"}}'
    _, outcome = play(new_hunt(**PAPER, rounds=1), {(1, "signal", "agent_3"): said})
    assert outcome.trace[0]["words"]["agent_3"] == "stag"
