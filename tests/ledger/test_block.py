import hashlib
import json
import math
from dataclasses import replace

import pytest

from parley.games.evidence import Utterance
from parley.identity import canonical_json
from parley.ledger.block import Block, block_hash, genesis, make_block, meets, sign_session
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
