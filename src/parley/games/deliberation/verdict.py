"""When a deliberation is over: unanimity, graded agreement and confidence (Definitions XI.3 to XI.5).

Pure functions of the answers of honest agents, in normal form.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from parley.games.deliberation.state import Value


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
