"""A chain that was tampered with is found, and the message names the right place."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parley import paths
from parley.errors import RecordError
from parley.games.deliberation.game import DeliberationGame
from parley.games.evidence import Session
from parley.ledger import check
from parley.ledger.check import ChainChecker, block_line, check_chain
from parley.ledger.signing import AgentKey
from parley.policies import Ask, Reply
from support.playing import CHOICES, answering, drive, new_deliberation
from support.records import AGENTS, SIMULATIONS, Block, chain, changed, forged, ordinary, problem, session, write_chain

CHAIN = ordinary()
# Short, so that every byte can be changed: two simulations, one of which hangs first.
SMALL = b"".join(
    chain(
        [session(agents=("a",))],
        [session(agents=("a", "b"), agreed=False), session((2,), agents=("b",))],
    )
)


def of_bytes(content: bytes) -> str:
    """Return what is wrong with a chain's bytes; "" if nothing is."""
    return problem(io.BytesIO(content))


def test_a_whole_chain_is_whole() -> None:
    checker = ChainChecker()
    for line in CHAIN:
        checker.add(line)
    assert (checker.blocks, checker.utterances, checker.empty) == (4, 3 + 0 + 2 + 6, 1)
    assert checker.last == json.loads(CHAIN[-1])["hash"]


# Bytes


@pytest.mark.promise("Every changed byte of a chain is found in its block.")
@pytest.mark.slow
def test_every_changed_byte_is_found_in_its_block() -> None:
    heights = [height for height, line in enumerate(SMALL.splitlines(keepends=True)) for _ in line]
    for place, (old, height) in enumerate(zip(SMALL, heights, strict=True)):
        new = old ^ 1 << place // 2 % 8 if place % 2 else b'\n ",0'[place // 2 % 5]
        found = of_bytes(SMALL[:place] + bytes([new]) + SMALL[place + 1 :])
        assert new == old or found.startswith(f"block {height}"), (place, new, found)


def test_what_is_no_block_is_refused_where_it_stands() -> None:
    canonical, valid = "block 0: not canonical JSON", "block 0: not valid JSON"
    for content, words in [
        (SMALL[:-1], "block 2: cut short"),
        (SMALL + b"\n", "block 3: not valid JSON"),
        (SMALL + b"{}\n", "block 3: format: "),
        *((CHAIN[0].replace(b'"nonce":0', b'"nonce":%s' % odd), "block 0: nonce: ") for odd in (b"1", b"false")),
        (b'{"a":1,"a":1}\n', canonical),
        (b'{"b":1,"a":1}\n', canonical),
        (b'{"a":1e2}\n', canonical),
        (b'{"a":NaN}\n', valid),
        (b"[" * 100_000 + b"]" * 100_000 + b"\n", valid),
        (b"\x00" * 100, "block 0: cut short"),
    ]:
        assert of_bytes(content).startswith(words), content[:50]


def test_a_line_that_is_too_long_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    longest = max(map(len, CHAIN[:3]))
    monkeypatch.setattr(check, "MAX_BLOCK_BYTES", longest)
    assert problem(CHAIN) == f"block 3: longer than {longest:,} bytes"


# Blocks and their order


def moved(*order: int) -> list[bytes]:
    """Return blocks of the chain in another order, with heights, roots and hashes made to fit."""
    blocks = [{**json.loads(CHAIN[place]), "height": height} for height, place in enumerate(order)]
    blocks[0]["previous"] = json.loads(CHAIN[0])["previous"]
    return forged([*map(block_line, blocks)], 0, lambda block: None)


def test_blocks_taken_out_put_in_or_moved_are_found() -> None:
    unsigned = "bad key or signature of the block by agent_1"
    for lines, words in [
        (CHAIN[1:], "block 0: does not follow"),
        ([*CHAIN[:2], CHAIN[1], *CHAIN[2:]], "block 2: does not follow"),
        (moved(0, 1, 2, 3), ""),
        (moved(3, 0, 1, 2), f"block 0: {unsigned}"),  # hashed anew, and not signed anew
        (moved(0, 1, 3), f"block 2: {unsigned}"),
    ]:
        found = problem(lines)
        assert found.startswith(words) if words else not found, (found, words)


def test_deliberations_of_a_simulation_follow_definition_xi_2() -> None:
    pair, other_pair = AGENTS[:2], AGENTS[1:]
    hung, agreed = session(agreed=False), session((2,), agents=pair)
    hung_by_pair = session((2,), agreed=False, agents=pair)
    for sessions, words in [
        ([[hung, hung_by_pair, session((3,), agents=other_pair)], [hung]], ""),  # again by others, until they agree
        ([[session(), agreed]], "block 1: deliberated again after agreement (block 0)"),
        ([[hung, hung_by_pair, hung]], "block 2: deliberated again by the agents that hung it (block 0)"),
        ([[hung, session(agents=AGENTS[::-1])]], "block 1: deliberated again by the agents that hung it (block 0)"),
        ([[hung, session((2,), agents=pair, subject={"problem": 2})]], "block 1: about another subject than block 0"),
    ]:
        found = problem(chain(*sessions))
        assert found.startswith(words) if words else not found, (found, words)


def test_a_fact_of_a_block_is_under_its_hash_and_under_the_signatures_of_its_agents() -> None:
    edits: list[tuple[int, Callable[[Block], object]]] = [
        (2, lambda block: block["verdict"].update(answer=41)),
        (3, lambda block: block.update(agreed=False, utterances=[])),
        (1, lambda block: block.update(spoken=0)),
        (0, lambda block: block["agents"].reverse()),
    ]
    for number, (height, edit) in enumerate(edits):
        found = problem(forged(CHAIN, height, edit))
        assert found.startswith(f"block {height}: bad key or signature of the block by agent_"), (number, found)


