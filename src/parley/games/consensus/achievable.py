"""Which protocol does best in the seats of a consensus game, and what theory promises of it there.

docs/explanation/theory.md has the bounds with their sources. A protocol knows how many faults there may be, which is
the number of Byzantine agents, and nothing else that models do not know.
"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from parley.games.consensus.parameters import ConsensusParameters, ConsensusRound, in_hull
from parley.games.consensus.policies import POLICIES
from parley.games.evidence import Achievable
from parley.games.network import Network
from parley.policies.kinds import ChosenPolicy, Rule

if TYPE_CHECKING:
    import numpy as np

AGREEMENT, VALIDITY, HULL, ROUNDS = "agreement", "validity", "hull", "rounds"
ACHIEVABLE = (
    Achievable(AGREEMENT, "games in agreement", "agreement lost"),
    Achievable(VALIDITY, "games in valid agreement", "validity lost"),
    Achievable(HULL, "games that end within the honest first values", "hull left"),
    Achievable(ROUNDS, "rounds played", "rounds lost", more=False, share=False, unit="rounds"),
)


def best_known(
    parameters: ConsensusParameters, n: int, f: int, network: Network
) -> tuple[ChosenPolicy, set[str]] | None:
    """Return the best protocol for `n` agents, `f` of them Byzantine, and which of ACHIEVABLE theory promises of it.

    None for the swarms protocol, whose agents speak one after the other.
    """
    if parameters.protocol == "swarms":
        return None
    name, given, promises = _choose(parameters, n, f, network)
    # Else Byzantine agents have the votes to stop the game at once, or can withhold those that a stop needs.
    if not Fraction(f, n) < parameters.stop_threshold <= Fraction(n - f, n):
        promises &= {HULL}
    kind = POLICIES[name]
    return ChosenPolicy(kind, kind.Parameters(**given)), promises


_Choice = tuple[str, dict[str, Any], set[str]]  # the protocol, its parameters, and what is promised


def _choose(p: ConsensusParameters, n: int, f: int, network: Network) -> _Choice:
    if f == 0:
        return _without_faults(p, n, network)
    if not network.is_complete:  # who drops f values on each side of its own stays in the hull
        return "w_msr" if p.goal.values == "real" else "trimmed_median", {"f": f}, {HULL} if f < n else set()
    return _with_equivocation(p, n, f) if p.equivocation else _by_broadcast(p, n, f)


def _without_faults(p: ConsensusParameters, n: int, network: Network) -> _Choice:
    """The smallest initial value floods the network, if everyone reaches everyone."""
    steps = network.facts().diameter
    reached = {AGREEMENT, VALIDITY} if steps is not None and steps < p.max_rounds else set()
    return "flood_min", {"rounds": n - 1 if steps is None else steps}, {HULL, *reached}


def _by_broadcast(p: ConsensusParameters, n: int, f: int) -> _Choice:
    """All hear the same, so that any rule agrees in round 2; n > 2f keeps it in the hull."""
    hull = {HULL} if n > 2 * f else set()
    if p.max_rounds < 2:
        return "median", {"rounds": 1}, hull
    valid = {VALIDITY} if hull and p.goal.validity == "hull" else set()
    return "median", {"rounds": 1}, {AGREEMENT, *hull, *valid}


def _with_equivocation(p: ConsensusParameters, n: int, f: int) -> _Choice:
    goal = p.goal
    if n <= 3 * f:  # none can agree without signatures
        return "dolev_strong", {"f": f}, set()
    if goal.values == "real" and goal.validity == "hull" and goal.within:
        if goal.within < n * math.ulp(max(abs(p.value_min), abs(p.value_max), 1.0)):  # finer than rounding
            return "msr", {"f": f}, {HULL}
        ratio, spread = f / (n - 2 * f), float(p.value_max - p.value_min)
        needed = math.ceil(math.log(max(spread / goal.within, 1)) / math.log(1 / ratio)) + 1
        return "msr", {"f": f}, {HULL, *({AGREEMENT, VALIDITY} if needed < p.max_rounds else ())}
    if n > 4 * f:  # phases of two rounds
        return "phase_king", {"f": f}, {AGREEMENT} if 2 * (f + 1) < p.max_rounds else set()
    return "dolev_strong", {"f": f}, {AGREEMENT} if f + 2 <= p.max_rounds else set()


def reached(
    parameters: ConsensusParameters, outcome: Mapping[str, Any], trace: Sequence[ConsensusRound]
) -> dict[str, float]:
    """Return how much of each of ACHIEVABLE a game reached."""
    initial = outcome["metrics"]["initial_values"]
    held = [value for name in initial if (value := trace[-1]["values"][name]) is not None]
    agreed = outcome["finished_early"] and parameters.goal.agreed(held)
    start = list(initial.values())
    return {
        AGREEMENT: float(agreed),
        VALIDITY: float(agreed and parameters.goal.valid(held, start)),
        HULL: float(in_hull(held, start)),
        ROUNDS: float(outcome["rounds"]),
    }


def as_recorded(agent: str, trace: Sequence[ConsensusRound]) -> Rule:
    """Return the rule of an agent that says and votes again what it did in a game, then what it did last."""

    def rule(view: Any, rng: "np.random.Generator") -> Mapping[str, Any]:
        entry = trace[min(view.round, len(trace)) - 1]
        if view.phase == "vote":
            return {"decision": entry["votes"][agent] or "abstain"}
        told = {"internal_strategy": "", "value": _written(entry["proposals"][agent]), "public_reasoning": ""}
        sent = {name: _written(value) for name, value in entry.get("sent", {}).get(agent, {}).items()}
        return told | ({"peer_values": sent} if sent else {})

    return rule


def _written(value: Any) -> Any:
    return "abstain" if value is None else value
