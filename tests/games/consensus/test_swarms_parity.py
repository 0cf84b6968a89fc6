"""With all leaks the swarms protocol is the published loop, which is written down here once more.

The loop is that of the page "Byzantine consensus" of the Swarms documentation, with three differences: a message that
is not empty is quoted, replies are those that Parley can use, and an agent without one is as good as one that
answered `{}`.
"""

from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from parley.games.base import new_game
from parley.games.consensus.game import ConsensusGame, ConsensusParameters
from parley.games.consensus.prompts import FOLDER
from parley.policies import Reply
from support.playing import groups
from support.turns import ALL

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


def parleys(replies: list[list[Said]], honest: int, rounds: int, seed: int, task: str) -> tuple[Result, list[int]]:
    """Play the same replies with all leaks; return also the honest initial values."""
    parameters = ConsensusParameters(protocol="swarms", leaks=ALL, max_rounds=rounds, task=task)  # type: ignore[arg-type]
    seated = groups(honest=honest, byzantine=len(replies[0]) - honest)
    game = new_game(ConsensusGame, parameters, seated, "may_exist", seed)
    assert isinstance(game, ConsensusGame)
    initial = [agent.initial_value or 0 for agent in game.honest]
    flat = iter([said for of_round in replies for said in of_round])
    prompts = []
    playing = game.play()
    [ask] = next(playing)
    while True:
        prompts.append((ask.agent, ask.system, ask.user))
        said = next(flat)
        try:
            [ask] = playing.send([Reply(ask.reply_model(**said)) if said else Reply(None, "invalid_json")])
        except StopIteration as end:
            values = end.value.trace[-1]["values"]
            return Result(end.value.name, end.value.rounds, values, prompts), initial


_WORD = st.sampled_from(["", "yes", "let us take it", "no, thanks"])


@st.composite
def _games(draw: st.DrawFn) -> tuple[list[list[Said]], int, int]:
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
    return [[draw(one) for one in everyone] for _ in range(rounds)], honest, rounds


@given(game=_games(), seed=st.integers(0, 50), wish=st.booleans())
def test_all_leaks_are_the_published_loop(game: tuple[list[list[Said]], int, int], seed: int, wish: bool) -> None:
    replies, honest, rounds = game
    task = "Agree on a tip."
    _, initial = parleys(replies, honest, rounds, seed, task)
    if wish:  # let honest agents propose one of their initial values, so that valid consensus is among the outcomes
        replies = [[{**said, "value": initial[0]} if said else said for said in of_round] for of_round in replies]
    ours, _ = parleys(replies, honest, rounds, seed, task)
    assert ours == published(replies, honest, rounds, initial, task)
