"""The games: rules, prompts and evidence of each in a folder of its own, and what all of them share.

A game is made of the names here; it needs no more than its parameters, its outcomes and `play`.
"""

from parley.games.base import Game, Outcome, new_game
from parley.games.evidence import Evidence, FigureSpec, Indicator, Measure, OutcomeClass, Quantity
from parley.games.parameters import BYZANTINE, HONEST, GameParameters, Group, Seat
from parley.games.prompts import Phase, Prompts, fill
from parley.policies import Ask, Reply, Sampling
from parley.policies.kinds import LLM, PolicyParameters, scripted_kind
from parley.policies.reply_text import ReplyModel

__all__ = [
    "BYZANTINE",
    "HONEST",
    "LLM",
    "Ask",
    "Evidence",
    "FigureSpec",
    "Game",
    "GameParameters",
    "Group",
    "Indicator",
    "Measure",
    "Outcome",
    "OutcomeClass",
    "Phase",
    "PolicyParameters",
    "Prompts",
    "Quantity",
    "Reply",
    "ReplyModel",
    "Sampling",
    "Seat",
    "fill",
    "new_game",
    "scripted_kind",
]
