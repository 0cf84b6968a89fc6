"""One turn of a deliberation: who hears whom, what is agreed on, and what is measured of the answers.

Pure functions of the answers in normal form; unanimity, graded agreement and confidence are Definitions XI.3 to XI.5.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import takewhile

from parley.games.deliberation.parameters import (
    IN_TURN,
    DeliberationParameters,
    DeliberationTurn,
    Value,
    Verdict,
    values_of,
)
from parley.games.parameters import held_at_last, share_of
from parley.games.problems.problem import Problem


def heard_by(
    panel: Sequence[str], reach: Mapping[str, Collection[str]], hears: str, turn: int
) -> dict[str, tuple[str, ...]]:
    """Return whose last answers each agent of a panel gets in turn `turn`, 1 or later.

    All that gossip brings, unless it `hears` a `neighbor` alone, the next one around the panel each turn
    ("round-robin", section VI), or `nobody`.
    """
    heard: dict[str, tuple[str, ...]] = {}
    for place, name in enumerate(panel):
        around = [other for other in (*panel[place + 1 :], *panel[:place]) if other in reach[name]]
        if hears == "nobody":
            around = []
        elif hears == "neighbor" and around:
            around = [around[(turn - 1) % len(around)]]
        heard[name] = tuple(other for other in panel if other in around)
    return heard


def unanimous(answers: Sequence[Value | None]) -> Value | None:
    """Return the value that all agents give, policies all the same ones; None if they do not, or for nobody."""
    return answers[0] if answers and all(answer == answers[0] for answer in answers) else None


def leaders(answers: Sequence[Value | None]) -> list[Value]:
    """Return the values that no fewer agents give than any other: several on a tie, none if nobody gives one."""
    counts = Counter(answer for answer in answers if answer is not None)
    most = max(counts.values(), default=0)
    return [value for value, count in counts.items() if count == most]


def plurality(answers: Sequence[Value | None]) -> Value | None:
    """Return the value that more agents give than any other; None on a tie, and if nobody gives one."""
    leading = leaders(answers)
    return leading[0] if len(leading) == 1 else None


def chance_right(answers: Sequence[Value | None], right: Value) -> float:
    """Return how often a plurality is right, of which a draw decides the ties: 1/m if `right` is one of m leaders.

    A tie that counts as wrong makes even numbers of agents look worse than odd ones.
    """
    leading = leaders(answers)
    return leading.count(right) / max(1, len(leading))


def heard_values(before: DeliberationTurn, now: DeliberationTurn, name: str) -> list[Value | None]:
    """Return the answers that an agent heard in a turn; where agents speak in turn, some of them are of the same."""
    spoke = [*takewhile(name.__ne__, now["answers"])] if now.get(IN_TURN) else []
    return [value for peer in now["heard"][name] for value in values_of(now if peer in spoke else before, [peer])]


@dataclass(frozen=True, slots=True)
class Graded:
    """The level A of each policy that anyone named, those accepted at θ, and the confidence C: their mean level."""

    levels: dict[str, Fraction]
    accepted: tuple[str, ...]
    confidence: Fraction | None


def graded(answers: Sequence[Value | None], theta: Fraction) -> Graded:
    """Return the graded agreement on policies (Definition XI.5); who gave none counts, and supports none."""
    named = Counter(policy for answer in answers if isinstance(answer, tuple) for policy in answer)
    levels = {policy: Fraction(count, len(answers)) for policy, count in sorted(named.items())}
    accepted = tuple(policy for policy, level in levels.items() if level >= theta)
    total = sum((levels[policy] for policy in accepted), Fraction(0))
    return Graded(levels, accepted, total / len(accepted) if accepted else None)


def turn_measures(
    problem: Problem, honest: Sequence[str], before: DeliberationTurn | None, now: DeliberationTurn, theta: Fraction
) -> dict[str, float | None]:
    """Return each measure of a turn, a share in [0, 1], None where nobody could show it; `before` is the last turn."""
    values = values_of(now, honest)
    confidence = None if problem.definitive else graded(values, theta).confidence
    right = [value == problem.answer for value in values]
    alike = Counter(value for value in values if value is not None)
    was_right: list[bool] = []
    went_over: list[bool] = []  # of those who heard a majority against their own last answer
    if before is not None:
        owns = values_of(before, honest)
        was_right = [own == problem.answer for own in owns]
        for name, own, value in zip(honest, owns, values, strict=True):
            leading = plurality(heard_values(before, now, name))
            if own is not None and leading is not None and leading != own:
                went_over.append(value == leading)
    pairs = list(zip(was_right, right, strict=False))  # none in the initial round

    def judged(flags: Collection[bool]) -> float | None:
        return share_of(flags) if problem.definitive else None

    return {
        "accuracy": judged(right),
        "participation": max(alike.values(), default=0) / len(values) if honest else None,
        "right_to_wrong": judged([not now_right for was, now_right in pairs if was]),
        "wrong_to_right": judged([now_right for was, now_right in pairs if not was]),
        "conformity": share_of(went_over),
        "confidence": None if confidence is None else float(confidence),
    }


def verdict(
    p: DeliberationParameters, honest: Sequence[str], turns: Sequence[DeliberationTurn], milliseconds: int
) -> Verdict | None:
    """Return how a deliberation ended after its last turn, None if it goes on (Definitions XI.3 to XI.7).

    `milliseconds` adds up the slowest reply of each of its turns.
    """
    values = values_of(turns[-1], honest)
    value: Value | None = None
    detail: str | None = None
    if p.time_limit is not None and milliseconds >= 1000 * p.time_limit:
        detail = "time_limit"
    elif sum(each is not None for each in values) < p.fewest_honest:
        detail = "too_few_honest"
    elif turns[-1]["turn"] < p.turns and (not p.stop_when_unanimous or unanimous(values) is None):
        return None
    else:
        value = unanimous(values) if p.definitive else graded(values, p.theta).accepted or None
        detail = "turn_limit" if value is None else None
    as_json = list(value) if isinstance(value, tuple) else value
    ended: Verdict = {"agreed": detail is None, "value": as_json, "detail": detail}
    return ended if p.definitive else {"levels": turns[-1]["levels"], **ended}


def turn_of_consensus(turns: Sequence[DeliberationTurn], honest: Sequence[str]) -> int:
    """Return the turn from which on honest agents held what they agreed on at last; for policies the last one."""
    value = turns[-1]["verdict"]["value"]
    if isinstance(value, list):
        return turns[-1]["turn"]
    return len(turns) - held_at_last([unanimous(values_of(turn, honest)) == value for turn in turns])


def diagnosis(turns: Sequence[DeliberationTurn], honest: Sequence[str]) -> str | None:
    """Return what stood against unanimity when a deliberation hung; None of one that did not."""
    detail = turns[-1]["verdict"]["detail"]
    if detail is None:
        return None
    values = values_of(turns[-1], honest)
    if len({value for value in values if value is not None}) == 1:
        if None in values:
            return "agreed_but_some_unreadable"
        return "agreed_too_late" if detail == "time_limit" else "agreed_by_too_few"
    if any(unanimous(values_of(turn, honest)) is not None for turn in turns):
        return "drifted_apart"
    return "nothing_readable" if all(value is None for value in values) else "never_agreed"
