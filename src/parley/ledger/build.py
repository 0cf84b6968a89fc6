"""The `ledger` stage: one chain per study, from the records of its simulations, and a table of its blocks.

The order is the study's: seeds outermost, then conditions, then the sessions of a simulation. Neither times nor
machines are in it: the same records give the same bytes. The table counts what dissemination in two phases would cost
(section VII.2): counts follow from the network alone, sizes from the messages' canonical JSON.
"""

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO

import pandas as pd

from parley import paths
from parley.analysis.tables import names_of, write_table
from parley.errors import RecordError, UsageError
from parley.files import write_atomically
from parley.games.network import Network
from parley.identity import canonical_json
from parley.ledger import check
from parley.ledger.block import GENESIS, Block, SignedSession, make_block, sign_session
from parley.play.record import read_trace
from parley.play.record_store import played_part, read_records
from parley.play.replay import rebuild_game
from parley.study import Study
from parley.text import by_number, every, limited_logger, one_line, table
from parley.text.yamlfile import yaml_text

_HASH_DIGITS = 2 * hashlib.sha256().digest_size
ANNOUNCE_BYTES = len(canonical_json({"announce": "0" * _HASH_DIGITS}))
REQUEST_BYTES = len(canonical_json({"request": "0" * _HASH_DIGITS}))
_AROUND_DATA = len(canonical_json({"data": None})) - len(canonical_json(None))


@dataclass(frozen=True)
class Spread:
    """How data spread from one agent: messages, the steps until the last one had it, how many never had it.

    Each request is answered by one message with the data.
    """

    announces: int
    requests: int
    hops: int
    unreached: int


def spread(network: Network, speaker: int) -> Spread:
    """Return how data spreads from `speaker`, in [0, n), over the network."""
    layers = list(network.layers(speaker))
    reached = [agent for layer in layers for agent in layer]
    requests = len(reached) - 1
    # To everyone but the one it came from; the speaker has it from nobody.
    announces = sum(len(network.neighbors[agent]) for agent in reached) - requests
    return Spread(announces, requests, len(layers) - 1, len(network.neighbors) - len(reached))


def traffic(network: Network, nodes: Sequence[str], signed: SignedSession) -> dict[str, int]:
    """Return what it costs to bring every utterance of a session to all agents of the network, by column.

    `flood_bytes` is what it would cost if everyone sent the data where it now announces the hash. `hops` is the most
    that an utterance took; `unreached` counts, over all utterances, the agents that never got one. `nodes[k]` is the
    name of the network's agent k. Raises ValueError if somebody speaks who is not among them.
    """
    if strangers := {said.agent for said in signed.utterances}.difference(nodes):
        raise ValueError(f"{min(strangers)} speaks and is not in the network")
    spreads = {name: spread(network, node) for node, name in enumerate(nodes)}
    sizes = [_AROUND_DATA + len(said.sent(signed.simulation, signed.number)) for said in signed.utterances]
    sent = [(spreads[said.agent], size) for said, size in zip(signed.utterances, sizes, strict=True)]
    announces, requests = (sum(getattr(found, kind) for found, _ in sent) for kind in ("announces", "requests"))
    return {
        "announce_messages": announces,
        "announce_bytes": announces * ANNOUNCE_BYTES,
        "request_messages": requests,
        "request_bytes": requests * REQUEST_BYTES,
        "data_messages": requests,
        "data_bytes": sum(found.requests * size for found, size in sent),
        "flood_bytes": sum(found.announces * size for found, size in sent),
        "hops": max((found.hops for found, _ in sent), default=0),
        "unreached": sum(found.unreached for found, _ in sent),
    }


_log = limited_logger(__name__)

TABLE = "ledger"


