import hashlib
import json
import math
from dataclasses import replace

import pytest

from parley.games.evidence import Utterance
from parley.identity import canonical_json
from parley.ledger.block import Block, block_hash, genesis, leaf_hash, make_block, meets, merkle_root, sign_session
from support.chains import AGENTS, GAME, SIMULATIONS, chain, ordinary, session


def block_of(**changes: object) -> Block:
    [line] = chain([session((1, 2), **changes)])  # type: ignore[arg-type]
    return Block.model_validate(json.loads(line))


def test_an_agreed_session_is_on_the_chain_in_full_and_a_hung_one_with_its_parameters_alone() -> None:
    agreed, hung = block_of(), block_of(agreed=False)
    assert [(said.round, said.agent) for said in agreed.utterances] == [(r, a) for r in (1, 2) for a in AGENTS]
    assert agreed.utterances[0].content == {"answer": 1, "why": "agent_1: é"}
    assert (agreed.agreed, agreed.spoken, agreed.verdict) == (True, 6, {"answer": 42})
    assert (hung.agreed, hung.spoken, hung.parameters, hung.utterances) == (False, 6, {"turns": 2}, [])
    assert [signer.name for signer in hung.agents] == list(AGENTS)
    assert hung.merkle_root == hashlib.sha256(b"").hexdigest()


def test_the_hash_is_that_of_the_documented_header() -> None:
    block = json.loads(chain([session()])[0])
    header = {key: value for key, value in block.items() if key not in ("hash", "utterances")}
    text = canonical_json({**header, "domain": "parley/block/1"})
    assert block["hash"] == hashlib.sha256(text.encode()).hexdigest() == block_hash(block)


def test_each_block_names_the_one_before_in_bytes_that_are_always_the_same() -> None:
    blocks = [json.loads(line) for line in ordinary()]
    assert [block["previous"] for block in blocks] == [genesis(0), *(block["hash"] for block in blocks[:-1])]
    assert [block["height"] for block in blocks] == [0, 1, 2, 3]
    assert ordinary(3) == ordinary(3)
    assert len({genesis(difficulty) for difficulty in range(25)}) == 25


def test_the_nonce_is_the_smallest_that_meets_the_difficulty() -> None:
    for difficulty in (0, 1, 7, 8):
        block = make_block(sign_session(GAME, SIMULATIONS[0], 0, session()), 0, genesis(difficulty), difficulty)
        assert int(block["hash"], 16) < 2 ** (256 - difficulty)
        for smaller in range(block["nonce"]):
            assert not meets(block_hash({**block, "nonce": smaller}), difficulty)


def test_a_name_that_looks_like_the_nonce_does_not_take_its_place() -> None:
    one = session(agents=('"nonce":null', "agent_1"), parameters={"nonce": None})
    block = make_block(sign_session(GAME, SIMULATIONS[0], 0, one), 0, genesis(6), 6)
    assert block["hash"] == block_hash(block)
    assert meets(block["hash"], 6)


def test_sessions_that_make_no_sense_cannot_be_signed() -> None:
    for changes, error, words in [
        ({"agents": AGENTS[:2]}, ValueError, "agent_3 speaks"),
        ({"agents": (*AGENTS, "agent_1")}, ValueError, "named twice"),
        ({"utterances": (Utterance(1, "agent_1", {"p": math.nan}),)}, ValueError, "JSON"),
        ({"utterances": (Utterance(1, "agent_1", {"p": {1, 2}}),)}, TypeError, "set"),
    ]:
        with pytest.raises(error, match=words):
            sign_session(GAME, SIMULATIONS[0], 0, replace(session(), **changes))


# The Merkle tree

LEAVES = [leaf_hash(b"%d" % number) for number in range(9)]


def node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def test_trees_of_up_to_five_leaves_are_those_of_rfc_6962() -> None:
    a, b, c, d, e = LEAVES[:5]
    assert merkle_root([]) == hashlib.sha256(b"").digest()
    assert merkle_root([a]) == a == hashlib.sha256(b"\x000").digest()
    assert merkle_root([a, b]) == node(a, b)
    assert merkle_root([a, b, c]) == node(node(a, b), c)
    assert merkle_root([a, b, c, d]) == node(node(a, b), node(c, d))
    assert merkle_root([a, b, c, d, e]) == node(node(node(a, b), node(c, d)), e)


def test_the_root_is_that_of_the_test_vectors_of_certificate_transparency() -> None:
    # The inputs and roots of the reference implementation's tests (google/certificate-transparency, merkle_tree_test).
    inputs = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
    leaves = [leaf_hash(bytes.fromhex(text)) for text in inputs]
    assert merkle_root(leaves[:1]).hex() == "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
    assert merkle_root(leaves).hex() == "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"


def test_every_leaf_its_place_and_their_number_count() -> None:
    root = merkle_root(LEAVES)
    for place in range(len(LEAVES)):
        assert merkle_root([*LEAVES[:place], leaf_hash(b"x"), *LEAVES[place + 1 :]]) != root
        assert merkle_root([*LEAVES[:place], *LEAVES[place + 1 :]]) != root
    assert merkle_root([LEAVES[1], LEAVES[0], *LEAVES[2:]]) != root
    for count in range(1, 9):  # the last leaves counted twice, which CVE-2012-2459 is about
        leaves = LEAVES[:count]
        for repeated in range(1, count + 1):
            assert merkle_root([*leaves, *leaves[-repeated:]]) != merkle_root(leaves)
    a, b, c, d = LEAVES[:4]
    assert merkle_root([leaf_hash(a + b), leaf_hash(c + d)]) != merkle_root([a, b, c, d])  # inner nodes are no leaves
