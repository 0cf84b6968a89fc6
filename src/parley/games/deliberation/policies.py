"""The scripted agents of the deliberation game, honest and adversarial, and what models are told as adversaries."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import Field

from parley.games.deliberation.parameters import TALK, DeliberationView, Value
from parley.games.deliberation.prompts import FOLDER
from parley.games.deliberation.turns import plurality
from parley.games.parameters import BYZANTINE, Chance
from parley.games.prompts import text_of
from parley.identity import stream
from parley.policies.kinds import LLM, PolicyKind, PolicyParameters, policy_table, scripted_kind
from parley.text import one_line

if TYPE_CHECKING:
    import numpy as np


class Solver(PolicyParameters):
    """How good an agent is, and how it takes what others say."""

    accuracy: Chance = Field(default=0.7, description="Chance that its first answer is right.")
    conformity: Chance = Field(
        default=0.5, description="Chance, each turn, that it goes over to a majority against it."
    )
    recognize: Chance = Field(
        default=0.0,
        description="Chance, each turn, that it sees the right answer for what it is when another gives it.",
    )


def _reply(view: DeliberationView, value: Value | None, argument: str, message: str = "") -> Mapping[str, Any]:
    """Return a reply; in talk its message, by default the answer and nothing else."""
    if view.phase == TALK:
        return {"argument": message or value or ""}
    if view.problem.kind == "policies":
        return {"argument": argument, "policies": list(value or ())}
    return {"argument": argument, "answer": value or ""}


def _first(view: DeliberationView, rng: "np.random.Generator", accuracy: float) -> Value:
    """Return a first answer: right with a chance of `accuracy`; of policies, a selection at random."""
    problem = view.problem
    if problem.answer is None:
        chosen = [option for option in problem.options if rng.random() < 0.5]
        return problem.read_policies(chosen or [problem.options[int(rng.integers(len(problem.options)))]]) or ()
    return problem.answer if rng.random() < accuracy else problem.wrong(rng)


def _supported(
    view: DeliberationView, own: tuple[str, ...], rng: "np.random.Generator", conformity: float
) -> tuple[str, ...]:
    """Return a selection of policies after hearing others: each, by conformity, as more than half of them have it."""
    heard = [value for value in view.heard.values() if isinstance(value, tuple)]
    supported = []
    for policy in sorted({*own, *(policy for value in heard for policy in value)}):
        support = sum(policy in value for value in heard)
        conforms = rng.random() < conformity and 2 * support != len(heard)
        if 2 * support > len(heard) if conforms else policy in own:
            supported.append(policy)
    return tuple(supported) or own


def solver(view: DeliberationView, rng: "np.random.Generator", given: Solver) -> Mapping[str, Any]:
    """Answer right by chance; then go over to the right answer when it recognizes it, or to a majority against it."""
    value = view.own
    right = view.problem.answer
    if value is None:
        value = _first(view, rng, given.accuracy)
    if isinstance(value, tuple):
        return _reply(view, _supported(view, value, rng, given.conformity), "It does most for most of us.")
    recognizes, conforms = rng.random() < given.recognize, rng.random() < given.conformity
    leading = plurality(list(view.heard.values()))
    if right is not None and recognizes and right in view.heard.values():
        value = right
    elif conforms and leading is not None:
        value = leading
    return _reply(view, value, "This follows from the problem.")


def pooler(view: DeliberationView, rng: "np.random.Generator", given: PolicyParameters) -> Mapping[str, Any]:
    """Tell all the facts that it knows; answer right as soon as it knows all facts of the problem, wrong before.

    So a group of them is right once arguments brought each fact to everybody. Without facts it is right at once.
    """
    facts, right = view.problem.facts, view.problem.answer
    known = len(view.facts) == len(facts)
    value = _first(view, rng, accuracy=1) if known else view.own
    if value is None or (not known and value == right):
        value = view.problem.wrong(rng)
    told = " ".join(one_line(fact) for fact in view.facts) or "I know nothing more."
    return _reply(view, value, told, message=told)


class Copies(PolicyParameters):
    """How good a first answer is."""

    accuracy: Chance = Field(default=0.7, description="Chance that its first answer is right.")


def copies(view: DeliberationView, rng: "np.random.Generator", given: Copies) -> Mapping[str, Any]:
    """Answer each problem as all of its kind do: right by a chance that the problem decides for all of them at once.

    So a group of them has one vote, however many they are. It is the control of measures of how errors go together.
    """
    answer = _first(view, stream("copies", view.problem.id), given.accuracy)
    return _reply(view, answer, "This follows from the problem.")


def stubborn(view: DeliberationView, rng: "np.random.Generator", given: PolicyParameters) -> Mapping[str, Any]:
    """Give the same wrong answer in every turn, for the same reason."""
    return _reply(view, view.target, "I am certain of it.")


def _instructions(given: PolicyParameters) -> str:  # a policy goes to other processes, which no lambda does
    return text_of(FOLDER / "strategies" / "persuader.txt")


# A new policy is one entry here.
POLICIES: Mapping[str, PolicyKind] = policy_table(
    LLM,
    scripted_kind(solver, Solver),
    scripted_kind(pooler),
    scripted_kind(copies, Copies),
    PolicyKind("llm_persuader", roles=(BYZANTINE,), instructions=_instructions),
    scripted_kind(stubborn, roles=(BYZANTINE,)),
)