def build(study: Study, strict: bool = False) -> pd.DataFrame:
    """Write the ledger of a study and the table of its blocks, and return the table.

    It is of what is played; damaged records are named and left out, unless `strict`. Raises UsageError if its game
    keeps no ledger, RecordError if nothing is played, or a record tells of sessions that no chain can hold.
    """
    rows: list[dict[str, Any]] = []
    chain = paths.ledger(study.name)
    began = time.monotonic()

    def write(file: BinaryIO) -> None:
        for _, row, line in links(study, strict):
            file.write(line)
            rows.append(row)
            _log.info("%s blocks made", f"{len(rows):,}", extra=every(since=began))

    write_atomically(chain, write)
    last = rows[-1]["hash"] if rows else GENESIS
    write_atomically(paths.ledger_head(chain), lambda file: file.write(check.head_line(len(rows), last)))
    table = pd.DataFrame(rows, columns=names_of(TABLE, study.axes, study.game))
    write_table(table, study, TABLE)
    limit, sizes = study.content.ledger.block_limit, table["block_bytes"]
    if limit is not None and (over := int((sizes > limit).sum())):
        most = f"{sizes.max():,}"
        _log.warning("%s of %s blocks have more than block_limit (%s bytes), up to %s", over, len(sizes), limit, most)
    return table


def check_against_records(study: Study) -> check.ChainChecker:
    """Check the ledger of a study, and that it is the one of its records; raises RecordError for a bad place."""
    _require_ledger(study)
    chain, checker = paths.ledger(study.name), check.ChainChecker()
    again = "if the study changed since, run: parley ledger build"
    for height, (line, made) in enumerate(zip_longest(check.checked_lines(chain, checker), links(study))):
        if made is None:
            raise RecordError(f"{chain}: block {height}: the study's records give {height} blocks only; {again}")
        where, _, right = made
        if line is None:
            raise RecordError(f"{chain}: ends before block {height} ({where}); {again}")
        if line != right:
            raise RecordError(f"{chain}: block {height}: not what {where} gives; {again}")
    return checker


def _require_ledger(study: Study) -> None:
    """Raise UsageError if the study's game gives the ledger nothing."""
    if not study.game.evidence.keeps_ledger:
        raise UsageError(f"{study.file}: its game, {study.game.name}, keeps no ledger")


def links(study: Study, strict: bool = False) -> Iterator[tuple[str, dict[str, Any], bytes]]:
    """Yield of each block of a study's chain which record and session it is of, its row, and the block as stored.

    Raises as `build`.
    """
    _require_ledger(study)
    checker = check.ChainChecker()
    records = read_records(played_part(study), strict)
    for simulation, summary in zip(records.simulations, records.summaries, strict=True):
        record = simulation.record(study.name)
        game = rebuild_game(record, summary)
        nodes = sorted((seat.name for seat in game.seats), key=by_number)
        try:
            sessions = game.evidence.sessions(summary.outcome, read_trace(record))
            for number, session in enumerate(sessions):
                signed = sign_session(game.name, simulation.id, number, session)
                block = make_block(signed, checker.blocks, checker.last)
                line = check.block_line(block)
                checker.add(line)  # a game of the user's own may tell of sessions that no chain can hold
                row = {
                    **simulation.condition.axes,
                    "seed": simulation.seed,
                    "height": block["height"],
                    "session": number,
                    "agreed": block["agreed"],
                    "agents": len(block["agents"]),
                    "utterances": block["spoken"],
                    "rounds": len({said.round for said in signed.utterances}),
                    "block_bytes": len(line),
                    **traffic(game.network, nodes, signed),
                    "hash": block["hash"],
                    "spec": simulation.condition.spec,
                    "id": simulation.id,
                }
                yield f"{record}, session {number}", row, line
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise RecordError(f"{record}: cannot be chained: {one_line(str(error), 200)}") from None


_HEADER = ("block", "simulation", "session", "agreed", "agents", "utterances", "bytes", "verdict", "hash")
_LONGEST = 48  # characters of a verdict in the table


def blocks(path: Path) -> Iterator[tuple[Block, int]]:
    """Yield the blocks of a chain, whose shape alone is checked, and their bytes; raises RecordError for no block."""
    with check.open_chain(path) as file:
        for height, line in enumerate(check.lines(file)):
            try:
                yield check.parse_block(line), len(line)
            except ValueError as error:
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


def history(path: Path, number: int) -> str:
    """Return one block with all that was said, as YAML; raises UsageError if there is no such block."""
    for height, (block, _) in enumerate(blocks(path)):
        if height == number:
            return yaml_text(block.model_dump())
    raise UsageError(f"{path}: has no block {number}")
