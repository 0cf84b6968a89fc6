"""Which protocol does best in the seats of a consensus game, and the tables of what games lost beside it.

Regret is a paired difference: the best known protocol in the same seats has the same names, initial values, network
and deadline, and meets the same adversaries. Scripted ones play against it anew, with the random numbers that they
had; of all others what they said is repeated. docs/explanation/theory.md has the bounds with their sources. A protocol
knows how many faults there may be, which is the number of Byzantine agents, and nothing else that models do not know.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

from parley.games.base import Game, Outcome
from parley.games.consensus.evidence import ACHIEVABLE, AGREEMENT, HULL, ROUNDS, VALIDITY
from parley.games.consensus.filters import NO_FILTER
from parley.games.consensus.parameters import ConsensusParameters, ConsensusRound, in_hull
from parley.games.consensus.policies import POLICIES
from parley.games.evidence import TableMaker
from parley.games.network import Network
from parley.games.parameters import HONEST
from parley.identity import request_seed, stream
from parley.policies import Ask, Reply
from parley.policies.kinds import IMPORTED, ChosenPolicy, Rule, ScriptedPolicy
from parley.policies.reply_text import parse_reply
from parley.statistics.differences import NUMBER, RATE, SamplePair, compare
from parley.statistics.stats import wilson_of_mean

_LOST, _BEST, _REACHED = "_lost", "best_", "reached_"
_LONG = 10_000_000  # characters, in which chains of signatures have room
_CHANGES = {"reasoning_chars": _LONG, "justification_chars": _LONG, "filter": NO_FILTER}  # a protocol trims by itself


class Regret(TableMaker):
    """Makes a row per game of what was reached, the best, and lost; and by condition and measure the differences."""

    def rows(self, game: Any, trace: Sequence[ConsensusRound]) -> list[Mapping[str, Any]]:
        """Return the row of a game; none if its honest agents follow rules."""
        condition = game.simulation.condition
        if condition.honest_by_rules or (achieved := achievable(game, trace)) is None:
            return []
        best, promised, best_reached = achieved
        own = reached(condition.parameters, game.summary.outcome, trace)
        row = {**condition.axes, "seed": game.simulation.seed, "id": game.simulation.id}
        promises = [of.name for of in ACHIEVABLE if of.name in promised]
        row |= {"protocol": best.label, "promised": ", ".join(promises)}
        for of in ACHIEVABLE:
            mine, most = own[of.name], best_reached[of.name]
            lost = most - mine if of.more else mine - most
            row |= {f"{_REACHED}{of.name}": mine, f"{_BEST}{of.name}": most, f"{of.name}{_LOST}": lost}
        return [row]

    def tables(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, pd.DataFrame]:
        """Return the tables `regret` and `achievable`; limits and p are of McNemar's pairs, of rounds Student's t.

        Where the protocol reaches a share in every game, the limits are Wilson's of what was reached.
        """
        if not rows:
            return {}
        regret, samples = pd.DataFrame(rows), list[SamplePair]()
        axes = list(self.study.axes)
        for key, group in regret.groupby(axes, sort=False):
            for of in ACHIEVABLE:
                own, best = (group[f"{side}{of.name}"].to_numpy(dtype=np.float64) for side in (_REACHED, _BEST))
                promised = np.mean([of.name in said.split(", ") for said in group["promised"]])
                keys = {**dict(zip(axes, key, strict=True)), "measure": of.name, "promised": float(promised)}
                keys |= {"simulations": len(group), "reached": float(own.mean()), "achievable": float(best.mean())}
                x, y = (own, best) if of.more else (best, own)
                samples.append(SamplePair(keys, x, y, RATE if of.share else NUMBER))
        table = compare(samples).rename(columns={"difference": "lost"})
        always = table["measure"].isin([of.name for of in ACHIEVABLE if of.share]) & (table["achievable"] == 1)
        low, high = wilson_of_mean(table["reached"].where(always), table["simulations"])
        limits = {"low": np.where(always, 1 - high, table["low"]), "high": np.where(always, 1 - low, table["high"])}
        return {"regret": regret, "achievable": table.assign(**limits)}

    def asked(self, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame | None:
        """Return what each game lost of each measure."""
        lost = [f"{of.name}{_LOST}" for of in ACHIEVABLE]
        return pd.DataFrame(rows, columns=["id", *lost]).set_index("id") if rows else None


def achievable(
    game: Any, trace: Sequence[ConsensusRound]
) -> tuple[ChosenPolicy, set[str], Mapping[str, float]] | None:
    """Play the best known protocol in a game's seats; return it, its promises, and what it reached. None for none."""
    simulation = replace(game.simulation, recorded=game.summary.simulation.get("material"))
    own = simulation.game()
    best = best_known(own.parameters, len(own.agents), len(own.agents) - len(own.honest), own.network)
    if best is None:
        return None
    protocol, promises = best
    seats = tuple(replace(seat, policy=protocol) if seat.role == HONEST else seat for seat in own.seats)
    rules = {}
    for seat in seats:  # no rule plays what was played elsewhere
        rule = None if seat.policy.kind.name == IMPORTED.name else seat.policy.rule
        rules[seat.name] = ScriptedPolicy(rule or as_recorded(seat.name, trace))
    parameters, rng = own.parameters.model_copy(update=_CHANGES), stream("game", own.name, simulation.seed)
    best_game = type(own)(parameters, seats, simulation.condition.prompt, rng, own.network, own.material)
    outcome = _played(best_game, rules, simulation.id)
    rounds: Any = outcome.trace
    return protocol, promises, reached(own.parameters, vars(outcome), rounds)


