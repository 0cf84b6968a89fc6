"""Hashes, and the random numbers that follow from them.

Every random number of a simulation comes from its identity by SHA-256: never from global state, and never from
the order of calls. So a simulation has the same numbers alone, in a batch, resumed or replayed.
"""

import hashlib
import json
from socket import gethostname
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


# Made once: `json.dumps` makes an encoder for each call that has options.
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode


def canonical_json(value: Any) -> str:
    """Return `value` as JSON with sorted keys and no spaces: equal values, equal text.

    Raises ValueError for NaN and infinities, TypeError for what JSON does not know.
    """
    return _encode(value)


def digest(value: Any) -> str:
    """Return the SHA-256 of the canonical JSON of `value`, as 64 hexadecimal digits."""
    return hashlib.sha256(canonical_json(value).encode("ascii")).hexdigest()


def machine() -> str:
    """Return eight hexadecimal digits that tell this machine from others and do not name it: results are shared."""
    return digest(["machine", gethostname()])[:8]


def stream(*parts: str | int) -> "np.random.Generator":
    """Return the random generator that belongs to `parts` alone (a purpose and what it depends on)."""
    import numpy as np  # slow to import: few commands draw

    entropy = int(digest(["parley", *parts]), 16)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))


def request_seed(simulation_id: str, round_number: int, phase: str, agent: str, attempt: int) -> int:
    """Return the sampling seed of one request, in [0, 2**31).

    The attempt is part of it, so that a retry is a new draw.
    """
    key = digest([simulation_id, round_number, phase, agent, attempt])
    return int(key[:8], 16) >> 1
