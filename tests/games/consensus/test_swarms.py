"""The swarms protocol: with all leaks it is the published loop; and its votes.

docs/playthroughs/swarms shows whole games.
"""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.games.base import new_game
from parley.games.consensus.game import ConsensusGame, ConsensusParameters
from parley.games.consensus.prompts import FOLDER
from parley.policies import Ask, Reply
from support.playing import drive, groups

pytestmark = pytest.mark.promise("With all leaks, the Swarms variant is the published loop.")

ALL = ("names", "missing_value", "early_vote")
SWARMS: dict[str, Any] = {"protocol": "swarms"}
SILENT = {"internal_strategy": "", "public_reasoning": ""}


def swarms_game(roles: str, seed: int = 0, *leaks: str, **parameters: Any) -> ConsensusGame:
    """Return a game as a study makes it, names included."""
    given_ = ConsensusParameters.model_validate({**SWARMS, "leaks": leaks, **parameters})
    seated = [group for group in groups(honest=roles.count("h"), byzantine=roles.count("b")) if group.count]
    game = new_game(ConsensusGame, given_, seated, "may_exist", seed)
    assert isinstance(game, ConsensusGame)
    return game


# The published loop, which is written down here once more. It is that of the page "Byzantine consensus" of the Swarms
# documentation, with three differences: a message that is not empty is quoted, replies are those that Parley can use,
# and an agent without one is as good as one that answered `{}`.

Said = dict[str, Any]  # {} is no usable reply


@dataclass(frozen=True)
class Result:
    outcome: str
    rounds: int
    values: dict[str, int | None]
    prompts: list[tuple[str, str, str]]


def published(replies: list[list[Said]], honest: int, rounds: int, initial: list[int], task: str) -> Result:
    """Play the published loop; `replies` are by round and agent."""
    texts = {name: (FOLDER / "swarms" / f"{name}_prompt.txt").read_text()[:-1] for name in ("honest", "byzantine")}
    round_text = (FOLDER / "swarms" / "round_prompt.txt").read_text()[:-1]
    honest_ids = [f"Honest-{i + 1}" for i in range(honest)]
    all_ids = honest_ids + [f"Byzantine-{i + 1}" for i in range(len(replies[0]) - honest)]
    initial_values = dict(zip(honest_ids, initial, strict=True))
    current: dict[str, int | None] = {name: initial_values.get(name) for name in all_ids}
    history: list[str] = []
    notes = dict.fromkeys(all_ids, "")
    prompts = []

    def format_proposals(messages: dict[str, str]) -> str:
        quoted = {name: f'"{text}"' if text else "" for name, text in messages.items()}
        lines = [f"- {name}: value={value}, reasoning={quoted.get(name, '')}" for name, value in current.items()]
        return "\n".join(lines)

    for number in range(1, rounds + 1):
        messages: dict[str, str] = {}
        votes = []
        for name, said in zip(all_ids, replies[number - 1], strict=True):
            system = texts["honest" if name in honest_ids else "byzantine"].format(
                agent_id=name, task=task, value_min=0, value_max=50, max_rounds=rounds,
                initial_value=initial_values.get(name),
            )  # fmt: skip
            user = round_text.format(
                round_number=number,
                max_rounds=rounds,
                proposals=format_proposals(messages),
                history="\n".join(history[-3:]) or "No previous rounds.",
                current_value=current[name],
                private_notes=notes[name] or "None.",
            )
            prompts.append((name, system, user))
            notes[name] = said.get("internal_strategy", "")
            messages[name] = said.get("public_reasoning", "")
            value = said.get("value")
            if value != "abstain" and value is not None and 0 <= int(value) <= 50:
                current[name] = int(value)
            votes.append(said.get("vote"))
        history.append(format_proposals(messages))
        if votes.count("stop") >= (2 / 3) * len(all_ids):
            held = [current[name] for name in honest_ids]
            agreed = len(set(held)) == 1 and held[0] in initial_values.values()
            return Result("valid_consensus" if agreed else "invalid_consensus", number, current, prompts)
    return Result("no_consensus", rounds, current, prompts)


def parleys(replies: list[list[Said]], honest: int, seed: int, task: str) -> tuple[Result, list[int]]:
    """Play the same replies with all leaks; return also the honest initial values."""
    roles = "h" * honest + "b" * (len(replies[0]) - honest)
    game = swarms_game(roles, seed, *ALL, max_rounds=len(replies), task=task)
    initial = [agent.initial_value or 0 for agent in game.honest]
    flat = iter([said for of_round in replies for said in of_round])

    def answer(ask: Ask) -> Reply:
        said = next(flat)
        return Reply(ask.reply_model(**said)) if said else Reply(None, "invalid_json")

    turns, outcome = drive(game, answer)
    prompts = [(ask.agent, ask.system, ask.user) for [ask] in turns]
    return Result(outcome.name, outcome.rounds, outcome.trace[-1]["values"], prompts), initial


_WORD = st.sampled_from(["", "yes", "let us take it", "no, thanks"])


@st.composite
def _games(draw: st.DrawFn) -> tuple[list[list[Said]], int]:
    honest, byzantine, rounds = draw(st.integers(1, 4)), draw(st.integers(0, 2)), draw(st.integers(1, 6))
    pool = draw(st.lists(st.integers(0, 50), min_size=1, max_size=3))  # few values, so that agents agree at times

    def reply(role: str) -> st.SearchStrategy[Said]:
        more = ["abstain"] if role == "byzantine" else []
        said = st.fixed_dictionaries(
            {
                "internal_strategy": _WORD,
                "value": st.sampled_from([*pool, *more]),
                "public_reasoning": _WORD,
                "vote": st.sampled_from(["stop", "continue", *more]),
            }
        )
        return st.one_of(said, said, said, st.just({}))

    everyone = [reply("honest")] * honest + [reply("byzantine")] * byzantine
    return [[draw(one) for one in everyone] for _ in range(rounds)], honest


@settings(max_examples=50)
@given(game=_games(), seed=st.integers(0, 50), wish=st.booleans())
@pytest.mark.slow
def test_all_leaks_are_the_published_loop(game: tuple[list[list[Said]], int], seed: int, wish: bool) -> None:
    replies, honest = game
    task = "Agree on a tip."
    _, initial = parleys(replies, honest, seed, task)
    if wish:  # let honest agents propose one of their initial values, so that valid consensus is among the outcomes
        replies = [[{**said, "value": initial[0]} if said else said for said in of_round] for of_round in replies]
    ours, _ = parleys(replies, honest, seed, task)
    assert ours == published(replies, honest, len(replies), initial, task)


def test_a_stop_takes_back_the_values_of_its_round_and_their_count() -> None:
    game = swarms_game("hh")
    changes = sum(agent.initial_value != 3 for agent in game.honest)
    playing = game.play()
    [ask] = next(playing)
    for value, vote in ((3, "continue"), (3, "continue"), (7, "stop")):
        [ask] = playing.send([Reply(ask.reply_model(value=value, vote=vote, **SILENT))])
    with pytest.raises(StopIteration) as end:
        playing.send([Reply(ask.reply_model(value=7, vote="stop", **SILENT))])
    outcome = end.value.value
    assert {*outcome.trace[-1]["values"].values()} == {3}
    assert outcome.metrics["value_changes"] == changes
