"""Rules of the consensus game whose quality is known beforehand, as policies of one's own."""

import json
from collections.abc import Sequence
from statistics import fmean, median_low

from parley.games.base import Ask
from parley.policies import Completion


class Rule:
    """Proposes what `choose` makes of the last round's proposals of honest agents, and stops when all are equal.

    Its initial value in the first round.
    """

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        """Return the reply as a model would write it."""
        view = ask.view
        if ask.phase == "vote":
            equal = len({value for value in view.this_round.values() if value is not None}) == 1
            return Completion(json.dumps({"decision": "stop" if equal else "continue"}), "stop")
        values = [value for _, value in sorted(view.last_round.items()) if value is not None]
        value = self.choose(values) if values else view.current_value
        reply = {"internal_strategy": "", "value": value, "public_reasoning": "A rule."}
        return Completion(json.dumps(reply), "stop")

    def choose(self, values: Sequence[int]) -> int:
        """Return what to propose after these values, in the order of the agents' names."""
        raise NotImplementedError


class Middle(Rule):
    """Goes to the lower median."""

    def choose(self, values: Sequence[int]) -> int:
        """Return the lower median."""
        return median_low(values)


class Average(Rule):
    """Goes to the mean, rounded."""

    def choose(self, values: Sequence[int]) -> int:
        """Return the mean."""
        return round(fmean(values))


class First(Rule):
    """Goes to the first agent's value."""

    def choose(self, values: Sequence[int]) -> int:
        """Return the first."""
        return values[0]


class Highest(Rule):
    """Goes to the highest value, which one adversary can make any."""

    def choose(self, values: Sequence[int]) -> int:
        """Return the highest."""
        return max(values)
