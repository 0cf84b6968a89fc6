"""Whether the verdict of a deliberation can follow from what was said in it, as the ledger has both.

The ledger does not say who was honest, only how many were not. So this checks what any choice of the honest agents
would have to meet: a chain may come from anyone, and nothing in it is believed.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from parley.games.deliberation.state import Value
from parley.games.evidence import Session
from parley.games.problems.numbers import Reading, read_as
from parley.games.problems.problem import Problem, read_answer
from parley.text import one_line


def check_verdict(session: Session) -> None:
    """Raise ValueError, in a few words, if a session cannot have its verdict (Definitions XI.3 to XI.5)."""
    verdict, rules = session.verdict, session.parameters
    if verdict["agreed"] is not session.agreed:
        raise ValueError("its verdict says otherwise than its block whether they agreed")
    if not session.agreed:
        if verdict["value"] is not None or verdict["detail"] is None:
            raise ValueError("its deliberation hung, and its verdict has a value or no reason")
        return
    last = max((said.round for said in session.utterances), default=-1)
    if rules["stop_when_unanimous"] is False and last % (rules["turns"] + 1) != rules["turns"]:
        raise ValueError(f"its last utterance is of round {last}: the last turns are missing")
    final = {said.agent: said.content for said in session.utterances if said.round == last}
    malicious = rules["malicious"]
    if not 0 <= malicious < len(session.agents):
        raise ValueError(f"{malicious} of its {len(session.agents)} agents are malicious, and one is honest at least")
    if session.subject["kind"] == "policies":
        _check_policies(session, list(final.values()), malicious)
    else:
        _check_value(session, list(final.values()), malicious)


def _check_value(session: Session, final: Sequence[Mapping[str, Any]], malicious: int) -> None:
    """All honest agents gave the value: so did all agents, but for as many as were malicious."""
    value, agents = session.verdict["value"], len(session.agents)
    honest = agents - malicious
    given = sum(_read(session.subject, session.parameters["reading"], said) == value for said in final)
    if value is None or given < honest:
        told = one_line(repr(value), 60)
        raise ValueError(
            f"its verdict is {told}, the last answer of {given} of {agents} agents, and {honest} are honest"
        )


def _read(subject: Mapping[str, Any], reading: Reading, said: Mapping[str, Any]) -> Value | None:
    if subject["kind"] == "number":
        return read_as(reading, said["answer"], said["argument"])
    return read_answer(subject["kind"], tuple(subject["options"]), said["answer"])


def _check_policies(session: Session, final: Sequence[Mapping[str, Any]], malicious: int) -> None:
    """The honest among those who name a policy are as many as its level says, and what reached θ was accepted."""
    honest = len(session.agents) - malicious
    problem = Problem.from_json({**session.subject, "answer": None})
    named = [problem.read_policies(said.get("policies", ())) or () for said in final]
    levels = {policy: Fraction(level) for policy, level in session.verdict["levels"].items()}
    for policy in {*levels, *(policy for each in named for policy in each)}:
        level = levels.get(policy, Fraction(0))
        count = sum(policy in each for each in named)
        if (level * honest).denominator != 1 or not count - malicious <= level * honest <= min(count, honest):
            raise ValueError(f"its verdict has the level {level} of a policy that {count} agents name at last")
    theta = Fraction(session.parameters["theta"])
    if session.verdict["value"] != sorted(policy for policy, level in levels.items() if level >= theta):
        raise ValueError("its verdict does not accept the policies whose level reaches theta")
