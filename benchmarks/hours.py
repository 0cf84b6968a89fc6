"""How long a study takes on one GPU: tokens of a simulation x number of simulations / tokens per second."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from parley.play.runner import Exchange
from parley.study import Study

# Weights in billions. Other models than the measured one are taken to be slower by the ratio: an estimate.
BILLIONS = {"qwen3-8b": 8.19, "qwen3-14b": 14.77}


@dataclass(frozen=True)
class AgentTokens:
    """Tokens that one agent costs in a round, prompts and replies of all phases and attempts."""

    first: float  # in round 1, which has no history
    later: float  # in each round after it


def agent_tokens(exchanges: Iterable[Exchange]) -> AgentTokens:
    """Return the tokens of an agent and round, from attempts of whole phases; raises ValueError without any.

    A phase's mean is over its asks, so that attempts made again count for their ask. Where no later round was played,
    it is taken to be as the first.
    """
    spent: dict[tuple[bool, str], list[int]] = {}
    for exchange in exchanges:
        entry = exchange.entry
        sums = spent.setdefault((entry.round > 1, entry.phase), [0, 0])
        sums[0] += (entry.prompt_tokens or 0) + (entry.completion_tokens or 0)
        sums[1] += entry.attempt == 0
    if not spent:
        raise ValueError("nothing was played to the end of a phase")
    phases = {phase for _, phase in spent}
    first = {phase: _mean(spent.get((False, phase)) or spent[True, phase]) for phase in phases}
    later = {phase: _mean(spent.get((True, phase)) or spent[False, phase]) for phase in phases}
    return AgentTokens(sum(first.values()), sum(later.values()))


def _mean(sums: list[int]) -> float:
    return sums[0] / sums[1]


def study_tokens(study: Study, measured: Mapping[int, AgentTokens], rounds: int) -> dict[str, float]:
    """Return the tokens that the simulations of each model cost if all last `rounds` rounds.

    `measured` has the cost of an agent by the number of agents; between two numbers it is taken to grow evenly, and
    beyond them to stay.
    """
    sizes = sorted(measured)
    total: dict[str, float] = {}
    for condition in study.conditions:
        if not condition.models:
            continue
        agents = sum(group.count for group in condition.groups if group.player.model is not None)
        n = sum(group.count for group in condition.groups)
        first = float(np.interp(n, sizes, [measured[size].first for size in sizes]))
        later = float(np.interp(n, sizes, [measured[size].later for size in sizes]))
        model = "+".join(condition.models)
        tokens = len(condition.seeds) * agents * (first + (rounds - 1) * later)
        total[model] = total.get(model, 0.0) + tokens
    return total


def hours(tokens: Mapping[str, float], rate: float, measured_model: str) -> dict[str, float]:
    """Return the hours that each model's tokens take at `rate` tokens per second of `measured_model`."""
    return {
        model: amount / rate / 3600 * BILLIONS.get(model, BILLIONS[measured_model]) / BILLIONS[measured_model]
        for model, amount in tokens.items()
    }