# Utterances and agents


def uttered(number: int, **changes: Any) -> Callable[[Block], object]:
    """Return a change of one utterance of a block, whose signature stays unless it is changed."""
    return lambda block: block["utterances"][number].update(changes)


def add_stranger(block: Block) -> None:
    content = {"answer": 1}
    signature = AgentKey(block["simulation"], "stranger").sign(0, 2, content)
    block["utterances"].append({"round": 2, "agent": "stranger", "content": content, "signature": signature})
    block["spoken"] += 1


def sign_with_other_keys(block: Block) -> None:
    for signer in block["agents"]:
        signer["key"] = AgentKey(SIMULATIONS[3], signer["name"]).public
    for said in block["utterances"]:
        key = AgentKey(SIMULATIONS[3], said["agent"])
        said["signature"] = key.sign(0, said["round"], said["content"])


def test_utterances_and_agents_that_were_changed_are_found_though_all_is_hashed_again() -> None:
    first, last = json.loads(CHAIN[0])["utterances"], json.loads(CHAIN[3])["utterances"]
    signature = first[1]["signature"]
    flipped = signature[:-1] + "0123456789abcdef"[int(signature[-1], 16) ^ 1]
    again = {**last[5], "content": {**last[5]["content"], "why": "another"}}
    assert {**last[1], "signature": ""} == {**first[1], "signature": ""}  # the same words, said elsewhere
    two = chain([session((1,), agreed=False), session((1,), agents=AGENTS[:2])])
    spelled = "block 0: utterances.0.signature: "
    rows: list[tuple[list[bytes], int, Callable[[Block], object], str]] = [
        (CHAIN, 3, uttered(5, **again), "block 3: utterance 5 (agent_3, round 2): bad signature"),
        (CHAIN, 0, uttered(1, signature=flipped), "block 0: utterance 1 (agent_2, round 1): bad signature"),
        *((CHAIN, 0, uttered(0, signature=odd), spelled) for odd in (signature.upper(), signature + " ")),
        # An utterance passes in no other round, for no other agent, in no other simulation, in no other session.
        (CHAIN, 3, uttered(1, round=2), "block 3: utterance 1 (agent_2, round 2): bad signature"),
        (CHAIN, 3, uttered(1, agent="agent_3"), "block 3: utterance 1 (agent_3, round 1): bad signature"),
        (CHAIN, 3, uttered(1, **first[1]), "block 3: utterance 1 (agent_2, round 1): bad signature"),
        (two, 1, uttered(0, **first[0]), "block 1: utterance 0 (agent_1, round 1): bad signature"),
        (CHAIN, 3, lambda block: block["utterances"].pop(), "block 3: bad key or signature of the block by agent_1"),
        (CHAIN, 3, add_stranger, "block 3: stranger speaks and takes no part"),
        (CHAIN, 1, lambda block: block.update(utterances=first), "block 1: its utterances is not that of its content"),
        (CHAIN, 3, sign_with_other_keys, "block 3: utterance 0 (agent_1, round 1): bad signature"),
        (CHAIN, 1, lambda block: block["agents"].append(block["agents"][0]), "block 1: an agent is named twice"),
    ]
    for lines, height, edit, words in rows:
        found = problem(forged(lines, height, edit))
        assert found.startswith(words), (found, words)
    assert problem(changed(CHAIN, 3, rows[0][2])) == rows[0][3]
    for key in ("merkle_root", "hash"):
        found = problem(changed(CHAIN, 0, lambda block: block.update({key: "0" * 64})))  # noqa: B023
        assert found == f"block 0: its {key} is not that of its content"
    assert problem(changed(CHAIN, 0, lambda block: block["utterances"].reverse()))


# Deliberations


def deliberated(said: list[list[Any]], **given: Any) -> Session:
    """Return the ledger's session of a deliberation in which agents say this, turn by turn."""

    def answer(ask: Ask) -> Reply:
        return answering(ask, said[ask.view.turn][int(ask.agent[-1]) - 1])

    outcome = drive(new_deliberation(**given), answer)[1].as_json()
    [found] = DeliberationGame.evidence.sessions(outcome, outcome["trace"])
    return found


def test_sessions_of_deliberations_make_a_whole_chain() -> None:
    policies = [[["Lend tools"], ["Lend tools", "Buy more books"], ["Lend tools"]]]
    sessions = [
        deliberated([["18", "20", "18"], ["18", "18.00", "$18"]]),
        deliberated([["18", "18", "20"]], roles="hhb"),
        deliberated([["18", "20", "18"]], turns=0),
        deliberated(policies, problem=CHOICES, problems={"kind": "policies"}, turns=0),
    ]
    assert problem(chain(*([one] for one in sessions))) == ""
    assert [one.agreed for one in sessions] == [True, True, False, True]
    assert [len(one.utterances) for one in sessions] == [6, 3, 3, 3]
    assert sessions[1].parameters["malicious"] == 1
    assert sessions[3].verdict["levels"] == {"buy more books": "1/3", "lend tools": "1"}


# Files


def test_a_stored_chain_that_was_cut_is_found_by_its_head(tmp_path: Path) -> None:
    stored = write_chain(tmp_path / "chain.jsonl", CHAIN)
    assert check_chain(stored).blocks == 4
    stored.write_bytes(b"".join(CHAIN[:3]))
    with pytest.raises(RecordError, match=r"head\.json: not the head .* which has 3 blocks; "):
        check_chain(stored)
    paths.ledger_head(stored).unlink()
    with pytest.raises(RecordError, match=r"head\.json: cannot be read: .*parley ledger build"):
        check_chain(stored)
