"""Checks a chain, block by block, and names the first bad block, utterance or signature.

A chain may come from anyone, so nothing in it is believed: each line has to be the canonical JSON of a block, byte by
byte, and keys, signatures, roots and hashes are computed again. `Order` says which deliberation may follow which.
"""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import ValidationError

from parley import paths
from parley.errors import RecordError
from parley.files import open_regular
from parley.games.evidence import Evidence, Session, Utterance
from parley.games.registry import GAMES
from parley.identity import canonical_json, digest
from parley.ledger.block import Block, SignedUtterance, block_hash, genesis, meets, signed_hash, utterances_root
from parley.ledger.signing import AgentKey
from parley.study.study_file import LEDGER_FORMAT, MAX_DIFFICULTY
from parley.text import every, limited_logger, one_line


@dataclass
class Order:
    """The deliberations so far; those of one simulation stand side by side, about one subject (Definition XI.2)."""

    height: int = 0  # of the next block
    _finished: dict[str, int] = field(default_factory=dict)  # a simulation's id -> its last block
    _simulation: str = ""
    _next_session: int = 0
    _subject: str = ""
    _agreed: bool = False
    _hung: dict[frozenset[str], int] = field(default_factory=dict)  # agents -> the block that they hung

    def add(self, simulation: str, session: int, subject: Any, agents: Sequence[str], agreed: bool) -> None:
        """Take one more; raises ValueError in a few words if it may not follow."""
        if simulation != self._simulation:
            self._begin(simulation, subject)
        if session != self._next_session:
            raise ValueError(f"session {session} of its simulation, where session {self._next_session} should follow")
        if digest(subject) != self._subject:
            raise ValueError(f"about another subject than block {self.height - 1}, of the same simulation")
        if self._agreed:
            raise ValueError(f"deliberated again after agreement (block {self.height - 1})")
        group = frozenset(agents)
        if group in self._hung:
            raise ValueError(f"deliberated again by the agents that hung it (block {self._hung[group]})")
        if not agreed:
            self._hung[group] = self.height
        self._agreed = agreed
        self._next_session += 1
        self._finished[simulation] = self.height
        self.height += 1

    def _begin(self, simulation: str, subject: Any) -> None:
        if simulation in self._finished:
            raise ValueError(f"of a simulation that ended with block {self._finished[simulation]}")
        self._simulation, self._subject = simulation, digest(subject)
        self._next_session, self._agreed = 0, False
        self._hung = {}


def misplaced(utterances: Sequence[Utterance | SignedUtterance]) -> tuple[int, str] | None:
    """Return the first utterance that is out of place, and why: rounds go on, and each agent speaks once in one."""
    spoken: set[str] = set()
    for index, said in enumerate(utterances):
        before = utterances[index - 1].round if index else said.round
        if said.round < before:
            return index, f"goes back from round {before}"
        if said.round > before:
            spoken = set()
        if said.agent in spoken:
            return index, "speaks twice in this round"
        spoken.add(said.agent)
    return None


_log = limited_logger(__name__)

MAX_BLOCK_BYTES = 1 << 25  # 32 MiB; a thousand agents fill it in ten rounds of a page each
_MAX_HEAD_BYTES = 1000


class BadChainError(ValueError):
    """What is wrong with a chain; `where` in a block, "" for all of it."""

    def __init__(self, what: str, where: str = "") -> None:
        super().__init__(what)
        self.where = where


def block_line(block: dict[str, object]) -> bytes:
    """Return a block as it stands in a chain; raises ValueError or TypeError for what is no JSON."""
    return canonical_json(block).encode("ascii") + b"\n"


def head_line(blocks: int, last: str) -> bytes:
    """Return what stands in the file of a chain's head: how many blocks there are, and the hash of the last."""
    return canonical_json({"blocks": blocks, "format": LEDGER_FORMAT, "hash": last}).encode("ascii") + b"\n"


def parse_block(line: bytes) -> Block:
    """Return the block of one line, whose shape alone is checked; raises BadChainError."""
    if len(line) > MAX_BLOCK_BYTES:
        raise BadChainError(f"longer than {MAX_BLOCK_BYTES:,} bytes")
    if not line.endswith(b"\n"):
        raise BadChainError("cut short: no end of line")
    try:
        content = json.loads(line.decode("ascii"))
        same = canonical_json(content).encode("ascii") + b"\n" == line
    except (ValueError, RecursionError):
        raise BadChainError("not valid JSON, or not ASCII") from None
    if not same:
        raise BadChainError("not canonical JSON (white space, order or repetition of keys, form of a number)")
    if isinstance(content, dict) and type(content.get("format")) is int and content["format"] != LEDGER_FORMAT:
        raise BadChainError(
            f"of format {content['format']}, and this version reads {LEDGER_FORMAT}; run: parley ledger build"
        )
    try:
        return Block.model_validate(content)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
        loc = problem["loc"]
        where = f"utterance {loc[1]}" if loc[:1] == ("utterances",) and len(loc) > 1 else ""
        key = one_line(".".join(map(str, loc[2:] if where else loc)), 60)
        raise BadChainError(f"{key or 'block'}: {problem['msg'][:1].lower()}{problem['msg'][1:]}", where) from None


