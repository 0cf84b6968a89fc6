import asyncio
import json
from typing import Any

import pytest

from parley.errors import EngineError
from parley.games.base import Outcome
from parley.identity import request_seed
from parley.play.runner import Exchange, Play, play
from parley.policies import Ask, Completion, Policy
from parley.policies.kinds import ScriptedPolicy
from support.playing import INITIAL, RULES, CountingPolicy, ListPolicy, new_consensus

ID = "a" * 64
MAJORITY = ScriptedPolicy(RULES["majority"])


def proposal(value: Any) -> str:
    return json.dumps({"internal_strategy": "", "value": value, "public_reasoning": ""})


def run(policy: Policy, roles: str = "hhh", others: dict[str, Policy] | None = None, **parameters: Any) -> Play:
    game = new_consensus(roles, **parameters)
    return play(ID, game, {**{seat.name: policy for seat in game.seats}, **(others or {})})


def attempts(played: Play, round_number: int, phase: str, agent: str) -> list[Exchange]:
    key = (round_number, phase, agent)
    return [x for x in played.exchanges if (x.ask.round, x.ask.phase, x.ask.agent) == key]


def test_a_game_is_played_to_its_end() -> None:
    # 20, 42, 18: the smallest is the most frequent value; round 2 is unanimous, and all vote stop.
    played = run(MAJORITY)
    assert played.simulation_id == ID
    assert (played.outcome.name, played.outcome.rounds) == ("valid_consensus", 2)
    assert played.outcome.metrics["consensus_value"] == min(INITIAL[:3])
    assert len(played.exchanges) == 2 * 2 * 3


def test_exchanges_are_in_the_order_of_rounds_phases_agents_and_attempts() -> None:
    failing = ListPolicy("no", "no", proposal(1))
    played = run(MAJORITY, others={"agent_2": failing}, max_rounds=2)
    keys = [
        (x.entry.round, ["propose", "vote"].index(x.entry.phase), x.entry.agent, x.entry.attempt)
        for x in played.exchanges
    ]
    assert keys == sorted(keys)


def test_every_entry_holds_the_seed_and_the_question_that_it_answers() -> None:
    played = run(MAJORITY)
    for x in played.exchanges:
        assert x.entry.seed == request_seed(ID, *x.entry.key)
        assert x.entry.ask == x.ask.digest
        assert x.entry.key == (x.ask.round, x.ask.phase, x.ask.agent, 0)


def test_the_policy_gets_the_seed_that_is_recorded() -> None:
    policy = CountingPolicy(RULES["random"])
    played = run(policy, max_rounds=3, stop_threshold=1)
    assert policy.seeds == [x.entry.seed for x in played.exchanges]
    assert len(set(policy.seeds)) == len(policy.seeds)


# Retries


def test_retry_uses_a_new_seed() -> None:
    policy = ListPolicy("not JSON")
    played = run(MAJORITY, others={"agent_1": policy}, max_rounds=1)
    tried = attempts(played, 1, "propose", "agent_1")
    assert [x.entry.attempt for x in tried] == [0, 1, 2, 3]
    assert len({x.entry.seed for x in tried}) == 4
    assert policy.seeds == [
        x.entry.seed for x in attempts(played, 1, "propose", "agent_1") + attempts(played, 1, "vote", "agent_1")
    ]


def test_a_retry_asks_the_same_question() -> None:
    tried = attempts(run(ListPolicy("not JSON"), max_rounds=1), 1, "vote", "agent_2")
    assert len({x.entry.ask for x in tried}) == 1


@pytest.mark.parametrize("retries", [0, 1, 5])
def test_an_unusable_reply_is_asked_for_again_as_often_as_the_study_says(retries: int) -> None:
    played = run(ListPolicy("not JSON"), max_rounds=1, retries=retries)
    assert len(played.exchanges) == 2 * 3 * (retries + 1)


def test_a_usable_reply_ends_the_retries() -> None:
    policy = ListPolicy("no", proposal(99), proposal(7), proposal(8))
    played = run(MAJORITY, others={"agent_1": policy}, max_rounds=1)
    tried = attempts(played, 1, "propose", "agent_1")
    assert [x.reply.failure for x in tried] == ["invalid_json", "out_of_range", None]
    assert played.outcome.trace[0]["proposals"]["agent_1"] == 7


def test_after_the_retries_the_agent_is_silent() -> None:
    played = run(MAJORITY, others={"agent_2": ListPolicy("no")}, max_rounds=3, stop_threshold=1)
    assert [entry["proposals"]["agent_2"] for entry in played.outcome.trace] == [None] * 3
    assert [entry["values"]["agent_2"] for entry in played.outcome.trace] == [42] * 3
    assert [entry["votes"]["agent_2"] for entry in played.outcome.trace] == [None] * 3
    assert played.outcome.finished_early is False


@pytest.mark.parametrize(
    ("finish_reason", "text", "failure"),
    [
        ("stop", "", "invalid_json"),
        ("stop", proposal(51), "out_of_range"),
        ("length", proposal(1), "length"),
        ("content_filter", proposal(1), "refused"),
    ],
)
def test_failures_are_kept_with_their_class_and_text(finish_reason: str, text: str, failure: str) -> None:
    played = run(MAJORITY, others={"agent_1": ListPolicy(text, finish_reason=finish_reason)}, max_rounds=1)
    tried = attempts(played, 1, "propose", "agent_1")
    assert [(x.reply.failure, x.entry.text, x.entry.finish_reason) for x in tried] == [
        (failure, text, finish_reason)
    ] * 4


