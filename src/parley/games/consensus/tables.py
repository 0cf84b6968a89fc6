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

from parley.games.base import BestKnown, Game, Outcome, split_material
from parley.games.consensus.achievable import ACHIEVABLE, as_recorded, reached
from parley.games.consensus.parameters import ConsensusRound
from parley.games.evidence import TableMaker
from parley.identity import request_seed, stream
from parley.policies import Ask, Reply
from parley.policies.kinds import IMPORTED, ScriptedPolicy
from parley.policies.reply_text import parse_reply
from parley.statistics.differences import NUMBER, RATE, SamplePair, compare
from parley.statistics.stats import wilson_of_mean

_LOST, _BEST, _REACHED = "_lost", "best_", "reached_"


class Regret(TableMaker):
    """Makes a row per game of what was reached, the best, and lost; and by condition and measure the differences."""

    def rows(self, game: Any, trace: Sequence[ConsensusRound]) -> list[Mapping[str, Any]]:
        """Return the row of a game; none if its honest agents follow rules and the study names no protocol."""
        condition, protocol = game.simulation.condition, self.study.achievable
        if condition.honest_by_rules and protocol is None:
            return []
        if (achieved := achievable(protocol, game, trace)) is None:
            return []
        best, best_reached = achieved
        own = reached(condition.parameters, game.summary.outcome, trace)
        row = {**condition.axes, "seed": game.simulation.seed, "id": game.simulation.id}
        promises = [of.name for of in ACHIEVABLE if of.name in best.promises]
        row |= {"protocol": best.policy.label, "promised": ", ".join(promises)}
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
    protocol: Any, game: Any, trace: Sequence[ConsensusRound]
) -> tuple[BestKnown, Mapping[str, float]] | None:
    """Play the best known protocol, or the named one, in a game's seats, and return what it reached; None for none."""
    recorded = game.summary.simulation.get("material")
    simulation = replace(game.simulation, recorded=recorded)
    own = simulation.game()
    if (best := own.best_known(protocol)) is None:
        return None
    rules: dict[str, ScriptedPolicy] = {}
    seats = []
    for seat in own.seats:
        policy = best.policy if seat.role == own.roles[0] else seat.policy
        seats.append(replace(seat, policy=policy))
        rule = None if policy.kind.name == IMPORTED.name else policy.rule  # no rule plays what was played elsewhere
        rules[seat.name] = ScriptedPolicy(rule or as_recorded(seat.name, trace))
    outcome = _played(
        type(own)(
            own.parameters.model_copy(update=dict(best.changes)),
            tuple(seats),
            simulation.condition.prompt,
            stream("game", own.name, simulation.seed),
            own.network,
            split_material(recorded)[1] if recorded is not None else own.material,
        ),
        rules,
        simulation.id,
    )
    rounds: Any = outcome.trace
    return best, reached(own.parameters, vars(outcome), rounds)


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
