"""A small game that keeps a ledger, for the tests: the consensus game, whose proposals are what is said.

Its first two rounds are a deliberation of all agents, which hangs if they have not stopped by then; the rounds after
them are one of all but the last.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from parley.games.consensus import ConsensusGame
from parley.games.transcript import Session, Utterance

FIRST_ROUNDS = 2


class CouncilGame(ConsensusGame):
    """The consensus game with a transcript."""

    name = "council"
    keeps_ledger = True

    @classmethod
    def transcript(cls, outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]) -> Sequence[Session]:
        agents = tuple(trace[0]["proposals"])
        sessions = [_session(outcome, trace[:FIRST_ROUNDS], agents)]
        if trace[FIRST_ROUNDS:]:
            sessions.append(_session(outcome, trace[FIRST_ROUNDS:], agents[:-1]))
        return sessions


def _session(outcome: Mapping[str, Any], rounds: Sequence[Mapping[str, Any]], agents: tuple[str, ...]) -> Session:
    said = [
        Utterance(row["round"], agent, {"value": row["proposals"][agent], "text": f'I say "{agent}"'})
        for row in rounds
        for agent in agents
    ]
    stopped = bool(rounds[-1]["stopped"])
    verdict = {"value": rounds[-1]["values"][agents[0]], "outcome": outcome["name"]} if stopped else {}
    return Session({"problem": "a number"}, agents, {"rounds": FIRST_ROUNDS}, tuple(said), stopped, verdict)
