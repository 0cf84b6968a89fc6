"""One turn of a deliberation: who hears whom, and what is measured of the answers. Pure functions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from parley.games.deliberation.state import Answer, Value
from parley.games.deliberation.verdict import graded, largest_share, plurality
from parley.games.network.graph import Network
from parley.games.problems.problem import Problem


@dataclass(frozen=True)
class Turn:
    """What the agents of a panel answered, by name, and whom each of them had heard before."""

    number: int  # 0 is the initial round
    answers: Mapping[str, Answer]
    heard: Mapping[str, tuple[str, ...]]

    def values(self, names: Sequence[str]) -> list[Value | None]:
        """Return the values of the answers of `names`, in their order."""
        return [self.answers[name].value for name in names]


def reached(network: Network, names: Sequence[str]) -> dict[str, frozenset[str]]:
    """Return whose utterances gossip brings to each agent: those of all in its part of the network."""
    return {
        name: frozenset(names[other] for other in network.component(place) if other != place)
        for place, name in enumerate(names)
    }


def heard_by(
    panel: Sequence[str], reach: Mapping[str, frozenset[str]], one_neighbor: bool, turn: int
) -> dict[str, tuple[str, ...]]:
    """Return whose last answers each agent of a panel gets in turn `turn`, 1 or later.

    All others that gossip brings, in the agents' order; or `one_neighbor`, which is the agent after it in turn 1, the
    one after that in turn 2, and so on around the panel ("round-robin", section VI).
    """
    found: dict[str, tuple[str, ...]] = {}
    for place, name in enumerate(panel):
        around = [other for other in (*panel[place + 1 :], *panel[:place]) if other in reach[name]]
        if one_neighbor and around:
            found[name] = (around[(turn - 1) % len(around)],)
        else:
            found[name] = tuple(other for other in panel if other in around)
    return found


def turn_measures(
    problem: Problem, honest: Sequence[str], before: Turn | None, now: Turn, theta: Fraction
) -> dict[str, float | None]:
    """Return each measure of a turn, a share in [0, 1], None where nobody could show it.

    `before` is the last turn, None in the initial round. An answer that could not be read is not right.
    """
    values = now.values(honest)
    share = _Shares(problem, honest, before, now)
    confidence = None if problem.definitive else graded(values, theta).confidence
    return {
        "accuracy": share.right() if problem.definitive else None,
        "participation": float(largest_share(values)) if honest else None,
        "right_to_wrong": share.given_up() if problem.definitive else None,
        "wrong_to_right": share.mended() if problem.definitive else None,
        "conformity": share.gone_over(),
        "confidence": None if confidence is None else float(confidence),
    }


@dataclass(frozen=True)
class _Shares:
    problem: Problem
    honest: Sequence[str]
    before: Turn | None
    now: Turn

    def right(self) -> float | None:
        return _share([self._is_right(self.now, name) for name in self.honest])

    def given_up(self) -> float | None:
        return _share([not self._is_right(self.now, name) for name in self._were(right=True)])

    def mended(self) -> float | None:
        return _share([self._is_right(self.now, name) for name in self._were(right=False)])

    def gone_over(self) -> float | None:
        """Of those who heard a majority against their own last answer, the share that gives its answer now."""
        if self.before is None:
            return None
        went = []
        for name in self.honest:
            own, leading = self.before.answers[name].value, plurality(self.before.values(self.now.heard[name]))
            if own is not None and leading is not None and leading != own:
                went.append(self.now.answers[name].value == leading)
        return _share(went)

    def _is_right(self, turn: Turn, name: str) -> bool:
        return turn.answers[name].value == self.problem.answer

    def _were(self, right: bool) -> list[str]:
        if self.before is None:
            return []
        return [name for name in self.honest if self._is_right(self.before, name) is right]


def _share(of: Sequence[bool]) -> float | None:
    return sum(of) / len(of) if of else None
