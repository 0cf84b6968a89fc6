import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from parley.identity import request_seed
from parley.play.runner import Exchange, Play, play
from parley.policies import PROMPT_TOO_LONG, Ask, Completion, Policy
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


def test_every_entry_holds_the_seed_and_the_question_that_it_answers_in_order() -> None:
    policy, failing = CountingPolicy(RULES["random"]), ListPolicy("no", "no", proposal(1))
    played = run(policy, others={"agent_2": failing}, max_rounds=3, stop_threshold=1)
    order = ["propose", "vote"]
    keys = [x.entry.key for x in played.exchanges]
    assert keys == sorted(keys, key=lambda key: (key[0], order.index(key[1]), *key[2:]))
    for x in played.exchanges:
        assert x.entry.key[:3] == (x.ask.round, x.ask.phase, x.ask.agent)
        assert x.entry.seed == request_seed(ID, *x.entry.key)
        assert x.entry.ask == x.ask.digest
    for asked, agents in ((policy, {"agent_1", "agent_3"}), (failing, {"agent_2"})):  # each by its own policy
        assert asked.seeds == [x.entry.seed for x in played.exchanges if x.ask.agent in agents]
    assert len({x.entry.seed for x in played.exchanges}) == len(played.exchanges)


# Retries


def test_retry_asks_the_same_question_with_a_new_seed_until_a_reply_is_usable() -> None:
    policy = ListPolicy("no", proposal(99), proposal(7), proposal(8))
    played = run(MAJORITY, others={"agent_1": policy}, max_rounds=1)
    tried = attempts(played, 1, "propose", "agent_1")
    assert [x.entry.attempt for x in tried] == [0, 1, 2]
    assert [x.reply.failure for x in tried] == ["invalid_json", "out_of_range", None]
    assert len({x.entry.seed for x in tried}) == 3
    assert len({x.entry.ask for x in tried}) == 1
    assert played.outcome.trace[0]["proposals"]["agent_1"] == 7
    for retries in (0, 1, 5):
        assert len(run(ListPolicy("not JSON"), max_rounds=1, retries=retries).exchanges) == 2 * 3 * (retries + 1)


def test_after_the_retries_the_agent_is_silent() -> None:
    played = run(MAJORITY, others={"agent_2": ListPolicy("no")}, max_rounds=3, stop_threshold=1)
    found = [[entry[part]["agent_2"] for part in ("proposals", "values", "votes")] for entry in played.outcome.trace]
    assert found == [[None, 42, None]] * 3
    assert played.outcome.finished_early is False


def test_replies_are_kept_with_their_failure_text_and_tokens() -> None:
    for finish_reason, text, failure, times in [
        ("stop", "\ud800", "invalid_json", 4),
        ("stop", proposal(51), "out_of_range", 4),
        ("length", proposal(1), "length", 4),
        ("content_filter", proposal(1), "refused", 4),
        (PROMPT_TOO_LONG, "", "prompt_too_long", 1),  # it would not fit again, and be paid again
    ]:
        policy = ListPolicy(text, finish_reason=finish_reason)
        tried = attempts(run(MAJORITY, others={"agent_1": policy}, max_rounds=1), 1, "propose", "agent_1")
        stored = text.replace("\ud800", "\ufffd")
        assert [(x.reply.failure, x.entry.text, x.entry.finish_reason) for x in tried] == [
            (failure, stored, finish_reason)
        ] * times
        entry = tried[0].entry
        assert (entry.prompt_tokens, entry.completion_tokens, entry.cached_tokens) == (100, 7, 40)
    scripted = run(MAJORITY).exchanges[0].entry
    assert (scripted.prompt_tokens, scripted.completion_tokens, scripted.cached_tokens) == (None, None, None)


class Slow(ListPolicy):
    """Takes two seconds for a reply, as it says."""

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        return replace(await super().answer(ask, seed, attempt), seconds=2.0)


def test_the_time_of_a_reply_is_that_of_all_its_attempts() -> None:
    played = run(MAJORITY, others={"agent_1": Slow("no", "no", proposal(1))}, max_rounds=1)
    tried = attempts(played, 1, "propose", "agent_1")
    assert [x.reply.milliseconds for x in tried] == [2000, 4000, 6000]


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


@pytest.mark.promise("All asks of a phase are in flight at once, and the order of arrival changes nothing.")
def test_all_asks_of_a_phase_are_in_flight_at_once_and_the_order_of_arrival_changes_nothing() -> None:
    policy = Barrier(8)
    played = run(policy, "h" * 7 + "b")
    assert policy.most == 8
    assert played.digest == run(MAJORITY, "h" * 7 + "b").digest
    assert [*run(Barrier(3)).outcome.trace[0]["proposals"].values()] == INITIAL[:3]


# The content digest


def test_the_digest_covers_what_was_said_and_decided() -> None:
    base = run(MAJORITY)
    random = ScriptedPolicy(RULES["random"])
    assert run(random, "hhb", max_rounds=5).digest == run(random, "hhb", max_rounds=5).digest
    digests = {
        base.digest,
        run(MAJORITY, seed=1).digest,
        run(MAJORITY, others={"agent_1": ListPolicy("no")}, max_rounds=1).digest,
        run(MAJORITY, others={"agent_1": ListPolicy("nope")}, max_rounds=1).digest,
        run(MAJORITY, others={"agent_1": ListPolicy("no", finish_reason="length")}, max_rounds=1).digest,
        run(MAJORITY, others={"agent_1": ListPolicy("no", finish_reason="abort")}, max_rounds=1).digest,
        Play("b" * 64, base.exchanges, base.outcome).digest,
        Play(base.simulation_id, base.exchanges[:-1], base.outcome).digest,
        Play(ID, base.exchanges, replace(base.outcome, name="no_consensus")).digest,
    }
    assert len(digests) == 9


def test_the_digest_covers_no_times_and_no_token_counts() -> None:
    class Slow(ListPolicy):
        async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
            await asyncio.sleep(0.002)
            return Completion(self.texts[0], self.finish_reason, 1, 2, 3)

    fast, slow = run(ListPolicy("no"), max_rounds=1), run(Slow("no"), max_rounds=1)
    assert fast.digest == slow.digest
    assert fast.exchanges[0].entry.prompt_tokens != slow.exchanges[0].entry.prompt_tokens
    assert slow.exchanges[0].entry.seconds >= 0.002
