"""The tables that the consensus game brings: `regret` and `achievable`.

Regret is a paired difference: the best known protocol in the same seats has the same names, initial values, network
and deadline, and meets the same adversaries. Scripted ones play against it anew, with the random numbers that they
had; of all others what they said is repeated. What the theory promises there, and what not, `achievable.py` says.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from parley.games.base import Game, Outcome
from parley.games.consensus.achievable import ACHIEVABLE, as_recorded, best_known, reached
from parley.games.consensus.filters import NO_FILTER
from parley.games.consensus.parameters import ConsensusRound
from parley.games.evidence import TableMaker
from parley.games.parameters import HONEST
from parley.identity import request_seed, stream
from parley.policies import Ask, Reply
from parley.policies.kinds import IMPORTED, ChosenPolicy, ScriptedPolicy
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
    rules = {
        seat.name: ScriptedPolicy(
            as_recorded(seat.name, trace)  # no rule plays what was played elsewhere
            if seat.policy.rule is None or seat.policy.kind.name == IMPORTED.name
            else seat.policy.rule
        )
        for seat in seats
    }
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
