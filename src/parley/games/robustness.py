"""How robust networks are: what the theory of resilient consensus (W-MSR) says of who hears whom.

Source: LeBlanc, Zhang, Koutsoukos, Sundaram, Resilient asymptotic consensus in robust networks, IEEE JSAC 31 (2013),
section III. A set of agents is r-reachable if one of it hears r agents outside of it. A network is r-robust if of any
two disjoint sets, neither of them empty, one is r-reachable; it is (r, s)-robust if all of one set, all of the other,
or s agents of both together hear r agents outside of their set.
"""

from collections.abc import Callable
from functools import lru_cache
from math import ceil
from typing import Any

import numpy as np

from parley.games.network import Network

EXACT_TO = 14  # agents: all their subsets are looked at


@lru_cache(maxsize=10_000)
def robustness(network: Network) -> tuple[int, bool]:
    """Return the largest r for which a network of at least one agent is r-robust, and whether that is exact.

    If it is not, the network is r-robust, and perhaps more than that: beyond 14 agents r is a proven bound.
    """
    n = len(network.masks)
    if n == 1 or network.is_complete:
        return ceil(n / 2), True
    if n <= EXACT_TO:
        return _least_of_pairs(_outside(network).max(axis=0), np.maximum), True
    heard = network.heard_by
    rooted = any(sum(heard.layers(agent)) == (1 << n) - 1 for agent in range(n))
    lower = max(_by_degree(network), int(rooted))
    # The agent that hears fewest is a set, and all others hear it alone outside of theirs.
    return lower, not rooted or lower == max(1, min(mask.bit_count() for mask in network.masks))


@lru_cache(maxsize=10_000)
def tolerates(network: Network) -> int | None:
    """Return the largest F for which a network is (F+1, F+1)-robust; None if F = 0 is too much.

    That is what `w_msr` tolerates in the whole network (F-total). Beyond 14 agents it is a proven bound: one that is
    (2F+1)-robust, or whose agents hear at least n // 2 + F others, is (F+1, F+1)-robust.
    """
    n = len(network.masks)
    if n <= 1 or network.is_complete:
        return (n - 1) // 2
    if n > EXACT_TO:
        r, _ = robustness(network)
        return max((r - 1) // 2, _by_degree(network) - 1) if r else None
    outside = _outside(network)
    sizes = (outside >= 0).sum(axis=0)
    for faults in range(n):
        reaching = (outside > faults).sum(axis=0)
        # Two sets break it of which neither reaches as a whole, and which have together at most F agents that do.
        if _least_of_pairs(np.where(reaching < sizes, reaching, 2 * n), np.add) <= faults:
            return faults - 1 if faults else None
    raise AssertionError("no network tolerates everybody")


def _outside(network: Network) -> Any:
    """Return by agent and set how many outside of the set the agent hears; -1 where it is not in the set."""
    sets = np.arange(1 << len(network.masks), dtype=np.uint32)
    return np.array(
        [
            np.where(sets >> agent & 1, np.bitwise_count(np.uint32(mask) & ~sets).astype(np.int16), -1)
            for agent, mask in enumerate(network.masks)
        ]
    )


def _least_of_pairs(values: Any, combine: Callable[[Any, Any], Any]) -> int:
    """Return the least combined value of two disjoint sets, neither empty; `values` has one for each set of agents."""
    best = values.copy()
    best[0] = 10_000  # of the empty set: more than any
    first = best.copy()
    for agent in range(len(best).bit_length() - 1):
        halves = best.reshape(-1, 2, 1 << agent)
        halves[:, 1] = np.minimum(halves[:, 1], halves[:, 0])  # now of all sets within each set
    return int(combine(first, best[::-1]).min())  # the complement of the k-th set is the k-th from the end


def _by_degree(network: Network) -> int:
    """Return a proven r: the smaller of two sets has at most n // 2 agents, so each of it hears so many outside."""
    return max(0, min(mask.bit_count() for mask in network.masks) - len(network.masks) // 2 + 1)
