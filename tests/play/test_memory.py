"""Agents that remember (`memory: chat`): what was asked of an agent and said by it stands before its next question."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from parley.play.forks import forked_policies
from parley.play.live import study_of_record
from parley.play.replay import replay
from parley.play.runner import Play, play
from parley.policies import Ask, Completion, estimated_tokens
from parley.study.prompt_sent import asked, part_text
from support.answering import record_with_model
from support.playing import new_consensus, new_deliberation, new_hunt
from support.replies import Answering
from support.studies import StudyFactory

GAMES: dict[str, Any] = {
    "consensus": lambda **more: new_consensus("hhb", max_rounds=5, **more),
    "swarms": lambda **more: new_consensus("hhb", protocol="swarms", max_rounds=5, **more),
    "deliberation": lambda **more: new_deliberation(turns=5, stop_when_unanimous=False, **more),
    "stag_hunt": lambda **more: new_hunt("hhb", rounds=5, **more),
}


class Unsteady(Answering):
    """Says who it is, and sometimes what cannot be used."""

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        reply = await super().answer(ask, seed, attempt)
        text = reply.text.replace("thought", f"am {ask.agent} in {ask.round}, {ask.phase}, and thought", 1)
        return replace(reply, text=text, finish_reason="stop" if seed % 3 else "length")


def chats(played: Play) -> Iterator[tuple[Ask, list[tuple[str, str]]]]:
    """Yield what was asked, each with what the agent was asked before and replied."""
    chats: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for x in played.exchanges:
        yield x.ask, [*chats[x.ask.agent]]
        chats[x.ask.agent] += [("user", x.ask.user), ("assistant", x.entry.text)] if x.reply.value else []


def size(turns: Any) -> int:
    return estimated_tokens(sum(len(text.encode()) for _, text in turns), 0)


@pytest.mark.promise("With memory: chat an agent's own latest questions and replies that counted stand in its chat.")
@pytest.mark.parametrize("tokens", [1, 500, 1_000_000])
@pytest.mark.parametrize(("name", "form"), [*zip(GAMES, ["json", "two_steps", "two_steps", "text"], strict=True)])
def test_an_agent_is_sent_its_own_chat_cut_from_the_oldest(name: str, form: str, tokens: int) -> None:
    game = GAMES[name](memory={"kind": "chat", "tokens": tokens}, reply_format=form, retries=1)
    played = play("the game", game, dict.fromkeys(("agent_1", "agent_2", "agent_3"), Unsteady()))
    phases = {ask.phase for ask, _ in chats(played)}
    for ask, chat in chats(played):
        own = 2 * (f"{ask.phase}_think" in phases)  # a first step always stands before its second
        before, sent = chat[: len(chat) - own], list(ask.earlier[: len(ask.earlier) - own])
        assert list(ask.earlier) == chat[len(chat) - len(ask.earlier) :]
        assert size(sent) <= tokens
        assert sent == before or size(before[len(before) - len(sent) - 2 :]) > tokens
    assert tokens < 1_000_000 or max(len(ask.earlier) for ask, _ in chats(played)) >= 6


def test_rules_are_reminded_of_nothing_and_prompts_are_those_without_a_chat(study_factory: StudyFactory) -> None:
    grid = {"model": "tiny", "n": 3, "b": 1, "byzantine": "random"}
    study = study_factory(grid, parameters={"max_rounds": 3, "stop_threshold": 1, "memory": "chat"})
    [simulation] = study.simulations()
    policy = Answering()
    assert replay(record_with_model(simulation, policy=policy)).difference is None
    scripted = [ask for ask in asked(simulation.game(), 0) if ask.role == "byzantine"]
    assert not any(ask.earlier for ask in scripted)
    for ask in policy.asks[2:]:
        assert "seven" in ask.user  # what all said stays


def test_a_prompt_is_printed_with_the_turns_before_it() -> None:
    [*_, vote] = asked(new_consensus("hh", memory="chat"), 0, 1)
    (_, before), (_, reply) = vote.earlier
    assert reply.startswith('{"')
    assert part_text(vote, "user") == f"[user]\n{before}\n\n[assistant]\n{reply}\n\n[user]\n{vote.user}"


def test_memory_is_in_the_identity_where_it_is_a_chat(study_factory: StudyFactory) -> None:
    memories: list[Any] = ["summary", "chat", {"kind": "chat", "tokens": 4000}, {"kind": "chat", "tokens": 500}]
    conditions = study_factory({"model": "tiny", "vary": {"memory": [*memories[:2], memories[3]]}}).conditions
    assert [condition.axes["memory"] for condition in conditions] == ["summary", "chat", "chat-500"]
    given = [{}, *({"memory": memory} for memory in memories)]
    specs = [study_factory({"model": "tiny"}, parameters=each).conditions[0].spec for each in given]
    first, chat, short = (condition.spec for condition in conditions)
    assert specs == [first, first, chat, chat, short]


@pytest.mark.parametrize(
    ("model", "change", "pairs"),
    [
        ("tiny", "say: {seat: agent_1, value: 9}", 5),
        ("tiny", "silence_once: agent_1", 4),
        ("tiny", "swap: {seat: agent_1, to: majority}", 0),
        ("majority", "swap: {seat: agent_1, to: tiny}", 5),
    ],
)
def test_in_a_fork_an_agent_remembers_what_was_said_in_its_seat(
    study_factory: StudyFactory, model: str, change: str, pairs: int
) -> None:
    memory = {"max_rounds": 3, "stop_threshold": 1, "memory": "chat"}
    study = study_factory({"model": model, "n": 3, "prompt": "may_exist"}, parameters=memory)
    record = record_with_model(next(study.simulations()), policy=Answering())
    [*_, fork] = study_of_record(record, ["2"], [change], 1, None).simulations()
    played = play(fork.id, fork.game(), forked_policies(fork, dict.fromkeys(fork.players, Answering())))
    [*_, (last, chat)] = [pair for pair in chats(played) if pair[0].agent == "agent_1"]
    assert list(last.earlier) == chat[: len(last.earlier)]
    assert len(last.earlier) == 2 * pairs
    assert ('"value": 9' in str(last.earlier)) == change.startswith("say")
