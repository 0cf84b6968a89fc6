"""When a deliberation is over, and how it ended."""

from dataclasses import dataclass

from parley.games.deliberation.parameters import DeliberationParameters
from parley.games.deliberation.state import Agent, Value
from parley.games.deliberation.turns import Turn, graded, unanimous


@dataclass(frozen=True)
class Ended:
    """How one deliberation ended: what was agreed on, or why it hung."""

    panel: tuple[Agent, ...]
    turns: tuple[Turn, ...]
    value: Value | None
    confidence: float | None = None
    detail: str | None = None

    @property
    def honest(self) -> list[str]:
        """The names of the honest agents, in their order."""
        return [agent.name for agent in self.panel if agent.honest]

    def turn_of_consensus(self, definitive: bool) -> int:
        """Return the turn from which on honest agents held what was agreed on; for policies that of the verdict."""
        if not definitive:
            return self.turns[-1].number
        held = [unanimous(turn.values(self.honest)) == self.value for turn in self.turns]
        return len(held) - next((i for i, same in enumerate(reversed(held)) if not same), len(held))

    @property
    def diagnosis(self) -> str | None:
        """What stood against unanimity when a deliberation hung."""
        if self.detail is None:
            return None
        values = self.turns[-1].values(self.honest)
        if len({value for value in values if value is not None}) == 1:
            if None in values:
                return "agreed_but_some_unreadable"
            return "agreed_too_late" if self.detail == "time_limit" else "agreed_by_too_few"
        if any(unanimous(turn.values(self.honest)) is not None for turn in self.turns):
            return "drifted_apart"
        return "nothing_readable" if all(value is None for value in values) else "never_agreed"


def verdict(
    p: DeliberationParameters, definitive: bool, panel: tuple[Agent, ...], turns: tuple[Turn, ...], milliseconds: int
) -> Ended | None:
    """Return how a deliberation ended after its last turn, None if it goes on (Definitions XI.3 to XI.7).

    Problems are `definitive`, or ask for policies. `milliseconds` adds up the slowest reply of each of its turns.
    """
    last = turns[-1].number == p.turns
    values = turns[-1].values([agent.name for agent in panel if agent.honest])
    readable = sum(value is not None for value in values)
    if p.time_limit is not None and milliseconds >= 1000 * p.time_limit:
        return Ended(panel, turns, None, detail="time_limit")
    if readable < p.fewest_honest:
        return Ended(panel, turns, None, detail="too_few_honest")
    if not last and (not p.stop_when_unanimous or unanimous(values) is None):
        return None
    value: Value | None
    if definitive:
        value, confidence = unanimous(values), 1.0
    else:
        grades = graded(values, p.theta)
        value, confidence = grades.accepted or None, float(grades.confidence or 0)
    if value is None:
        return Ended(panel, turns, None, detail="turn_limit")
    return Ended(panel, turns, value, confidence)
