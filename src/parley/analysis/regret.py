"""The tables `regret` and `achievable`: each game beside what the best known protocol does in the same seats.

The protocol has the same names, initial values, network and deadline, and meets the same adversaries: scripted ones
play against it anew, with the random numbers that they had; of all others what they said is repeated. So regret is a
paired difference. What the theory promises there, and what not, the game says (`Game.best_known`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from parley.analysis.pairs import number_differences, rate_difference
from parley.analysis.rates import by_condition
from parley.analysis.reactions import Trace
from parley.analysis.simulations import PlayedGame
from parley.analysis.tables import names_of
from parley.games.base import BestKnown, Game, Outcome, split_material
from parley.identity import request_seed, stream
from parley.policies import Ask, Reply
from parley.policies.kinds import IMPORTED, Rule, ScriptedPolicy
from parley.policies.reply_text import parse_reply
from parley.study import Study

_LOST, _BEST, _REACHED = "_lost", "best_", "reached_"


def regret_row(study: Study, game: PlayedGame, trace: Trace) -> Mapping[str, Any]:
    """Return the row of a game in the table `regret`; empty for one that is compared with nothing.

    That is one whose honest agents follow rules, unless the study names the protocol (`achievable`), and one of a game
    that knows no protocols.
    """
    condition = game.simulation.condition
    if condition.honest_by_rules and study.achievable is None:
        return {}
    if (achieved := achievable(study, game, trace)) is None:
        return {}
    best, best_reached = achieved
    reached = condition.game.evidence.reached(condition.parameters, game.summary.outcome, trace)
    measures = condition.game.evidence.achievable
    lost = {}
    for of in measures:
        best_one, own = best_reached[of.name], reached[of.name]
        lost[f"{of.name}{_LOST}"] = best_one - own if of.more else own - best_one
    sides = {f"{_REACHED}{name}": value for name, value in reached.items()}
    sides |= {f"{_BEST}{name}": value for name, value in best_reached.items()}
    promises = [of.name for of in measures if of.name in best.promises]
    told = {"protocol": best.policy.label, "promised": ", ".join(promises), "theory": best.why}
    return {**condition.axes, "seed": game.simulation.seed, "id": game.simulation.id, **told, **sides, **lost}


def achievable(study: Study, game: PlayedGame, trace: Trace) -> tuple[BestKnown, Mapping[str, float]] | None:
    """Play the best known protocol in the seats of a game; return it with what it reached, None if there is none."""
    recorded = game.summary.simulation.get("material")
    simulation = replace(game.simulation, recorded=recorded)
    own = simulation.game()
    best = own.best_known(study.achievable)
    if best is None:
        return None
    rules: dict[str, ScriptedPolicy] = {}
    seats = []
    for seat in own.seats:
        honest = seat.role == own.roles[0]
        seats.append(replace(seat, policy=best.policy) if honest else seat)
        rule = rule_of(seats[-1])
        rules[seat.name] = ScriptedPolicy(rule or own.as_recorded(seat.name, trace))
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
    told = {"rounds": outcome.rounds, "finished_early": outcome.finished_early, "metrics": outcome.metrics}
    told |= {"name": outcome.name, "detail": outcome.detail}
    return best, own.evidence.reached(own.parameters, told, outcome.trace)


def rule_of(seat: Any) -> Rule | None:
    """Return the rule that answers for a seat; None where a model, own code, or somebody else's did."""
    kind = seat.policy.kind
    return None if kind.rule is None or kind.name == IMPORTED.name else kind.rule(seat.policy.parameters)


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


def regret_table(rows: Sequence[Mapping[str, Any]], study: Study) -> pd.DataFrame:
    """Return the rows of `regret_row` as a table."""
    of_game = [of.name for of in study.game.evidence.achievable]
    measured = [f"{_REACHED}{name}" for name in of_game] + [f"{_BEST}{name}" for name in of_game]
    names = [*names_of("regret", study.axes, study.game), *measured, *(f"{name}{_LOST}" for name in of_game)]
    return pd.DataFrame(rows, columns=names)


def achievable_table(regret: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Return a row per condition and measure: what was reached, what was achievable, and the paired difference.

    `regret` is the table of that name. Limits and p are those of McNemar's pairs, and Student's paired t for rounds.
    """
    return pd.DataFrame(_rows(regret, study), columns=names_of("achievable", study.axes, study.game))


def _rows(regret: pd.DataFrame, study: Study) -> Iterator[Sequence[Any]]:
    for key, rows in by_condition(regret, study.axes):
        for of in study.game.evidence.achievable:
            own, best = (
                rows[name].to_numpy(dtype=np.float64) for name in (f"{_REACHED}{of.name}", f"{_BEST}{of.name}")
            )
            sides = (own, best) if of.more else (best, own)
            if of.share:
                found = rate_difference(*sides)
            else:
                every = slice(None)
                found = {n: c[0] for n, c in number_differences([(*sides, every, every)], share=False).items()}
            promised = float(rows["promised"].str.split(", ").map(lambda said, name=of.name: name in said).mean())
            cells = [float(found[name]) for name in ("difference", "low", "high", "p")]
            yield [*key, of.name, len(rows), promised, float(own.mean()), float(best.mean()), *cells]


def with_lost(rows: pd.DataFrame, regret: pd.DataFrame) -> pd.DataFrame:
    """Return the table of simulations with what each game lost, which questions may ask about."""
    lost = [name for name in map(str, regret.columns) if name.endswith(_LOST)]
    return rows.merge(regret[["id", *lost]], how="left", on="id") if len(regret) else rows
