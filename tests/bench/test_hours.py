"""The arithmetic of hours."""

import pytest

from benchmarks.hours import AgentTokens, agent_tokens, hours, study_tokens
from parley.games.consensus.parameters import HonestVote
from parley.play.journal import Entry
from parley.play.runner import Exchange
from parley.policies import Ask, Reply, Sampling
from parley.study import load_study
from support import REPOSITORY

PAPER = REPOSITORY / "config" / "paper.yaml"


def exchange(round_: int, phase: str, prompt: int, reply: int, attempt: int = 0) -> Exchange:
    ask = Ask("agent_1", "honest", round_, phase, "", "", HonestVote, Sampling(temperature=0, max_tokens=1), None)
    entry = Entry(round_, phase, "agent_1", attempt, 1, "", "", "stop", prompt, reply, None, 0.0, 0.0)
    return Exchange(ask, entry, Reply(None))


def test_an_agent_costs_a_mean_ask_of_each_phase() -> None:
    played = [
        exchange(1, "propose", 500, 100),
        exchange(1, "propose", 500, 200),
        exchange(1, "propose", 500, 300, attempt=1),  # a retry costs, and is no ask of its own
        exchange(1, "vote", 400, 10),
        exchange(2, "propose", 700, 100),
        exchange(3, "propose", 900, 100),
        exchange(2, "vote", 600, 10),
    ]
    assert agent_tokens(played) == AgentTokens(first=1050 + 410, later=900 + 610)


def test_a_phase_that_was_played_in_one_round_only_stands_for_the_others() -> None:
    assert agent_tokens([exchange(1, "propose", 500, 100)]) == AgentTokens(600, 600)
    with pytest.raises(ValueError, match="nothing was played"):
        agent_tokens([])


def test_tokens_of_the_papers_study() -> None:
    study = load_study(PAPER)
    # 50 seeds, two prompts, 4 + 8 + 16 agents; and 25 seeds of 9 + 10 + 11 + 12.
    found = study_tokens(study, {8: AgentTokens(1000.0, 2000.0)}, rounds=50)
    assert found == {
        "qwen3-8b": 50 * 2 * 28 * (1000 + 49 * 2000),
        "qwen3-14b": (50 * 2 * 28 + 25 * 42) * (1000 + 49 * 2000),
    }
    between = study_tokens(study, {4: AgentTokens(0.0, 0.0), 8: AgentTokens(0.0, 0.0), 16: AgentTokens(800.0, 0.0)}, 1)
    assert between["qwen3-8b"] == pytest.approx(50 * 2 * 16 * 800)
    assert between["qwen3-14b"] == pytest.approx(50 * 2 * 16 * 800 + 25 * (9 * 100 + 10 * 200 + 11 * 300 + 12 * 400))


def test_hours_are_tokens_by_rate_and_a_larger_model_is_slower() -> None:
    found = hours({"qwen3-8b": 36e6, "qwen3-14b": 36e6}, rate=1000.0, measured_model="qwen3-8b")
    assert found["qwen3-8b"] == pytest.approx(10)
    assert found["qwen3-14b"] == pytest.approx(10 * 14.77 / 8.19)
