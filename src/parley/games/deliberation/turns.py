"""One turn of a deliberation: who hears whom, what is agreed on, and what is measured of the answers.

Pure functions of the answers in normal form; unanimity, graded agreement and confidence are Definitions XI.3 to XI.5.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from parley.games.deliberation.state import Answer, Value
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


def unanimous(answers: Sequence[Value | None]) -> Value | None:
    """Return the value that all agents give; None if they do not, if one gives none, or if there is nobody.

    Answers with policies are unanimous if all name the same ones.
    """
    return answers[0] if answers and all(answer == answers[0] for answer in answers) else None


def plurality(answers: Sequence[Value | None]) -> Value | None:
    """Return the value that more agents give than any other; None on a tie, and if nobody gives one."""
    counts = Counter(answer for answer in answers if answer is not None).most_common(2)
    if not counts or (len(counts) == 2 and counts[0][1] == counts[1][1]):
        return None
    return counts[0][0]


def largest_share(answers: Sequence[Value | None]) -> Fraction:
    """Return the share of the agents, in [0, 1], that give the most frequent value; 0 if nobody gives one."""
    counts = Counter(answer for answer in answers if answer is not None)
    return Fraction(max(counts.values()), len(answers)) if counts else Fraction(0)


@dataclass(frozen=True, slots=True)
class Graded:
    """The agreement on policies: the level A of each that anyone named, those accepted at θ, and the confidence C.

    All levels and the confidence are in [0, 1]; the confidence is the mean level of those accepted, None without any.
    """

    levels: dict[str, Fraction]
    accepted: tuple[str, ...]
    confidence: Fraction | None


def graded(answers: Sequence[Value | None], theta: Fraction) -> Graded:
    """Return the graded agreement of honest agents on policies (Definition XI.5), each agent's without repetitions.

    An agent that gave none counts among all, and supports none.
    """
    named = Counter(policy for answer in answers if isinstance(answer, tuple) for policy in answer)
    levels = {policy: Fraction(count, len(answers)) for policy, count in sorted(named.items())}
    accepted = tuple(policy for policy, level in levels.items() if level >= theta)
    total = sum((levels[policy] for policy in accepted), Fraction(0))
    return Graded(levels, accepted, total / len(accepted) if accepted else None)


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
