"""How much of the prompts an engine had in its prefix cache, as the records of findings say, and in other orders.

What was sent is put through a cache of blocks like vLLM's, without an engine, by another tokenizer: in the order of
the records it gives nearly what the engine said.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow.parquet as pq

from benchmarks.measure import REPOSITORY, Row
from benchmarks.random_model import made_tokenizer

BLOCK, SIZE = 128, 46_592  # tokens of a block on a CPU, and of the cache
STUDIES = ("findings-consensus", "findings-hunt", "filters")  # of one message each; chats are in no column
_COLUMNS = ["system", "user", "text", "prompt_tokens", "cached_tokens", "started"]
Asked = dict[str, Any]


def rows() -> Iterator[Row]:
    """Yield the shares of each study: as the engine said, as played, one game after the other, nothing forgotten."""
    for name in STUDIES:
        files = sorted((REPOSITORY / "findings" / "results" / name / "simulations").rglob("*.parquet"))
        in_turn = [row for file in files for row in pq.read_table(file, columns=_COLUMNS).to_pylist()]
        in_turn = [row for row in in_turn if row["prompt_tokens"]]  # no scripted agents
        as_played = sorted(in_turn, key=lambda row: row["started"])
        said = sum(row["cached_tokens"] for row in in_turn) / sum(row["prompt_tokens"] for row in in_turn)
        shares = (said, _cached(as_played, SIZE), _cached(in_turn, SIZE), _cached(as_played, 10**9))
        yield Row(f"`{name}`, {len(in_turn):,} replies", ", ".join(f"{share:.0%}" for share in shares))


def _cached(asked: Iterable[Asked], size: int) -> float:
    """Return the share of the prompts' tokens that a cache has; what was not used longest goes first."""
    kept: dict[int, None] = {}
    hits = total = 0
    for row in asked:
        chat = "".join(f"<|im_start|>{role}\n{row[role]}<|im_end|>\n" for role in ("system", "user"))
        prompt, reply = (made_tokenizer().encode(text).ids for text in (chat, row["text"]))
        total += len(prompt)
        tokens, blocks, is_hit = prompt + reply, [0], True
        for end in range(BLOCK, len(tokens) + 1, BLOCK):
            blocks.append(hash((blocks[-1], *tokens[end - BLOCK : end])))
            is_hit = is_hit and blocks[-1] in kept and end < len(prompt)
            hits += BLOCK * is_hit
        for block in reversed(blocks[1:]):  # the end of a prompt goes before its beginning
            kept.pop(block, None)
            kept[block] = None
        while len(kept) * BLOCK > size:
            del kept[next(iter(kept))]
    return hits / total
