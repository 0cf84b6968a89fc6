"""Formats of replies in played games: two steps are two asks, and scripted agents always answer in JSON."""

import json
from collections.abc import Callable, Mapping
from typing import get_args

import pytest

from parley.games.base import Game
from parley.games.playing import playing
from parley.games.stag_hunt.policies import POLICIES
from parley.play.runner import Play, play
from parley.policies import Policy, ReplyFormat
from parley.policies.kinds import ChosenPolicy, PolicyKind, PolicyParameters
from parley.policies.reply_text import labels_first
from support.playing import CHOICES, new_consensus, new_deliberation, new_hunt
from support.replies import FREELY, Answering

pytestmark = pytest.mark.promise("The same replies come to the same end in every reply format.")

ID = "b" * 64


def run(game: Game, policy: Policy, others: Mapping[str, Policy] | None = None) -> Play:
    return play(ID, game, {**{seat.name: policy for seat in game.seats}, **(others or {})})


GAMES: Mapping[str, Callable[..., Game]] = {
    "consensus": lambda **given: new_consensus("hb", max_rounds=2, **given),
    "turns": lambda **given: new_consensus("hb", max_rounds=2, protocol="swarms", **given),
    "deliberation": lambda **given: new_deliberation("hhb", turns=1, stop_when_unanimous=False, **given),
    "policies": lambda **given: new_deliberation("hh", turns=0, problem=CHOICES, problems="policies", **given),
    "stag_hunt": lambda **given: new_hunt("hhb", rounds=2, **given),
}


@pytest.mark.parametrize("name", GAMES)
def test_a_game_comes_to_the_same_end_in_every_format_and_each_asks_for_its_own(name: str) -> None:
    policies = {written: Answering() for written in get_args(ReplyFormat)}
    played = [run(GAMES[name](reply_format=written), policy) for written, policy in policies.items()]
    assert len({json.dumps(one.outcome.as_json(), sort_keys=True).replace("\\n", " ") for one in played}) == 1
    assert {x.reply.failure for one in played for x in one.exchanges} == {None}
    as_json, as_text, in_steps = ([x.ask for x in one.exchanges] for one in played)
    thoughts = [ask for ask in in_steps if ask.phase.endswith("_think")]
    assert len(as_json) == len(as_text) == len(in_steps) - len(thoughts)
    # Only an answer that is given before its argument is asked for at once.
    assert len(thoughts) == len(as_json) - sum(labels_first(ask.reply_model) for ask in as_json)
    for ask in as_text:
        assert "JSON" not in ask.system + ask.user
        for line in policies["text"].said(ask).split("\n"):
            label, colon, _ = line.partition(": ")
            assert not colon or f'"{label}:"' in ask.user
    second = {(ask.round, ask.phase, ask.agent): ask for ask in in_steps if ask.reply_format == "json"}
    for ask in thoughts:
        after = second[ask.round, ask.phase.removesuffix("_think"), ask.agent]
        assert "JSON" not in ask.system + ask.user
        answered = [{"role": "assistant", "content": FREELY}, {"role": "user", "content": after.user}]
        assert after.messages == [*ask.messages, *answered]
        assert "Now reply with JSON" in after.user
        assert all(f'"{field}"' in after.user for field in after.reply_model.model_fields)
        assert not {"internal_strategy", "argument", "reasoning"} & {*after.reply_model.model_fields}
        assert ask.digest != after.digest


def phases(played: Play, agent: str) -> list[tuple[str, int, str | None]]:
    return [(x.ask.phase, x.entry.attempt, x.reply.failure) for x in played.exchanges if x.ask.agent == agent]


def test_without_a_first_step_there_is_no_second() -> None:
    for free, finish, failure in (
        (FREELY, "content_filter", "refused"),
        (" \n", "stop", "invalid_json"),
        ("", "length", "length"),
    ):
        game = new_consensus("hh", max_rounds=1, reply_format="two_steps", retries=1)
        failing = Answering(free, {"propose_think": finish, "vote_think": finish})
        played = run(game, Answering(), {"agent_2": failing})
        steps = [(phase, attempt, failure) for phase in ("propose_think", "vote_think") for attempt in (0, 1)]
        assert phases(played, "agent_2") == steps
        asked = [phase for phase, *_ in phases(played, "agent_1")]
        assert asked == ["propose_think", "propose", "vote_think", "vote"]
        assert played.outcome.trace[0]["proposals"] == {"agent_1": 7, "agent_2": None}


def test_scripted_agents_and_code_of_ones_own_answer_in_json_in_one_step() -> None:
    own = ChosenPolicy(PolicyKind("mine:Mine", fingerprint="f" * 64), PolicyParameters())
    betrayer = ChosenPolicy(POLICIES["betray"], POLICIES["betray"].Parameters())
    for written in get_args(ReplyFormat):
        for policy in (own, betrayer):
            game = new_hunt("hhb", rounds=1, reply_format=written, policies={"byzantine": policy})
            asks = {ask.agent: (ask.reply_format, ask.phase) for ask in next(playing(game))}
            assert asks["agent_1"][0] == ("free" if written == "two_steps" else written)
            assert "agent_3" not in asks or asks["agent_3"] == ("json", "signal")
