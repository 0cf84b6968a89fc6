"""How long a study takes on one GPU: tokens of a simulation x number of simulations / tokens per second."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

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
    entries = [exchange.entry for exchange in exchanges]
    if not entries:
        raise ValueError("nothing was played to the end of a phase")
    tokens = [(entry.prompt_tokens or 0) + (entry.completion_tokens or 0) for entry in entries]
    rows = [(e.phase, e.round > 1, spent, e.attempt == 0) for e, spent in zip(entries, tokens, strict=True)]
    sums = pd.DataFrame(rows, columns=["phase", "later", "tokens", "asks"]).groupby(["phase", "later"]).sum()
    means = (sums["tokens"] / sums["asks"]).unstack().reindex(columns=[False, True])
    first, later = means.ffill(axis=1).bfill(axis=1).sum()
    return AgentTokens(float(first), float(later))


def study_tokens(study: Study, measured: Mapping[int, AgentTokens], rounds: int) -> dict[str, float]:
    """Return the tokens that the simulations of each model cost if all last `rounds` rounds.

    `measured` has the cost of an agent by the number of agents; between two numbers it is taken to grow evenly, and
    beyond them to stay.
    """
    sizes = sorted(measured)
    costs = [measured[size].first + (rounds - 1) * measured[size].later for size in sizes]
    total: dict[str, float] = {}
    for condition in study.conditions:
        if condition.models:
            agents = sum(group.count for group in condition.groups if group.player.model is not None)
            n = sum(group.count for group in condition.groups)
            model = "+".join(condition.models)
            total[model] = total.get(model, 0.0) + len(condition.seeds) * agents * float(np.interp(n, sizes, costs))
    return total


def hours(tokens: Mapping[str, float], rate: float, measured_model: str) -> dict[str, float]:
    """Return the hours that each model's tokens take at `rate` tokens per second of `measured_model`."""
    size = BILLIONS[measured_model]
    return {model: amount / rate / 3600 * BILLIONS.get(model, size) / size for model, amount in tokens.items()}