def _played(game: Game, rules: Mapping[str, ScriptedPolicy], simulation: str) -> Outcome:
    """Play a game by rules alone, without any engine or record; their random numbers are those of the simulation."""

    def reply(ask: Ask) -> Reply:
        seed = request_seed(simulation, ask.round, ask.phase, ask.agent, 0)
        return parse_reply(rules[ask.agent].text(ask, seed), "stop", ask.reply_model)

    playing = game.play()
    asks = next(playing)
    while True:
        try:
            asks = playing.send([reply(ask) for ask in asks])
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome


# The best protocol for some seats, and what is promised


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


def _choose(p: ConsensusParameters, n: int, f: int, network: Network) -> tuple[str, dict[str, Any], set[str]]:
    """Return the protocol, its parameters, and what is promised."""
    goal, rounds = p.goal, p.max_rounds
    if f == 0:  # the smallest initial value floods the network, if everyone reaches everyone
        steps = network.facts().diameter
        agreed = {AGREEMENT, VALIDITY} if steps is not None and steps < rounds else set()
        return "flood_min", {"rounds": n - 1 if steps is None else steps}, {HULL, *agreed}
    if not network.is_complete:  # who drops f values on each side of its own stays in the hull
        return "w_msr" if goal.values == "real" else "trimmed_median", {"f": f}, {HULL} if f < n else set()
    if not p.equivocation:  # all hear the same, so that any rule agrees in round 2; n > 2f keeps it in the hull
        hull = {HULL} if n > 2 * f else set()
        valid = {VALIDITY} if hull and goal.validity == "hull" else set()
        return "median", {"rounds": 1}, hull if rounds < 2 else {AGREEMENT, *hull, *valid}
    if n <= 3 * f:  # none can agree without signatures
        return "dolev_strong", {"f": f}, set()
    if goal.values == "real" and goal.validity == "hull" and goal.within:
        ratio, spread = f / (n - 2 * f), float(p.value_max - p.value_min)
        needed = math.ceil(math.log(max(spread / goal.within, 1)) / math.log(1 / ratio)) + 1
        return "msr", {"f": f}, {HULL, *({AGREEMENT, VALIDITY} if needed < rounds else ())}
    if n > 4 * f:  # phases of two rounds
        return "phase_king", {"f": f}, {AGREEMENT} if 2 * (f + 1) < rounds else set()
    return "dolev_strong", {"f": f}, {AGREEMENT} if f + 2 <= rounds else set()


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
