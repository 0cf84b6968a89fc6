"""The scripted policy: answers by a rule of the game, without an engine."""

import json

import numpy as np

from parley.policies import Ask, Completion
from parley.policies.kinds import Rule


class ScriptedPolicy:
    """Answers by a rule; the reply is serialized, so that it is parsed and recorded like a model's."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        """Return the rule's reply, as JSON."""
        reply = self._rule(ask.view, np.random.default_rng(seed))
        return Completion(text=json.dumps(reply), finish_reason="stop")
