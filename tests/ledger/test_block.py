import hashlib
import json
import math
from dataclasses import replace

import pytest

from parley.games.evidence import Utterance
from parley.identity import canonical_json
from parley.ledger.block import (
    Block,
    block_hash,
    genesis,
    leaf_hash,
    make_block,
    meets,
    merkle_root,
    sign_session,
)
from support.chains import AGENTS, GAME, SIMULATIONS, chain, ordinary, session


def test_an_agreed_session_has_its_whole_history_on_the_chain() -> None:
    [line] = chain([session((1, 2))])
    block = Block.model_validate(json.loads(line))
    assert [(said.round, said.agent) for said in block.utterances] == [(r, a) for r in (1, 2) for a in AGENTS]
    assert block.utterances[0].content == {"answer": 1, "why": "agent_1: é"}
    assert (block.agreed, block.spoken, block.verdict) == (True, 6, {"answer": 42})


def test_a_hung_session_has_an_empty_block_with_its_parameters() -> None:
    [line] = chain([session((1, 2), agreed=False)])
    block = Block.model_validate(json.loads(line))
    assert block.utterances == []
    assert (block.agreed, block.spoken, block.parameters) == (False, 6, {"turns": 2})
    assert [signer.name for signer in block.agents] == list(AGENTS)
    assert block.merkle_root == hashlib.sha256(b"").hexdigest()


def test_the_hash_is_that_of_the_documented_header() -> None:
    block = json.loads(chain([session()])[0])
    header = {key: value for key, value in block.items() if key not in ("hash", "utterances")}
    text = canonical_json({**header, "domain": "parley/block/1"})
    assert block["hash"] == hashlib.sha256(text.encode()).hexdigest() == block_hash(block)


def test_each_block_names_the_one_before() -> None:
    blocks = [json.loads(line) for line in ordinary()]
    assert [block["previous"] for block in blocks] == [genesis(0), *(block["hash"] for block in blocks[:-1])]
    assert [block["height"] for block in blocks] == [0, 1, 2, 3]


@pytest.mark.parametrize("difficulty", [0, 1, 7, 8, 10])
def test_the_nonce_is_the_smallest_that_meets_the_difficulty(difficulty: int) -> None:
    block = make_block(sign_session(GAME, SIMULATIONS[0], 0, session()), 0, genesis(difficulty), difficulty)
    assert int(block["hash"], 16) < 2 ** (256 - difficulty)
    for smaller in range(block["nonce"]):
        assert not meets(block_hash({**block, "nonce": smaller}), difficulty)


def test_a_name_that_looks_like_the_nonce_does_not_take_its_place() -> None:
    one = session(agents=('"nonce":null', "agent_1"), parameters={"nonce": None})
    block = make_block(sign_session(GAME, SIMULATIONS[0], 0, one), 0, genesis(6), 6)
    assert block["hash"] == block_hash(block)
    assert meets(block["hash"], 6)


def test_the_same_sessions_give_the_same_bytes() -> None:
    assert ordinary(3) == ordinary(3)


def test_chains_of_other_difficulty_begin_otherwise() -> None:
    assert len({genesis(difficulty) for difficulty in range(25)}) == 25


def test_sessions_that_make_no_sense_cannot_be_signed() -> None:
    whole = session()
    with pytest.raises(ValueError, match="agent_3 speaks and takes no part"):
        sign_session(GAME, SIMULATIONS[0], 0, replace(whole, agents=AGENTS[:2]))
    with pytest.raises(ValueError, match="an agent is named twice"):
        sign_session(GAME, SIMULATIONS[0], 0, replace(whole, agents=(*AGENTS, "agent_1")))
    with pytest.raises(ValueError, match="not JSON compliant"):
        sign_session(GAME, SIMULATIONS[0], 0, replace(whole, utterances=(Utterance(1, "agent_1", {"p": math.nan}),)))
    with pytest.raises(TypeError):
        sign_session(GAME, SIMULATIONS[0], 0, replace(whole, utterances=(Utterance(1, "agent_1", {"p": {1, 2}}),)))


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


@pytest.mark.parametrize("count", range(1, 9))
def test_the_last_leaf_counted_twice_has_another_root(count: int) -> None:
    """What CVE-2012-2459 is about."""
    leaves = LEAVES[:count]
    for repeated in range(1, count + 1):
        assert merkle_root([*leaves, *leaves[-repeated:]]) != merkle_root(leaves)


def test_an_inner_node_does_not_pass_for_a_leaf() -> None:
    a, b, c, d = LEAVES[:4]
    inner = [leaf_hash(a + b), leaf_hash(c + d)]
    assert merkle_root(inner) != merkle_root([a, b, c, d])


def test_every_leaf_and_its_place_count() -> None:
    root = merkle_root(LEAVES)
    for place in range(len(LEAVES)):
        assert merkle_root([*LEAVES[:place], leaf_hash(b"x"), *LEAVES[place + 1 :]]) != root
        assert merkle_root([*LEAVES[:place], *LEAVES[place + 1 :]]) != root
    swapped = [LEAVES[1], LEAVES[0], *LEAVES[2:]]
    assert merkle_root(swapped) != root
