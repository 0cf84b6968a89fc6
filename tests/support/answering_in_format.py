"""A policy that answers in the format of each ask, as a model would that plays well."""

import json
from collections.abc import Mapping
from typing import Any

from parley.games.consensus.parameters import ByzantineVote, HonestVote, proposal_model, turn_model
from parley.games.deliberation.parameters import reply_model
from parley.games.stag_hunt.parameters import act_model, signal_model
from parley.policies import Ask, Completion
from support.deliberating import CARDS, CHOICES

# Models of all kinds of replies, with short fields.
REASONED = reply_model("cot", "number", (), 60, 40)
ZERO_SHOT = reply_model("zero_shot", "number", (), 60, 40)
POLICIES = reply_model("cot", "policies", CHOICES.options, 60, 40)
PROPOSAL = proposal_model("honest", 0, 50, 400, 30)
BYZANTINE = proposal_model("byzantine", 0, 50, 400, 30)
TURN = turn_model("byzantine", -5, 5, 400, 30)
MODELS = [REASONED, ZERO_SHOT, POLICIES, PROPOSAL, BYZANTINE, TURN, HonestVote, ByzantineVote]
MODELS += [signal_model(600), act_model(600), reply_model("zero_shot", "cards", CARDS.options, 60, 40)]

FREELY = "I thought about it.\nThat is all."


class Answering:
    """Answers in the format of each ask, and keeps what it was asked."""

    def __init__(self, free: str = FREELY, finish: Mapping[str, str] | None = None) -> None:
        self.asks: list[Ask] = []
        self._free = free
        self._finish = finish or {}

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        self.asks.append(ask)
        text = self._free if ask.reply_format == "free" else self.said(ask)
        return Completion(text, self._finish.get(ask.phase, "stop"), 1, 1, 0)

    def said(self, ask: Ask) -> str:
        """Return a proper reply to an ask."""
        known: dict[str, Any] = {
            "internal_strategy": FREELY,
            "value": 7,
            "public_reasoning": "seven",
            "vote": "continue",
            "decision": "continue",
            "argument": FREELY,
            "answer": "18",
            "policies": ["Lend tools", "Buy more books"],
            "reasoning": FREELY,
            "word": "stag",
            "action": "Hunt Stag",
        }
        fields = {name: known[name] for name in ask.reply_model.model_fields}
        if ask.reply_format == "json":
            return json.dumps(fields)
        labels = {"value": "Value", "public_reasoning": "Public", "vote": "Vote", "decision": "Decision"}
        labels |= {"answer": "Answer", "word": "Word", "action": "Action"}
        lines = [f"{labels[name]}: {value}" for name, value in fields.items() if name in labels]
        lines += [f"Policy: {policy}" for policy in fields.get("policies", [])]
        first = next(iter(fields)) in ("answer", "policies")
        return "\n".join([*lines, FREELY] if first else [FREELY, *lines])
