"""How much a record can hold, by the study that it says it is of: no more than that is unpacked or parsed.

The numbers are generous: an honest record is far below them. What no study needs is refused whatever a record says.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from parley.errors import UsageError
from parley.games.registry import GAMES

MAX_BYTES = 512 * 2**20  # of a file
META_BYTES = 8 * 2**20  # of what describes the simulation
META_VALUES = 1_000_000

_MAX_ROWS = 2_000_000
_LEAST_TEXT_BYTES = 256 * 2**20  # that a file may unpack to, however small it is
_MAX_UNPACKED = 64  # bytes for each byte of a larger file: long histories, which stand in each question, pack well
_MAX_TRACE_BYTES = 64 * 2**20
_MAX_TRACE_VALUES = 4_000_000

_ASKS = 8  # of an agent in a round: two phases, two steps each; and as many again
_ROW_TEXT_BYTES = 2**20  # the longest reply that a game reads
_ROW_TRACE_BYTES = 50_000
_ROW_TRACE_VALUES = 100


@dataclass(frozen=True)
class Limits:
    """The most that the record of a simulation can have."""

    rows: int
    text_bytes: int  # texts that are alike count once
    trace_bytes: int
    trace_values: int


def limits_of(simulation: Mapping[str, Any], size: int) -> Limits:
    """Return the limits of the simulation that a record of `size` bytes describes; of any if it describes none.

    A game of the user's own has those of any: a record that is read makes nothing run.
    """
    try:
        parameters = GAMES[simulation["game"]].Parameters.model_validate(simulation["parameters"])
        agents = sum(int(group["count"]) for group in simulation["groups"])
        rounds = parameters.longest or _MAX_ROWS
        again = 1 + int(getattr(parameters, "redeliberations", 0))
        rows = max(agents, 1) * rounds * again * (parameters.retries + 1) * _ASKS
    except (UsageError, ValidationError, LookupError, TypeError, ValueError, AttributeError):
        rows, agents = _MAX_ROWS, _MAX_ROWS
    links = agents * agents  # the trace of the first round may name who hears whom
    return Limits(
        min(rows, _MAX_ROWS),
        min(rows * _ROW_TEXT_BYTES, max(_LEAST_TEXT_BYTES, _MAX_UNPACKED * size)),
        min(rows * _ROW_TRACE_BYTES + links * 100, _MAX_TRACE_BYTES),
        min(rows * _ROW_TRACE_VALUES + links * 2, _MAX_TRACE_VALUES),
    )


_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)


def bounded_json(text: bytes, most_bytes: int, most_values: int) -> Any:
    """Return the content of JSON; raises ValueError for none, and for what is larger or nested too deeply."""
    if len(text) > most_bytes:
        raise ValueError(f"{len(text):,} bytes, and it can have {most_bytes:,}")
    # What separates values, which may also stand in texts: only where they are many is it told apart.
    if _marks(text) > most_values and _marks(_TEXT.sub(b"", text)) > most_values:
        raise ValueError(f"more than {most_values:,} values")
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _marks(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")
