"""What each game says of the outcomes that a condition can have: no play ends in another, and some play in each."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from parley.games.base import Game, Outcome, new_game
from parley.games.parameters import Group
from parley.games.problems.problem import Problem
from parley.games.registry import GAMES
from parley.policies import Ask, Reply
from parley.policies.reply_text import parse_reply
from support.playing import drive

pytestmark = pytest.mark.promise("No play ends in an outcome that its condition cannot have.")

ROUNDS: Mapping[str, dict[str, Any]] = {
    "consensus": {"max_rounds": 3, "value_max": 1},
    "deliberation": {"turns": 1},
    "stag_hunt": {"rounds": 2},
}
SILENT = Reply(None, "invalid_json", "made up by the test")


def said(ask: Ask, problem: Problem | None, rng: np.random.Generator) -> dict[str, Any]:
    """Return something that an agent may say; what decides how the game ends is drawn."""
    values: dict[str, Any] = {}
    for key in ask.reply_model.model_fields:
        if key == "value":
            values[key] = int(rng.integers(ask.view.value_min, ask.view.value_max + 1))
        elif key in ("decision", "vote"):
            values[key] = ("stop", "stop", "continue")[int(rng.integers(3))]
        elif key == "action":
            values[key] = ("Hunt Stag", "Hunt Hare")[int(rng.integers(2))]
        elif key == "answer":
            assert problem is not None
            values[key] = (problem.answer, problem.answer, "4711", "?")[int(rng.integers(4))]
            values[key] = problem.options[0] if values[key] == "4711" and problem.kind == "cards" else values[key]
        elif key == "policies":
            assert problem is not None
            values[key] = [problem.options[0], "?"][int(rng.integers(2)) :][:1]
        else:
            values[key] = "stag"
    return values


def ended(game: Game, rng: np.random.Generator) -> Outcome:
    """Play a game whose agents say whatever `rng` makes them say, or nothing."""

    def answer(ask: Ask) -> Reply:
        reply = parse_reply(json.dumps(said(ask, getattr(game, "problem", None), rng)), "stop", ask.reply_model)
        assert reply.failure is None, reply.detail
        return SILENT if rng.random() < 0.1 else reply

    return drive(game, answer)[1]


VALID, INVALID, PREMATURE, NONE = "valid_consensus", "invalid_consensus", "premature_stop", "no_consensus"
RIGHT, WRONG, GRADED, HUNG = "correct_consensus", "wrong_consensus", "graded_consensus", "hung"
COOPERATION, PARTIAL, EXPLOITED, DEFECTION = "cooperation", "partial_cooperation", "exploited", "defection"

CASES: list[tuple[str, dict[str, Any], int, int, set[str]]] = [
    ("consensus", {}, 3, 0, {VALID, INVALID, PREMATURE, NONE}),
    ("consensus", {}, 2, 1, {VALID, INVALID, PREMATURE, NONE}),
    ("consensus", {}, 0, 2, {INVALID, NONE}),
    ("consensus", {"value_max": 0}, 2, 1, {VALID, NONE}),
    ("consensus", {"protocol": "swarms"}, 2, 1, {VALID, INVALID, PREMATURE, NONE}),
    ("consensus", {"protocol": "swarms", "value_max": 0}, 2, 0, {VALID, NONE}),
    ("deliberation", {"problems": "arithmetic"}, 2, 1, {RIGHT, WRONG, HUNG}),
    ("deliberation", {"problems": "policies"}, 2, 1, {GRADED, HUNG}),
    ("stag_hunt", {}, 3, 0, {COOPERATION, EXPLOITED, DEFECTION}),
    ("stag_hunt", {}, 2, 1, {COOPERATION, EXPLOITED, DEFECTION}),
    ("stag_hunt", {"needed": 3}, 3, 1, {COOPERATION, PARTIAL, EXPLOITED, DEFECTION}),
    ("stag_hunt", {"needed": 1}, 3, 1, {COOPERATION, PARTIAL, DEFECTION}),
]


def test_agents_who_say_anything_end_in_each_outcome_that_can_be_and_in_no_other() -> None:
    for case in CASES:
        name, given, honest, byzantine, expected = case
        game, groups = GAMES[name], [Group("honest", honest), Group("byzantine", byzantine)]
        parameters = game.Parameters(**(ROUNDS[name] | given))
        game.check(parameters, groups)
        assert game.possible_outcomes(parameters, groups) == expected, case
        rng, prompt, found = np.random.default_rng(0), next(iter(game.prompts)), set()
        for seed in range(150):
            outcome = ended(new_game(game, parameters, groups, prompt, seed), rng)
            found.add(game.class_of(outcome.name, outcome.detail))
            if seed > 60 and found == expected:
                break
        assert found == expected, case
