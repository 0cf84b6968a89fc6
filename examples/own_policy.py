"""The smallest policy of your own: it proposes the median of what it saw. See docs/own-policies.md."""

import json
from statistics import median_low

from parley.games.base import Ask
from parley.policies import Completion


class Median:
    """Proposes the median of the last round's proposals, in the first round its own value; for honest agents.

    It votes stop when all proposals of this round are equal but for `faults` of them.
    """

    def __init__(self, faults: int = 0) -> None:
        self._faults = faults

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        """Return the reply as a model would write it: JSON, which is parsed strictly."""
        view = ask.view  # what the agent may see, as data: the consensus game's ConsensusView
        proposals = view.this_round if ask.phase == "vote" else view.last_round
        values = [value for value in proposals.values() if value is not None]  # None: it was silent
        if ask.phase == "vote":
            agreed = any(values.count(value) >= len(values) - self._faults for value in values)
            return Completion(json.dumps({"decision": "stop" if agreed else "continue"}), "stop")
        value = median_low(values) if values else view.current_value
        reply = {"internal_strategy": "", "value": value, "public_reasoning": "The median is in the middle."}
        return Completion(json.dumps(reply), "stop")
