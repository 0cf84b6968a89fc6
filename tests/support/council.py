"""A small game that keeps a ledger, for the tests: the consensus game, whose proposals are what is said.

Its first two rounds are a deliberation of all agents, which hangs if they have not stopped by then; the rounds after
them are one of all but the last.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from parley.games.consensus.evidence import ConsensusEvidence
from parley.games.consensus.game import ConsensusGame
from parley.games.evidence import Session, Utterance
from parley.play.simulate import simulate
from parley.study import Study

FIRST_ROUNDS = 2


class CouncilEvidence(ConsensusEvidence):
    keeps_ledger = True

    def transcript(self, outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]) -> Sequence[Session]:
        agents = tuple(trace[0]["proposals"])
        sessions = [_session(outcome, trace[:FIRST_ROUNDS], agents)]
        if trace[FIRST_ROUNDS:]:
            sessions.append(_session(outcome, trace[FIRST_ROUNDS:], agents[:-1]))
        return sessions


class CouncilGame(ConsensusGame):
    """The consensus game with a transcript."""

    name = "council"
    evidence = CouncilEvidence()


def _session(outcome: Mapping[str, Any], rounds: Sequence[Mapping[str, Any]], agents: tuple[str, ...]) -> Session:
    said = [
        Utterance(row["round"], agent, {"value": row["proposals"][agent], "text": f'I say "{agent}"'})
        for row in rounds
        for agent in agents
    ]
    stopped = bool(rounds[-1]["stopped"])
    verdict = {"value": rounds[-1]["values"][agents[0]], "outcome": outcome["name"]} if stopped else {}
    return Session({"problem": "a number"}, agents, {"rounds": FIRST_ROUNDS}, tuple(said), stopped, verdict)


def recorded_study(make: Callable[..., Study], **content: Any) -> Study:
    """Return a study of the game that `make` (the fixture `study_factory`) writes, all of it played.

    Three agents of which one is adversarial, on two networks, two seeds; some deliberations hang, some do not.
    """
    grid = {"honest": 3, "b": [0, 1], "byzantine": "random", "vary": {"topology": ["complete", "ring"]}}
    parameters = {"max_rounds": 4, **content.pop("parameters", {})}
    study = make(grid, game=CouncilGame.name, seeds=2, parameters=parameters, **content)
    for simulation in study.simulations():
        simulate(study, simulation.record(study.name), [], 0.0)
    return study
