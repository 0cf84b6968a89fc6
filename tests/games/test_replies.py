"""Formats of replies in played games: two steps are two asks, and scripted agents always answer in JSON."""

import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace

import pytest

from parley.games.base import Game, Outcome
from parley.games.replies import FreeText, playing, read_reply
from parley.games.stag_hunt.policies import POLICIES
from parley.play.runner import Exchange, Play, play
from parley.policies import REPLY_FORMATS, Ask, Completion, Policy, Reply
from parley.policies.kinds import ChosenPolicy, PolicyKind, PolicyParameters, ScriptedPolicy
from parley.policies.reply_text import labels_first
from support.answering_in_format import FREELY, Answering
from support.deliberating import CHOICES, new_deliberation
from support.hunting import chosen, new_hunt
from support.playing import new_consensus

ID = "b" * 64


def run(game: Game, policy: Policy, others: Mapping[str, Policy] | None = None) -> Play:
    return play(ID, game, {**{seat.name: policy for seat in game.seats}, **(others or {})})


GAMES: Mapping[str, Callable[..., Game]] = {
    "consensus": lambda **given: new_consensus("hb", max_rounds=2, **given),
    "turns": lambda **given: new_consensus("hb", max_rounds=2, protocol="swarms", **given),
    "deliberation": lambda **given: new_deliberation("hhb", turns=1, stop_when_unanimous=False, **given),
    "policies": lambda **given: new_deliberation("hh", turns=0, problem=CHOICES, **given),
    "stag_hunt": lambda **given: new_hunt("hhb", rounds=2, **given),
}


@pytest.mark.parametrize("name", GAMES)
def test_a_game_comes_to_the_same_end_in_every_format(name: str) -> None:
    played = [run(GAMES[name](reply_format=written), Answering()) for written in REPLY_FORMATS]
    assert len({json.dumps(one.outcome.as_json(), sort_keys=True).replace("\\n", " ") for one in played}) == 1
    for one in played:
        assert all(x.reply.failure is None for x in one.exchanges)
    as_json, as_text, in_steps = ([x.ask for x in one.exchanges] for one in played)
    thoughts = [ask for ask in in_steps if ask.phase.endswith("_think")]
    assert len(as_json) == len(as_text) == len(in_steps) - len(thoughts)
    # Only an answer that is given before its argument is asked for at once.
    assert len(thoughts) == len(as_json) - sum(labels_first(ask.reply_model) for ask in as_json)


@pytest.mark.parametrize("name", GAMES)
def test_two_steps_are_asked_in_one_chat(name: str) -> None:
    policy = Answering()
    run(GAMES[name](reply_format="two_steps"), policy)
    first = [ask for ask in policy.asks if ask.reply_format == "free"]
    second = {(ask.round, ask.phase, ask.agent): ask for ask in policy.asks if ask.reply_format == "json"}
    assert len(first) + sum(labels_first(ask.reply_model) for ask in second.values()) == len(second)
    for ask in first:
        after = second[ask.round, ask.phase.removesuffix("_think"), ask.agent]
        assert "JSON" not in ask.system + ask.user
        assert ask.messages == [{"role": "system", "content": ask.system}, {"role": "user", "content": ask.user}]
        assert after.messages == [
            *ask.messages,
            {"role": "assistant", "content": FREELY},
            {"role": "user", "content": after.user},
        ]
        assert "Now reply with JSON" in after.user
        for field in after.reply_model.model_fields:
            assert f'"{field}"' in after.user
        assert not {"internal_strategy", "argument", "reasoning"} & set(after.reply_model.model_fields)
        assert len({ask.digest, after.digest}) == 2


@pytest.mark.parametrize("name", GAMES)
def test_prompts_for_text_name_each_label_and_no_json(name: str) -> None:
    policy = Answering()
    run(GAMES[name](reply_format="text"), policy)
    for ask in policy.asks:
        assert "JSON" not in ask.system + ask.user
        for line in policy.said(ask).split("\n"):
            label, colon, _ = line.partition(": ")
            assert not colon or f'"{label}:"' in ask.user


def test_what_was_written_freely_becomes_the_free_field_cut_to_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    game = new_hunt("hh", rounds=1, reply_format="two_steps", reasoning_chars=9)
    plain, got = game.play, []

    def watched() -> Generator[list[Ask], list[Reply], Outcome]:
        steps = plain()
        asks = next(steps)
        while True:
            got.extend(replies := (yield asks))
            try:
                asks = steps.send(replies)
            except StopIteration as ended:
                return ended.value  # type: ignore[no-any-return]

    monkeypatch.setattr(game, "play", watched)
    run(game, Answering())
    assert {reply.value.model_dump()["reasoning"] for reply in got if reply.value} == {"I thought"}
    assert len(got) == 4


