"""Checks a chain, block by block, and names the first bad block, utterance or signature.

A chain may come from anyone, so nothing in it is believed: each line has to be the canonical JSON of a block, byte by
byte, and each block the one that `make_block` makes again of what it says was said.
"""

import json
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from pydantic import ValidationError

from parley import paths
from parley.errors import RecordError
from parley.files import open_regular
from parley.games.evidence import Session, Utterance
from parley.identity import canonical_json, digest
from parley.ledger.block import GENESIS, Block, make_block, sign_session
from parley.study.study_file import LEDGER_FORMAT
from parley.text import every, limited_logger, one_line

_log = limited_logger(__name__)

MAX_BLOCK_BYTES = 1 << 25  # 32 MiB; a thousand agents fill it in ten rounds of a page each
_MAX_HEAD_BYTES = 1000


class _Deliberation(NamedTuple):
    height: int
    subject: str  # its digest
    agents: frozenset[str]
    agreed: bool


@dataclass
class Order:
    """The deliberations so far; those of one simulation stand side by side, about one subject (Definition XI.2)."""

    height: int = 0  # of the next block
    _of: dict[str, list[_Deliberation]] = field(default_factory=lambda: defaultdict(list))  # by a simulation's id

    def add(self, simulation: str, session: int, subject: Any, agents: Sequence[str], agreed: bool) -> None:
        """Take one more; raises ValueError in a few words if it may not follow."""
        earlier, group, about = self._of[simulation], frozenset(agents), digest(subject)
        if session != len(earlier):
            raise ValueError(f"session {session} of its simulation, where session {len(earlier)} should follow")
        if earlier and earlier[-1].height != self.height - 1:
            raise ValueError(f"of a simulation that ended with block {earlier[-1].height}")
        for before in earlier:
            if before.subject != about:
                raise ValueError(f"about another subject than block {before.height}, of the same simulation")
            if before.agreed:
                raise ValueError(f"deliberated again after agreement (block {before.height})")
            if before.agents == group:
                raise ValueError(f"deliberated again by the agents that hung it (block {before.height})")
        earlier.append(_Deliberation(self.height, about, group, agreed))
        self.height += 1


def block_line(block: dict[str, object]) -> bytes:
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

    utterances: int = 0
    empty: int = 0  # blocks of deliberations that hung
    last: str = GENESIS  # hash of the last block
    _order: Order = field(default_factory=Order)

    @property
    def blocks(self) -> int:
        """The number of blocks so far."""
        return self._order.height

    def add(self, line: bytes) -> Block:
        """Check the next line and return its block; raises ValueError."""
        try:
            block = parse_block(line)
            agents = tuple(signer.name for signer in block.agents)
            said = tuple(Utterance(one.round, one.agent, one.content) for one in block.utterances)
            session = Session(block.subject, agents, block.parameters, said, block.agreed, block.verdict)
            self._check_made(block, session)
            self._order.add(block.simulation, block.session, block.subject, agents, block.agreed)
        except (ValueError, RecursionError) as error:
            what = "nested too deeply" if isinstance(error, RecursionError) else one_line(str(error), 200)
            raise ValueError(f"block {self.blocks}: {what}") from None
        self.last = block.hash
        self.utterances += len(block.utterances)
        self.empty += not block.agreed
        return block

    def _check_made(self, block: Block, session: Session) -> None:
        """Compare a block with the one that its session and the blocks before it give."""
        if not block.agreed and block.utterances:
            raise ValueError("has utterances, and its deliberation hung")
        signed = sign_session(block.game, block.simulation, block.session, session)
        made = make_block(signed, self.blocks, self.last, block.spoken)
        for key in ("height", "previous"):
            if getattr(block, key) != made[key]:
                raise ValueError(f"does not follow the blocks before: another {key} should stand there")
        content = block.model_dump()
        spoken: set[tuple[int, str]] = set()
        for index, said in enumerate(content["utterances"]):
            place = f"utterance {index} ({one_line(said['agent'], 60)}, round {said['round']})"
            if said != made["utterances"][index]:
                raise ValueError(f"{place}: bad signature")
            if index and said["round"] < content["utterances"][index - 1]["round"]:
                raise ValueError(f"{place}: goes back to an earlier round")
            if (said["round"], said["agent"]) in spoken:
                raise ValueError(f"{place}: speaks twice in this round")
            spoken.add((said["round"], said["agent"]))
        if block.agreed and block.spoken != len(block.utterances):
            raise ValueError(f"has {len(block.utterances)} utterances, and {block.spoken} were spoken")
        for signer, right in zip(content["agents"], made["agents"], strict=True):
            if signer != right:
                name = one_line(signer["name"], 60)
                raise ValueError(f"bad key or signature of the block by {name}: it was changed and not signed anew")
        for key in ("merkle_root", "hash"):
            if content[key] != made[key]:
                raise ValueError(f"its {key} is not that of its content")


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
    began = time.monotonic()
    try:
        with open_chain(path) as file:
            for line in lines(file):
                checker.add(line)
                counts = (f"{checker.utterances:,}", f"{checker.blocks:,}")
                _log.info("%s utterances in %s blocks checked", *counts, extra=every(since=began))
                yield line
    except ValueError as error:
        raise RecordError(f"{path}: {error}") from None
    _check_head(paths.ledger_head(path), checker)


def _check_head(head: Path, checker: ChainChecker) -> None:
    if not head.exists():
        raise RecordError(
            f"{head}: missing: without it, blocks could be missing at the end; copy it too, or make it again (parley "
            "ledger build)"
        )
    with open_chain(head) as file:
        head_found = file.read(_MAX_HEAD_BYTES)
    if head_found != head_line(checker.blocks, checker.last):
        raise RecordError(
            f"{head}: not the head of the chain beside it, which has {checker.blocks} blocks; "
            "blocks are missing or were added at its end, or one of both files is another chain's"
        )
