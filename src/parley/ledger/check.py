"""Checks a chain, block by block, and names the first bad block, utterance or signature.

A chain may come from anyone, so nothing in it is believed: each line has to be the canonical JSON of a block, byte by
byte, and each block the one that `make_block` makes again of what it says was said.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import ValidationError

from parley import paths
from parley.errors import RecordError
from parley.files import open_regular
from parley.games.evidence import Session, Utterance
from parley.identity import canonical_json
from parley.ledger.block import GENESIS, Block, make_block
from parley.study.study_file import LEDGER_FORMAT
from parley.text import one_line

MAX_BLOCK_BYTES = 1 << 25  # 32 MiB; a thousand agents fill it in ten rounds of a page each
_MAX_HEAD_BYTES = 1000


def block_line(block: Mapping[str, object]) -> bytes:
    """Return a block as it stands in a chain; raises ValueError or TypeError for what is no JSON."""
    return canonical_json(block).encode("ascii") + b"\n"


def head_line(blocks: int, last: str) -> bytes:
    """Return what stands in the file of a chain's head: how many blocks there are, and the hash of the last."""
    return block_line({"blocks": blocks, "format": LEDGER_FORMAT, "hash": last})


def parse_block(line: bytes) -> Block:
    """Return the block of one line, whose shape alone is checked; raises ValueError."""
    if len(line) > MAX_BLOCK_BYTES:
        raise ValueError(f"longer than {MAX_BLOCK_BYTES:,} bytes")
    if not line.endswith(b"\n"):
        raise ValueError("cut short: no end of line")
    try:
        content = json.loads(line.decode("ascii"))
        same = block_line(content) == line
    except (ValueError, RecursionError):
        raise ValueError("not valid JSON, or not ASCII") from None
    if not same:
        raise ValueError("not canonical JSON (white space, order or repetition of keys, form of a number)")
    try:
        return Block.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        key = one_line(".".join(map(str, first["loc"])), 60) or "block"
        raise ValueError(f"{key}: {first['msg'][:1].lower()}{first['msg'][1:]}") from None


@dataclass
class ChainChecker:
    """Takes the lines of a chain one after the other; the counts are of what was found good so far."""

    blocks: int = 0
    utterances: int = 0
    empty: int = 0  # blocks of deliberations that hung
    last: str = GENESIS  # hash of the last block
    _simulations: set[str] = field(default_factory=set)  # of all blocks
    _same: list[Block] = field(default_factory=list)  # those of the simulation of the last block

    def add(self, line: bytes) -> Block:
        """Check the next line and return its block; raises ValueError."""
        try:
            block = parse_block(line)
            _require_made(block, self.blocks, self.last)
            self._require_order(block)
        except (ValueError, RecursionError) as error:
            what = "nested too deeply" if isinstance(error, RecursionError) else one_line(str(error), 200)
            raise ValueError(f"block {self.blocks}: {what}") from None
        self.last = block.hash
        self.blocks += 1
        self.utterances += len(block.utterances)
        self.empty += not block.agreed
        return block

    def _require_order(self, block: Block) -> None:
        """Require that deliberations of a simulation stand side by side, about one subject (Definition XI.2)."""
        if not self._same or self._same[-1].simulation != block.simulation:
            if block.simulation in self._simulations:
                raise ValueError("of a simulation that ended before")
            self._simulations.add(block.simulation)
            self._same = []
        if block.session != len(self._same):
            raise ValueError(f"session {block.session}, where session {len(self._same)} should follow")
        for before in self._same:
            if before.subject != block.subject:
                raise ValueError(f"about another subject than block {before.height}, of the same simulation")
            if before.agreed:
                raise ValueError(f"deliberated again after agreement (block {before.height})")
            if {signer.name for signer in before.agents} == {signer.name for signer in block.agents}:
                raise ValueError(f"deliberated again by the agents that hung it (block {before.height})")
        self._same.append(block)


def _require_made(block: Block, height: int, previous: str) -> None:
    """Compare a block with the one that its session and the block before it give."""
    said = tuple(Utterance(one.round, one.agent, one.content) for one in block.utterances)
    agents = tuple(signer.name for signer in block.agents)
    session = Session(block.subject, agents, block.parameters, said, block.agreed, block.verdict)
    made = make_block(block.game, block.simulation, block.session, session, height, previous, block.spoken)
    content: dict[str, Any] = block.model_dump()
    for key in ("height", "previous"):
        if content[key] != made[key]:
            raise ValueError(f"does not follow the blocks before: another {key} should stand there")
    for index, (one, right) in enumerate(zip(content["utterances"], made["utterances"], strict=False)):
        if one != right:
            raise ValueError(f"utterance {index} ({one_line(one['agent'], 60)}, round {one['round']}): bad signature")
    for signer, right in zip(content["agents"], made["agents"], strict=True):
        if signer != right:
            name = one_line(signer["name"], 60)
            raise ValueError(f"bad key or signature of the block by {name}: it was changed and not signed anew")
    if wrong := next((key for key in made if content[key] != made[key]), None):
        raise ValueError(f"its {wrong} is not that of its content")


def open_chain(path: Path) -> BinaryIO:
    """Open a chain; raises RecordError if it cannot be read."""
    try:
        return open_regular(path)
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}; run: parley ledger build") from None


def lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a chain; of one that is too long for a block no more than that is read at once."""
    while line := file.readline(MAX_BLOCK_BYTES + 1):
        yield line


def check_chain(path: Path) -> ChainChecker:
    """Check a chain, with the head beside it, and return what was counted; raises RecordError as `checked_lines`."""
    checker = ChainChecker()
    for _ in checked_lines(path, checker):
        pass
    return checker


def checked_lines(path: Path, checker: ChainChecker) -> Iterator[bytes]:
    """Yield the lines of a chain, each when it was checked, and check the head beside it after the last.

    Raises RecordError that names the first bad place.
    """
    try:
        with open_chain(path) as file:
            for line in lines(file):
                checker.add(line)
                yield line
    except ValueError as error:
        raise RecordError(f"{path}: {error}") from None
    head = paths.ledger_head(path)
    with open_chain(head) as file:
        if file.read(_MAX_HEAD_BYTES) != head_line(checker.blocks, checker.last):
            raise RecordError(
                f"{head}: not the head of the chain beside it, which has {checker.blocks} blocks; "
                "blocks are missing or were added at its end, or one of both files is another chain's"
            )
