"""A ledger for people: a line a block, or one block with its whole history; and as a flat file of its utterances.

What agents said is hostile text.
"""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from parley.analysis.columns import declared
from parley.analysis.tables import harmless
from parley.errors import RecordError, UsageError
from parley.identity import canonical_json
from parley.ledger.block import Block, SignedUtterance
from parley.ledger.check import BadChainError, lines, open_chain, parse_block
from parley.text import one_line, table, valid_unicode

_HEADER = ("block", "simulation", "session", "agreed", "agents", "utterances", "bytes", "verdict", "hash")
_LONGEST = 48  # characters of a verdict in the table


def blocks(path: Path) -> Iterator[tuple[Block, int]]:
    """Yield the blocks of a chain, whose shape alone is checked, and their bytes; raises RecordError for no block."""
    with open_chain(path) as file:
        for height, line in enumerate(lines(file)):
            try:
                yield parse_block(line), len(line)
            except BadChainError as error:
                raise RecordError(f"{path}: block {height}: {error}") from None


def overview(path: Path) -> list[str]:
    """Return the lines of a table of all blocks."""
    rows = [
        (
            block.height,
            block.simulation[:12],
            block.session,
            "yes" if block.agreed else "hung",
            len(block.agents),
            block.spoken,
            size,
            one_line(canonical_json(block.verdict), _LONGEST),
            block.hash[:12],
        )
        for block, size in blocks(path)
    ]
    return table(_HEADER, rows)


def history(path: Path, number: int) -> Iterator[str]:
    """Yield the lines of one block: what it is, then what was said; raises UsageError if there is no such block."""
    for height, (block, size) in enumerate(blocks(path)):
        if height == number:
            yield from _told(block, size)
            return
    raise UsageError(f"{path}: has no block {number}")


def _told(block: Block, size: int) -> Iterator[str]:
    state = "agreed" if block.agreed else "hung: its utterances are not on the chain"
    facts = {
        "block": f"{block.height}, {size:,} bytes, {state}",
        "hash": block.hash,
        "previous": block.previous,
        "merkle root": block.merkle_root,
        "proof of work": f"nonce {block.nonce}, difficulty {block.difficulty}",
        "simulation": f"{block.simulation}, session {block.session}",
        "subject": canonical_json(block.subject),
        "parameters": canonical_json(block.parameters),
        "verdict": canonical_json(block.verdict),
        "agents": ", ".join(signer.name for signer in block.agents),
        "utterances": f"{len(block.utterances)} of {block.spoken}",
    }
    width = max(map(len, facts))
    for name, value in facts.items():
        yield f"{name.ljust(width)}  {one_line(value)}"
    for index, said in enumerate(block.utterances):
        yield from _utterance(index, said)


def _utterance(index: int, said: SignedUtterance) -> Iterator[str]:
    yield ""
    yield f"utterance {index}: round {said.round}, {one_line(said.agent, 60)}"
    for key, value in said.content.items():
        text = value if isinstance(value, str) else canonical_json(value)
        yield f"    {one_line(key, 60)}: {one_line(text)}"
    yield f"    signature: {said.signature}"


Format = Literal["jsonl", "csv"]
_CONTENT = "content."  # before the keys of what was said, which may be called like any column
_NAMES = [column.name for column in declared("utterances").columns]
_BEFORE, _AFTER = _NAMES[: _NAMES.index(f"{_CONTENT}<key>")], _NAMES[_NAMES.index(f"{_CONTENT}<key>") + 1 :]


def export(path: Path, form: Format) -> Iterator[str]:
    """Yield the lines of a flat file of a chain's utterances; in CSV each key of the content is a column."""
    if form == "jsonl":
        for row in _rows(path):
            yield canonical_json(row) + "\n"
        return
    keys = list(dict.fromkeys(key for row in _rows(path) for key in row["content"]))
    yield _csv_line([*_BEFORE, *(_CONTENT + key for key in keys), *_AFTER])
    for row in _rows(path):
        said = [row["content"].get(key, "") for key in keys]
        content = [value if isinstance(value, str) else canonical_json(value) for value in said]
        yield _csv_line([*(row[name] for name in _BEFORE), *content, *(row[name] for name in _AFTER)])


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    for block, _ in blocks(path):
        keys = {signer.name: signer.key for signer in block.agents}
        for index, said in enumerate(block.utterances):
            yield {
                "block": block.height,
                "simulation": block.simulation,
                "session": block.session,
                "utterance": index,
                "round": said.round,
                "agent": said.agent,
                "content": said.content,
                "key": keys.get(said.agent, ""),
                "signature": said.signature,
            }


def _csv_line(cells: list[Any]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow([harmless(valid_unicode(str(cell))) for cell in cells])
    return line.getvalue()
