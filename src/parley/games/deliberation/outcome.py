"""How a deliberation ended: the outcomes that there are, what was measured, and what a vote is about."""

from collections.abc import Sequence
from dataclasses import replace
from string import ascii_uppercase
from typing import Any

import numpy as np

from parley.games.base import Outcome
from parley.games.deliberation.ballots import labels
from parley.games.deliberation.parameters import Answer, DeliberationParameters, Round, Value, value_text
from parley.games.deliberation.turns import Ended, plurality
from parley.games.evidence import OutcomeClass
from parley.games.problems.numbers import Reading, read_as
from parley.games.problems.problem import Problem

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


def outcome_of(problem: Problem, parameters: DeliberationParameters, ended: Ended, trace: Sequence[Round]) -> Outcome:
    """Return the outcome of the last deliberation on a problem, and what was measured in all of them."""
    first, last = ended.turns[0], ended.turns[-1]
    right = problem.answer
    agreed = ended.detail is None
    if not agreed:
        name = HUNG
    elif not problem.definitive:
        name = GRADED
    else:
        name = CORRECT if ended.value == right else WRONG
    everyone = [agent.name for agent in ended.panel]

    def is_right(value: Value | None) -> bool | None:
        return None if right is None else value == right

    single = first.answers[ended.honest[0]]

    def single_as(reading: Reading) -> bool | None:
        return read_as(reading, single.said, single.argument) == right if problem.kind == "number" else None

    answers = [answer for entry in trace for answer in entry["said"].values()]
    values = [value for entry in trace for value in entry["answers"].values()]
    return Outcome(
        name=name,
        detail=ended.detail,
        diagnosis=ended.diagnosis,
        rounds=len(trace),
        finished_early=agreed,
        metrics={
            "problem": problem.id,
            "kind": problem.kind,
            "right_answer": right,
            "consensus": list(ended.value) if isinstance(ended.value, tuple) else ended.value,
            "reading": parameters.reading,
            "single_correct": is_right(single.value),
            "single_correct_strict": single_as("strict"),
            "single_correct_flexible": single_as("flexible"),
            "first_majority_correct": is_right(plurality(first.values(everyone))),
            "first_majority_correct_honest": is_right(plurality(first.values(ended.honest))),
            "last_majority_correct": is_right(plurality(last.values(everyone))),
            "last_majority_correct_honest": is_right(plurality(last.values(ended.honest))),
            "consensus_correct": None if right is None else name == CORRECT,
            "agreed": agreed,
            "turns": parameters.turns,
            "turn_of_consensus": ended.turn_of_consensus(problem.definitive) if agreed else None,
            "final_participation": trace[-1]["measures"]["participation"],
            "final_confidence": ended.confidence,
            "final_levels": trace[-1].get("levels"),
            "deliberations": trace[-1]["session"] + 1,
            "utterances": sum(said is not None for said in answers),
            "silent": sum(said is None for said in answers),
            "unreadable": sum(v is None and s is not None for v, s in zip(values, answers, strict=True)),
            "unknown_policies": sum(said["unknown"] for said in answers if said and "unknown" in said),
        },
        trace=tuple(trace),
    )


def said_of(answer: Answer) -> dict[str, Any] | None:
    """Return what an agent said in a turn, as the trace has it; None for a silent one."""
    if answer.silent:
        return None
    policies = {"policies": list(answer.policies)} if answer.policies else {}
    unknown = {"unknown": answer.unknown} if answer.unknown else {}
    return {"answer": answer.said, "argument": answer.argument, **policies, **unknown}


def candidates_of(
    problem: Problem, answers: Sequence[Answer], rng: np.random.Generator
) -> tuple[dict[str, Value], list[Answer]]:
    """Return the different answers that a vote is about, by letter, and each as agents see it.

    They have letters in place of names, and come with the argument of one agent who gave them: both drawn. Nothing is
    drawn of fewer than two.
    """
    given: dict[Value, list[Answer]] = {}
    for answer in answers:
        if answer.value is not None:
            given.setdefault(answer.value, []).append(answer)
    if len(given) < 2:
        return {}, []
    values = [list(given)[place] for place in rng.permutation(len(given))]
    # Choices have letters already, in an order that is drawn, too.
    texts = dict(zip(ascii_uppercase, problem.options, strict=False)) if problem.kind == "choice" else {}
    own_letters: dict[str, Value] = {letter: letter for letter in texts if letter in given}
    by_letter = own_letters or dict(zip(labels(), values, strict=False))
    candidates = [
        replace(of[int(rng.integers(len(of)))], agent=letter, said=texts.get(letter) or value_text(value))
        for letter, value in by_letter.items()
        for of in [given[value]]
    ]
    return by_letter, candidates
