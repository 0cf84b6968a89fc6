"""`rules: published_code` beside the authors' code: prompts and outcomes of games that it played.

`authors_code.json` was made by running leorugli/byzantine-consensus-llm-agents (commit b3bbf9e) once, with made-up
replies: who sat where, the first values, each reply (null: all attempts failed), most prompts, its statistics.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from parley.games.consensus.game import ConsensusGame, ConsensusParameters
from parley.games.parameters import Seat
from parley.identity import stream
from parley.policies import Ask, Reply
from parley.policies.reply_text import parse_reply
from support.playing import drive

GAMES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "authors_code.json").read_text(encoding="utf-8"))


def new(theirs: dict[str, Any]) -> ConsensusGame:
    """Return a game with their seats and first values."""
    seats = tuple(Seat(name, role) for name, role in theirs["roles"].items())
    parameters = ConsensusParameters(rules="published_code", max_rounds=theirs["rounds"])
    game = ConsensusGame(parameters, seats, theirs["prompt"], stream("game", "consensus", 0))
    for agent in game.agents:
        agent.initial_value = agent.current_value = theirs["initial"][agent.name]
    return game


def play(theirs: dict[str, Any]) -> tuple[list[tuple[Ask, dict[str, Any]]], Any]:
    """Play their game from its replies; return each ask with their line of it, and the outcome."""
    lines = {(line["round"], line["phase"], line["agent"]): line for line in theirs["asked"]}
    game, both = new(theirs), list[tuple[Ask, dict[str, Any]]]()

    def answer(ask: Ask) -> Reply:
        line = lines[ask.round, ask.phase, ask.agent]
        both.append((ask, line))
        text = "" if line["reply"] is None else json.dumps(line["reply"])
        return parse_reply(text, "stop", ask.reply_model, cut=True)

    _, outcome = drive(game, answer)
    return both, outcome


def words(prompt: str) -> list[str]:
    """Return the words of a prompt without the quotes around reasons."""
    return prompt.replace('"', "").split()


@pytest.mark.promise("Under `rules: published_code` prompts have the words and orders of the authors' own code.")
@pytest.mark.parametrize("theirs", GAMES[:3])
def test_prompts_are_theirs_word_by_word(theirs: dict[str, Any]) -> None:
    both, _ = play(theirs)
    compared = 0
    for ask, line in both:
        for part in ("system", "user"):
            if part in line:
                assert words(getattr(ask, part)) == words(line[part]), (ask.round, ask.phase, ask.agent, part)
                compared += 1
    assert compared >= 10


@pytest.mark.promise("Under `rules: published_code` games end as they did in the authors' own code.")
@pytest.mark.parametrize("theirs", GAMES)
def test_outcomes_are_theirs(theirs: dict[str, Any]) -> None:
    both, outcome = play(theirs)
    ours = {"no_consensus": "timeout", "valid_consensus": "valid"}.get(outcome.name)
    if outcome.name == "invalid_consensus":
        ours = "none" if outcome.detail == "premature_stop" else "invalid"
    assert (ours, outcome.rounds) == (theirs["statistics"]["consensus_outcome"], theirs["statistics"]["total_rounds"])
    assert len(both) == len(theirs["asked"])