@dataclass
class ChainChecker:
    """Takes the lines of a chain one after the other; the counts are of what was found good so far."""

    evidence: dict[str, Evidence] = field(
        default_factory=lambda: {name: game.evidence for name, game in GAMES.items()}
    )  # of games by name, which check their verdicts; a chain names no code that would be run
    utterances: int = 0
    empty: int = 0  # blocks of deliberations that hung
    unjudged: int = 0  # blocks of games that are not among `evidence`
    last: str = ""  # hash of the last block
    _difficulty: int | None = None
    _order: Order = field(default_factory=Order)
    _simulation: str = ""
    _keys: dict[str, AgentKey] = field(default_factory=dict)

    @property
    def blocks(self) -> int:
        """The number of blocks so far."""
        return self._order.height

    def add(self, line: bytes) -> Block:
        """Check the next line and return its block; raises BadChainError."""
        try:
            block = parse_block(line)
            self._check_place(block)
            self._check_agents(block)
            self._check_utterances(block)
            self._check_verdict(block)
            self._check_hashes(block)
            names = [signer.name for signer in block.agents]
            self._order.add(block.simulation, block.session, block.subject, names, block.agreed)
        except (ValueError, RecursionError) as error:
            what = "nested too deeply" if isinstance(error, RecursionError) else one_line(str(error), 200)
            where = f", {error.where}" if isinstance(error, BadChainError) and error.where else ""
            raise BadChainError(f"block {self.blocks}{where}: {what}") from None
        self._difficulty, self.last = block.difficulty, block.hash
        self.utterances += len(block.utterances)
        self.empty += not block.agreed
        self.unjudged += block.game not in self.evidence
        return block

    def _check_place(self, block: Block) -> None:
        if block.height != self.blocks:
            raise BadChainError(f"has the height {block.height}")
        if self._difficulty not in (None, block.difficulty):
            raise BadChainError(
                f"has the difficulty {block.difficulty}, and the blocks before have {self._difficulty}"
            )
        before = self.last if self.blocks else genesis(block.difficulty)
        if block.previous != before:
            follows = f"block {self.blocks - 1}" if self.blocks else "nothing, as the first block does"
            raise BadChainError(f"does not follow {follows}: another hash stands under `previous`")

    def _check_agents(self, block: Block) -> None:
        names = [signer.name for signer in block.agents]
        if len(set(names)) < len(names):
            raise BadChainError("an agent is named twice")
        if block.simulation != self._simulation:
            self._simulation, self._keys = block.simulation, {}
        for signer in block.agents:
            key = self._keys.setdefault(signer.name, AgentKey(block.simulation, signer.name))
            if signer.key != key.public:
                name = one_line(signer.name, 60)
                raise BadChainError(f"the key of {name} is not the one that {name} has in this simulation")

    def _check_utterances(self, block: Block) -> None:
        if not block.agreed and block.utterances:
            raise BadChainError("has utterances, and its deliberation hung")
        if block.agreed and block.spoken != len(block.utterances):
            raise BadChainError(f"has {len(block.utterances)} utterances, and {block.spoken} were spoken")
        wrong = misplaced(block.utterances)
        agents = {signer.name for signer in block.agents}
        for index, said in enumerate(block.utterances):
            place = f"utterance {index} ({one_line(said.agent, 60)}, round {said.round})"
            if said.agent not in agents:
                raise BadChainError("its agent took no part", place)
            if self._keys[said.agent].sign(block.session, said.round, said.content) != said.signature:
                raise BadChainError("bad signature", place)
            if wrong is not None and wrong[0] == index:
                raise BadChainError(wrong[1], place)

    def _check_verdict(self, block: Block) -> None:
        if (evidence := self.evidence.get(block.game)) is None:
            return
        said = tuple(Utterance(one.round, one.agent, one.content) for one in block.utterances)
        agents = tuple(signer.name for signer in block.agents)
        session = Session(block.subject, agents, block.parameters, said, block.agreed, block.verdict)
        try:
            evidence.check_verdict(session)
        except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
            reason = one_line(f"{type(error).__name__}: {error}", 100)
            raise BadChainError(f"its verdict cannot be compared with what was said ({reason})") from None

    def _check_hashes(self, block: Block) -> None:
        if block.merkle_root != utterances_root(block.simulation, block.session, block.utterances):
            raise BadChainError("its Merkle root is not that of its utterances")
        content: dict[str, Any] = block.model_dump()
        if block.hash != block_hash(content):
            raise BadChainError("its hash is not that of its content")
        checked = signed_hash(content)
        for signer in block.agents:
            if self._keys[signer.name].sign_block(checked) != signer.signature:
                name = one_line(signer.name, 60)
                raise BadChainError(f"bad signature of the block by {name}: it was changed and not signed anew")
        if not meets(block.hash, block.difficulty):
            raise BadChainError(f"its hash does not begin with {block.difficulty} zero bits, its difficulty")


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
    except BadChainError as error:
        raise RecordError(f"{path}: {error}") from None
    _check_head(paths.ledger_head(path), checker)


def _check_head(head: Path, checker: ChainChecker) -> None:
    if not head.exists():
        raise RecordError(
            f"{head}: missing: without it, blocks could be missing at the end; copy it too, or make it again (parley "
            "ledger build)"
        )
    with open_chain(head) as file:
        found = file.read(_MAX_HEAD_BYTES)
    # A chain without a block may have any difficulty.
    lasts = [checker.last] if checker.blocks else [genesis(difficulty) for difficulty in range(MAX_DIFFICULTY + 1)]
    if found not in [head_line(checker.blocks, last) for last in lasts]:
        raise RecordError(
            f"{head}: not the head of the chain beside it, which has {checker.blocks} blocks; "
            "blocks are missing or were added at its end, or one of both files is another chain's"
        )
