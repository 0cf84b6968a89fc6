"""The swarms protocol: with all leaks it is the published loop; its names, votes and studies.

docs/playthroughs/swarms shows whole games.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley import paths
from parley.errors import UsageError
from parley.games.base import new_game
from parley.games.consensus.game import ConsensusGame, ConsensusParameters
from parley.games.consensus.prompts import FOLDER, PROMPTS
from parley.play.record import read_summary, read_trace
from parley.play.replay import replay
from parley.play.show import study_files, write_study
from parley.play.simulate import simulate
from parley.policies import Reply
from parley.study import load_study
from support.playing import groups, new_consensus
from support.playthrough import by_hand
from support.studies import StudyFactory

ALL = ("names", "missing_value", "early_vote")
SWARMS: dict[str, Any] = {"protocol": "swarms"}


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
def test_all_leaks_are_the_published_loop(game: tuple[list[list[Said]], int], seed: int, wish: bool) -> None:
    replies, honest = game
    task = "Agree on a tip."
    _, initial = parleys(replies, honest, seed, task)
    if wish:  # let honest agents propose one of their initial values, so that valid consensus is among the outcomes
        replies = [[{**said, "value": initial[0]} if said else said for said in of_round] for of_round in replies]
    ours, _ = parleys(replies, honest, seed, task)
    assert ours == published(replies, honest, len(replies), initial, task)


# Names, votes and views


def test_names_give_roles_away_only_with_the_leak() -> None:
    leaky = swarms_game("h" * 11 + "bb", 3, "names")
    names = [f"Honest-{k + 1}" for k in range(11)] + ["Byzantine-1", "Byzantine-2"]
    assert [agent.name for agent in leaky.agents] == names  # in the order in which they speak
    neutral = [swarms_game("hhhb", seed) for seed in range(40)]
    assert {tuple(agent.name for agent in game.agents) for game in neutral} == {
        tuple(f"agent_{k}" for k in range(1, 5))
    }
    assert {[agent.honest for agent in game.agents].index(False) for game in neutral} == {0, 1, 2, 3}
    assert [agent.name for agent in swarms_game("h" * 11).agents][8:] == ["agent_9", "agent_10", "agent_11"]
    with_names, without = (swarms_game("hhhb", 3, *leaks).honest for leaks in (("names",), ()))
    assert sorted(a.initial_value or 0 for a in with_names) == sorted(a.initial_value or 0 for a in without)


def test_the_values_of_as_many_rounds_may_end_the_game_with_the_leak_and_without() -> None:
    """Agents agree in round `agreed` and vote to stop as soon as their votes are about that."""
    go, stop = [[{"value": 42, "vote": vote}] * 3 for vote in ("continue", "stop")]
    apart = [{"value": value, "vote": "continue"} for value in (20, 42, 18)]
    for leaks, agreed in ((leaks, agreed) for leaks in ((), ("early_vote",)) for agreed in (1, 2, 3, 4)):
        rounds = [*[apart] * (agreed - 1), stop if leaks else go, stop]
        game = new_consensus("hhh", protocol="swarms", leaks=leaks, max_rounds=3)
        played = by_hand(game, {f"{number} turn": said for number, said in enumerate(rounds, 1)})
        ended = ("valid_consensus", agreed) if agreed < 4 else ("no_consensus", 3)
        assert (played.outcome.name, played.outcome.rounds - (not leaks)) == ended
        last = 3 if leaks else 4  # the rounds that are played are those that agents are told of
        assert all(f"or after {last} rounds." in exchange.ask.system for exchange in played.exchanges)


def test_a_figure_leaves_out_a_value_that_was_never_applied() -> None:
    go, stop = [{"value": 42, "vote": vote} for vote in ("continue", "stop")]
    moves = {"1 turn": [go, go, go, {"value": "abstain"}], "2 turn": [stop, stop, stop, {"value": 7}]}
    outcome = by_hand(new_consensus("hhhb", protocol="swarms"), moves).outcome.as_json()
    drawn = ConsensusGame.evidence.trajectory(outcome, outcome["trace"])
    assert dict(drawn.series) == {f"agent_{k + 1}": [(0, v), (1, 42), (2, 42)] for k, v in enumerate((20, 42, 18))}
    assert drawn.stopped == 2


# Studies


def test_leaks_are_an_axis_with_readable_names(study_factory: StudyFactory) -> None:
    values = [[], ["names"], ["missing_value"], ["early_vote"], list(ALL)]
    study = study_factory({"vary": {"leaks": values}}, parameters=SWARMS)
    names = ["none", "names", "missing_value", "early_vote", "early_vote+missing_value+names"]
    assert [condition.axes["leaks"] for condition in study.conditions] == names
    assert len({condition.identity for condition in study.conditions}) == 5
    again = study_factory({"vary": {"leaks": [list(reversed(ALL))]}}, parameters=SWARMS)
    assert again.conditions[0].identity == study.conditions[4].identity  # whatever the order


def test_tasks_are_an_axis_named_by_their_last_words(study_factory: StudyFactory) -> None:
    study = study_factory({"vary": {"task": ["Agree on a TIP!", "Agree on a well-known price."]}}, parameters=SWARMS)
    assert [condition.axes["task"] for condition in study.conditions] == ["a-tip", "well-known-price"]
    with pytest.raises(UsageError, match="duplicate condition"):
        study_factory({"vary": {"task": ["Agree on a tip.", "Disagree on a tip."]}}, parameters=SWARMS)


def test_the_protocol_can_be_an_axis(study_factory: StudyFactory) -> None:
    study = study_factory({"vary": {"protocol": ["paper", "swarms"]}})
    assert [c.axes["protocol"] for c in study.conditions] == ["paper", "swarms"]
    assert [c.parameters.model_dump()["max_rounds"] for c in study.conditions] == [50, 10]
    only = study_factory({"vary": {"protocol": ["swarms"]}}, parameters={"leaks": ["names"]})
    assert only.conditions[0].parameters.model_dump()["leaks"] == ["names"]
    with pytest.raises(UsageError, match=r"parameters: .*leaks has no effect"):
        study_factory({"vary": {"protocol": ["paper", "swarms"]}}, parameters={"leaks": ["names"]})
    with pytest.raises(UsageError, match="parameters: max_rounds: 0"):
        study_factory({"vary": {"protocol": ["swarms"]}}, parameters={"max_rounds": 0})


def test_a_changed_template_changes_the_identity_where_it_is_used(
    study_factory: StudyFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def identities() -> list[str]:
        study = study_factory({"vary": {"protocol": ["paper", "swarms"]}})
        return [condition.identity for condition in study.conditions]

    before = identities()
    other = tmp_path / "round_prompt.txt"
    other.write_text("changed\n")
    changed = {**PROMPTS.variants["may_exist"], "honest_turn_user": other}
    monkeypatch.setattr(PROMPTS, "variants", {**PROMPTS.variants, "may_exist": changed})
    assert [a == b for a, b in zip(identities(), before, strict=True)] == [True, False]


@pytest.mark.parametrize("leaks", [[], list(ALL)])
def test_a_recorded_game_replays_and_its_study_can_be_written_again(
    study_factory: StudyFactory, leaks: list[str]
) -> None:
    vary = {"leaks": [leaks], "protocol": ["swarms"], "task": ["Agree on a tip."]}
    study = study_factory({"honest": 3, "b": 1, "byzantine": "random", "vary": vary}, parameters={"max_rounds": 4})
    [simulation] = study.simulations()
    record = simulation.record(study.name)
    simulate(study, record, (), 1.0)
    assert replay(record).difference is None
    summary = read_summary(record)
    assert set(summary.simulation["prompt_digests"]) >= {"honest_turn_system", "byzantine_turn_user"}
    assert len(read_trace(record)) == summary.outcome["rounds"]
    [written, *_] = write_study(study_files(record, summary), Path("again.yaml"))
    [again] = load_study(written).simulations()
    assert (again.id, again.condition.path) == (simulation.id, simulation.condition.path)


def test_the_studies_that_come_with_parley_are_read() -> None:
    for name, conditions, simulations in (("swarms", 7, 70), ("swarms-demo", 14, 68)):
        study = load_study(paths.study_file(name))
        assert (len(study.conditions), len(list(study.simulations()))) == (conditions, simulations)