def test_an_answer_takes_the_time_of_both_steps() -> None:
    game = new_deliberation("hh", turns=3, reply_format="two_steps", time_limit=3, stop_when_unanimous=False)

    class Slow(Answering):
        async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
            said = await super().answer(ask, seed, attempt)
            return Completion(said.text, said.finish_reason, seconds=1.0)

    outcome = run(game, Slow()).outcome
    assert (outcome.detail, outcome.rounds) == ("time_limit", 2)  # two seconds a turn


def phases(played: Play, agent: str) -> list[tuple[str, int, str | None]]:
    return [(x.ask.phase, x.entry.attempt, x.reply.failure) for x in played.exchanges if x.ask.agent == agent]


def test_a_first_step_that_is_cut_off_counts_as_far_as_it_came() -> None:
    game = new_consensus("h", max_rounds=1, reply_format="two_steps")
    policy = Answering(finish={"propose_think": "length"})
    played = run(game, policy)
    assert phases(played, "agent_1")[:2] == [("propose_think", 0, None), ("propose", 0, None)]
    assert policy.asks[1].earlier[1] == ("assistant", FREELY)


@pytest.mark.parametrize(
    ("free", "finish", "failure"),
    [(FREELY, "content_filter", "refused"), (" \n", "stop", "invalid_json"), ("", "length", "length")],
)
def test_without_a_first_step_there_is_no_second(free: str, finish: str, failure: str) -> None:
    game = new_consensus("hh", max_rounds=1, reply_format="two_steps", retries=1)
    failing = Answering(free, {"propose_think": finish, "vote_think": finish})
    played = run(game, Answering(), {"agent_2": failing})
    assert phases(played, "agent_2") == [
        (phase, attempt, failure) for phase in ("propose_think", "vote_think") for attempt in (0, 1)
    ]
    assert [phase for phase, *_ in phases(played, "agent_1")] == ["propose_think", "propose", "vote_think", "vote"]
    assert played.outcome.trace[0]["proposals"] == {"agent_1": 7, "agent_2": None}


def test_when_every_first_step_fails_the_game_goes_on() -> None:
    told: list[list[Exchange]] = []
    game = new_consensus("hh", max_rounds=2, reply_format="two_steps", retries=0)
    play(ID, game, dict.fromkeys(("agent_1", "agent_2"), Answering("")), on_phase=told.append)
    assert [phase[0].ask.phase for phase in told] == ["propose_think", "vote_think"] * 2


@pytest.mark.parametrize("written", REPLY_FORMATS)
def test_scripted_agents_answer_in_json_in_one_step(written: str) -> None:
    game = new_hunt("hhb", rounds=1, reply_format=written, policies={"byzantine": chosen("betray")})
    rule = POLICIES["betray"].rule
    assert rule is not None
    betrayer = ScriptedPolicy(rule(chosen("betray").parameters))
    played = run(game, Answering(), {"agent_3": betrayer})
    assert phases(played, "agent_3") == [("signal", 0, None), ("act", 0, None)]
    assert {x.ask.reply_format for x in played.exchanges if x.ask.agent == "agent_3"} == {"json"}
    assert played.outcome.metrics["honest_payoff"] == 0


def test_in_json_playing_is_playing() -> None:
    for game in (new_consensus("hb"), new_hunt("hh"), new_deliberation("hh", reply_format="json")):
        asks = next(playing(game))
        assert [(ask.reply_format, ask.earlier, ask.follow_up) for ask in asks] == [("json", (), "")] * len(asks)


def test_another_format_or_another_first_step_is_another_question() -> None:
    ask = next(new_consensus("h").play())[0]
    others = [replace(ask, reply_format="text"), replace(ask, earlier=(("user", "x"),))]
    others += [replace(ask, earlier=(("user", "y"),))]
    assert len({other.digest for other in [ask, *others]}) == 4


def test_free_text_is_read_as_it_is() -> None:
    [ask] = next(playing(new_consensus("h", reply_format="two_steps")))
    assert read_reply(ask, ' {"value": 3} ', "stop").value == FreeText(text=' {"value": 3} ')


@pytest.mark.parametrize("written", REPLY_FORMATS)
def test_code_of_ones_own_answers_in_json_in_every_format(written: str) -> None:
    own = ChosenPolicy(PolicyKind("mine:Mine", "", fingerprint="f" * 64), PolicyParameters())
    game = new_hunt("hhb", rounds=1, reply_format=written, policies={"byzantine": own})
    asks = {ask.agent: ask.reply_format for ask in next(game.play())}
    assert asks == {"agent_1": written, "agent_2": written, "agent_3": "json"}
