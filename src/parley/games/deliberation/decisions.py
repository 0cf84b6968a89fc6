"""How a deliberation ended, and what it would have decided under each rule that its record allows.

All follow from the answers by turn. A tie, or too few votes, is no decision; a tied plurality is as right as a draw
among the tied would be. Agents whose answer could not be read vote for nothing, and count among those of whom a
majority is asked.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any

from parley.games.base import Outcome
from parley.games.deliberation.parameters import (
    TALK,
    DeliberationParameters,
    DeliberationTurn,
    Value,
    value_text,
    values_of,
)
from parley.games.deliberation.turns import (
    chance_right,
    diagnosis,
    graded,
    heard_values,
    plurality,
    turn_of_consensus,
    unanimous,
)
from parley.games.evidence import OutcomeClass
from parley.games.problems.numbers import Reading, read_as
from parley.games.problems.problem import Problem


@dataclass(frozen=True)
class Decision:
    """What a group would decide by one rule, None for no decision, and the chance in [0, 1] that it is right.

    `right` is None where nothing is right.

    `answers` says of which answers the rule is: the first, the last, or those of the whole course.
    """

    rule: str
    answers: str
    voters: str
    winner: str | None
    right: float | None


Votes = Sequence[Value | None]
FIRST, LAST, COURSE = "first", "last", "course"


def _share(least: Fraction, votes: Votes, *, more: bool = False) -> Value | None:
    """Return the value that at least this share of all votes is for, or `more` than it."""
    counts = Counter(vote for vote in votes if vote is not None)
    for value, count in counts.most_common(1):
        share = Fraction(count, len(votes))
        return value if share > least or (share == least and not more) else None
    return None


# Ordinary votes; which of them says what of a tie: none of them decides.
RULES: Mapping[str, Callable[[Votes], Value | None]] = {
    "plurality": plurality,
    "majority": partial(_share, Fraction(1, 2), more=True),
    "two_thirds": partial(_share, Fraction(2, 3)),
    "unanimity": unanimous,
}


def steady(turns: Sequence[Votes]) -> Value | None:
    """Return the first value that all hold in two turns, one after the other."""
    held = [unanimous(votes) for votes in turns]
    return next((a for a, b in pairwise(held) if a is not None and a == b), None)


def decisions(
    right: Value | None, theta: Fraction, honest: Collection[str], trace: Sequence[DeliberationTurn]
) -> Iterator[Decision]:
    """Yield the decision of the last panel under each rule, by honest agents, and by all if some are not.

    Rules are of first answers, of last ones, or of the whole course. Among policies, those that a share θ supports are
    accepted (graded consensus, Definition XI.5), and none is right.
    """
    turns = last_panel(trace)
    everyone, rules = list(turns[0]["answers"]), turns[0]["rules"]
    for voters in ("honest", "all") if {*everyone} - {*honest} else ("honest",):
        names = [name for name in everyone if voters == "all" or name in honest]
        course = [values_of(entry, names) for entry in turns]
        # Agents who agreed at once hold their answers to the end; where nobody may talk there are first ones only.
        for answers, votes in ((FIRST, course[0]), (LAST, course[-1]))[: 2 if rules["turns"] else 1]:
            for name, rule in RULES.items():
                decision = _decision(name, answers, voters, rule(votes), right)
                if name == "plurality" and right is not None:
                    decision = replace(decision, right=chance_right(votes, right))
                yield decision
            if right is None:
                yield _decision("graded", answers, voters, graded(votes, theta).accepted or None, right)
        if rules["turns"] and not rules["stop_when_unanimous"]:  # else nothing is held twice
            yield _decision("steady", COURSE, voters, steady(course), right)


def _decision(rule: str, answers: str, voters: str, value: Value | None, right: Value | None) -> Decision:
    text = None if value is None else value_text(value)
    return Decision(rule, answers, voters, text, None if right is None else float(value == right))


def last_panel(trace: Sequence[DeliberationTurn]) -> list[DeliberationTurn]:
    """Return the turns of the last deliberation on the problem."""
    return [entry for entry in trace if entry["session"] == trace[-1]["session"]]


def effect_of_talking(
    right: Value | None, honest: Collection[str], trace: Sequence[DeliberationTurn]
) -> dict[str, Any]:
    """Return what talking changed in the answers of the last panel (meanings: columns.yaml)."""
    turns = last_panel(trace)
    names = [name for name in turns[0]["answers"] if name in honest]
    course = [values_of(entry, names) for entry in turns]
    leading, last = plurality(course[0]), plurality(course[-1])
    apart = [after for before, after in zip(course[0], course[-1], strict=True) if leading not in (None, before)]
    changes: dict[str, Any] = {
        "majority_adopted": sum(after == leading for after in apart) / len(apart) if apart else None,
    }
    if right is None:
        return changes
    present = right in course[0]
    gained = lost = heard_first = 0
    for number, (before, after) in enumerate(pairwise(course), 1):
        for place, name in enumerate(names):
            lost += before[place] == right != after[place]
            if before[place] != right == after[place]:
                gained += 1
                heard_first += right in heard_values(turns[number - 1], turns[number], name)
    first_of_all, last_of_all = (values_of(entry, list(entry["answers"])) for entry in (turns[0], turns[-1]))
    return changes | {
        "first_accuracy": first_of_all.count(right) / len(first_of_all),
        "last_accuracy": last_of_all.count(right) / len(last_of_all),
        "right_present": present,
        "right_voted_out": present and last != right,
        "right_to_wrong_changes": lost,
        "wrong_to_right_changes": gained,
        "corrected_after_hearing": None if any(TALK in turn for turn in turns) else heard_first,  # no answer was heard
    }


CORRECT = "correct_consensus"
WRONG = "wrong_consensus"
GRADED = "graded_consensus"
HUNG = "hung"
OUTCOMES = (
    OutcomeClass(CORRECT, "unanimous and right", "#0072B2", ""),
    OutcomeClass(WRONG, "unanimous and wrong", "#D55E00", "///"),
    OutcomeClass(GRADED, "policies accepted", "#009E73", "\\\\"),
    OutcomeClass(HUNG, "hung", "#D9D9D9", ".."),
)


def outcome_of(
    problem: Problem, parameters: DeliberationParameters, honest: Collection[str], trace: Sequence[DeliberationTurn]
) -> Outcome:
    """Return the outcome of the last deliberation on a problem, and what was measured in all of them."""
    turns = last_panel(trace)
    first, last = turns[0], turns[-1]
    everyone = list(first["answers"])
    names = [name for name in everyone if name in honest]
    right, verdict = problem.answer, last["verdict"]
    agreed = verdict["agreed"]
    confidence = 1.0 if agreed else None
    if not agreed:
        name = HUNG
    elif not problem.definitive:
        name = GRADED
        confidence = float(graded(values_of(last, names), parameters.theta).confidence or 0)
    else:
        name = CORRECT if verdict["value"] == right else WRONG

    def is_right(value: Value | None) -> bool | None:
        return None if right is None else value == right

    def majority(turn: DeliberationTurn, voters: Sequence[str]) -> bool | None:
        return is_right(plurality(values_of(turn, voters)))

    [single] = values_of(first, names[:1])
    of_single = first["said"][names[0]] or {"answer": "", "argument": ""}

    def single_as(reading: Reading) -> bool | None:
        given = of_single["answer"], of_single["argument"]
        return read_as(reading, *given) == right if problem.kind == "number" else None

    answers = [answer for entry in trace for answer in entry["said"].values()]
    values = [value for entry in trace for value in entry["answers"].values()]
    return Outcome(
        name=name,
        detail=verdict["detail"],
        diagnosis=diagnosis(turns, names),
        rounds=len(trace) + sum(len(turn["talk"]) for turn in trace if "talk" in turn),
        finished_early=agreed,
        metrics={
            "problem": problem.id,
            "kind": problem.kind,
            "right_answer": right,
            "consensus": verdict["value"],
            "reading": parameters.reading,
            "single_correct": is_right(single),
            "single_correct_strict": single_as("strict"),
            "single_correct_flexible": single_as("flexible"),
            "first_majority_correct": majority(first, everyone),
            "first_majority_correct_honest": majority(first, names),
            "last_majority_correct": majority(last, everyone),
            "last_majority_correct_honest": majority(last, names),
            "consensus_correct": None if right is None else name == CORRECT,
            "agreed": agreed,
            "turns": parameters.turns,
            "turn_of_consensus": turn_of_consensus(turns, names) if agreed else None,
            "final_participation": trace[-1]["measures"]["participation"],
            "final_confidence": confidence,
            "final_levels": trace[-1].get("levels"),
            "deliberations": trace[-1]["session"] + 1,
            "utterances": sum(said is not None for said in answers),
            "silent": sum(said is None for said in answers),
            "unreadable": sum(v is None and s is not None for v, s in zip(values, answers, strict=True)),
            "unknown_policies": sum(said["unknown"] for said in answers if said and "unknown" in said),
        },
        trace=tuple(trace),
    )