def test_lone_surrogates_are_made_storable() -> None:
    played = run(ListPolicy("\ud800"), max_rounds=1, retries=0)
    assert {x.entry.text for x in played.exchanges} == {"\ufffd"}


def test_token_counts_are_kept() -> None:
    entry = run(ListPolicy("no"), max_rounds=1, retries=0).exchanges[0].entry
    assert (entry.prompt_tokens, entry.completion_tokens, entry.cached_tokens) == (100, 7, 40)
    scripted = run(MAJORITY).exchanges[0].entry
    assert (scripted.prompt_tokens, scripted.completion_tokens, scripted.cached_tokens) == (None, None, None)


# At once, and in any order


class Barrier:
    """Answers nobody until a whole phase is asked, and then the last one first."""

    def __init__(self, agents: int) -> None:
        self._agents = agents
        self._waiting: list[asyncio.Event] = []
        self.most = 0

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        event = asyncio.Event()
        self._waiting.append(event)
        self.most = max(self.most, len(self._waiting))
        if len(self._waiting) == self._agents:
            asyncio.get_running_loop().call_soon(self._waiting.pop().set)
        await asyncio.wait_for(event.wait(), 10)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._waiting.pop().set)
        return await MAJORITY.answer(ask, seed, attempt)


def test_all_asks_of_a_phase_are_in_flight_at_once() -> None:
    policy = Barrier(8)
    run(policy, "h" * 8)
    assert policy.most == 8


def test_the_order_of_arrival_changes_nothing() -> None:
    assert run(Barrier(4), "hhhb").digest == run(MAJORITY, "hhhb").digest


def test_replies_are_handed_back_in_the_order_of_the_asks() -> None:
    played = run(Barrier(3))
    assert played.outcome.trace[0]["proposals"] == {"agent_1": 20, "agent_2": 42, "agent_3": 18}


def test_each_agent_is_answered_by_its_own_policy() -> None:
    one, two = CountingPolicy(RULES["majority"]), CountingPolicy(RULES["stubborn"])
    run(one, others={"agent_2": two}, max_rounds=2)
    assert {agent for _, _, agent, _ in one.asked} == {"agent_1", "agent_3"}
    assert {agent for _, _, agent, _ in two.asked} == {"agent_2"}


class Broken:
    """An engine that dies in the second round."""

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        if ask.round == 2:
            raise EngineError("the engine died: out of memory")
        return await MAJORITY.answer(ask, seed, attempt)


def test_an_engine_that_dies_ends_the_play_with_its_own_error() -> None:
    with pytest.raises(EngineError, match=r"^the engine died: out of memory$"):
        run(Broken(), max_rounds=3, stop_threshold=1)


def test_each_phase_is_told_when_it_is_over() -> None:
    told: list[list[tuple[int, str]]] = []
    game = new_consensus("hhh")
    played = play(
        ID,
        game,
        {seat.name: MAJORITY for seat in game.seats},
        on_phase=lambda phase: told.append([(x.ask.round, x.ask.phase) for x in phase]),
    )
    assert told == [[(n, phase)] * 3 for n in range(1, played.outcome.rounds + 1) for phase in ("propose", "vote")]


# The content digest


def test_playing_again_gives_the_same_digest() -> None:
    random = ScriptedPolicy(RULES["random"])
    assert run(random, "hhb", max_rounds=5).digest == run(random, "hhb", max_rounds=5).digest


def test_the_digest_covers_what_was_said_and_decided() -> None:
    base = run(MAJORITY)
    digests = {
        base.digest,
        run(MAJORITY, seed=1).digest,
        run(MAJORITY, prompt="none_exist").digest,
        run(MAJORITY, others={"agent_1": ScriptedPolicy(RULES["stubborn"])}).digest,
        run(MAJORITY, others={"agent_1": ListPolicy("no")}, max_rounds=1).digest,
        run(MAJORITY, others={"agent_1": ListPolicy("nope")}, max_rounds=1).digest,
        run(MAJORITY, others={"agent_1": ListPolicy("no", finish_reason="length")}, max_rounds=1).digest,
        run(MAJORITY, others={"agent_1": ListPolicy("no", finish_reason="abort")}, max_rounds=1).digest,
        Play("b" * 64, base.exchanges, base.outcome).digest,
        Play(base.simulation_id, base.exchanges[:-1], base.outcome).digest,
    }
    assert len(digests) == 10


def test_the_digest_covers_no_times_and_no_token_counts() -> None:
    class Slow(ListPolicy):
        async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
            await asyncio.sleep(0.002)
            return Completion(self.texts[0], self.finish_reason, 1, 2, 3)

    fast, slow = run(ListPolicy("no"), max_rounds=1), run(Slow("no"), max_rounds=1)
    assert fast.digest == slow.digest
    assert fast.exchanges[0].entry.prompt_tokens != slow.exchanges[0].entry.prompt_tokens
    assert slow.exchanges[0].entry.seconds >= 0.002


def test_the_digest_covers_the_outcome() -> None:
    played = run(MAJORITY)
    other = Outcome(**{**played.outcome.__dict__, "name": "no_consensus"})
    assert Play(ID, played.exchanges, other).digest != played.digest
