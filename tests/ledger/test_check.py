"""A chain that was tampered with is found, and the message names the right place."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley import paths
from parley.errors import RecordError
from parley.games.deliberation.game import DeliberationGame
from parley.games.evidence import Session
from parley.ledger import check
from parley.ledger.block import block_hash
from parley.ledger.check import ChainChecker, block_line, check_chain
from parley.ledger.signing import AgentKey
from support.chains import AGENTS, SIMULATIONS, Block, chain, changed, forged, ordinary, problem, session, write_chain
from support.deliberating import CHOICES, deliberate, new_deliberation

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


@pytest.mark.parametrize("height", range(3))
@pytest.mark.slow
def test_every_changed_byte_is_found_in_its_block(height: int) -> None:
    """Each bit of each byte flipped, and each byte replaced by those that mean something in JSON."""
    lines = SMALL.splitlines(keepends=True)
    start = sum(map(len, lines[:height]))
    for place in range(start, start + len(lines[height])):
        old = SMALL[place]
        for new in {*(old ^ 1 << bit for bit in range(8)), *b'\n ",0'} - {old}:
            found = of_bytes(SMALL[:place] + bytes([new]) + SMALL[place + 1 :])
            assert found.startswith(f"block {height}"), (place, new, found)


@given(st.integers(0, len(SMALL) - 1), st.binary(max_size=3))
def test_bytes_put_in_or_taken_out_are_found(place: int, added: bytes) -> None:
    if added:
        assert of_bytes(SMALL[:place] + added + SMALL[place:])
    assert of_bytes(SMALL[:place] + SMALL[place + 1 :])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (SMALL[:-1], "block 2: cut short: no end of line"),
        (SMALL + b"\n", "block 3: not valid JSON, or not ASCII"),
        (SMALL + b"{}\n", "block 3: format: field required"),
        (SMALL + b"[]\n", "block 3: block: input should be a valid dictionary"),
        (b'{"a":1,"a":1}\n', "block 0: not canonical JSON"),
        (b'{"b":1,"a":1}\n', "block 0: not canonical JSON"),
        (b'{"a": 1}\n', "block 0: not canonical JSON"),
        (b'{"a":1}\r\n', "block 0: not canonical JSON"),
        (b'{"a":1e2}\n', "block 0: not canonical JSON"),
        (b'{"a":"\xc3\xa9"}\n', "block 0: not valid JSON, or not ASCII"),
        (b'{"a":NaN}\n', "block 0: not valid JSON, or not ASCII"),
        (b'{"a":1e999}\n', "block 0: not valid JSON, or not ASCII"),
        (b'{"a":' + b"9" * 5000 + b"}\n", "block 0: not valid JSON, or not ASCII"),
        (b"[" * 100_000 + b"]" * 100_000 + b"\n", "block 0: not valid JSON, or not ASCII"),
        (b"\x00" * 100, "block 0: cut short"),
    ],
)
def test_what_is_no_block_is_refused_in_words(content: bytes, words: str) -> None:
    assert of_bytes(content).startswith(words)


@pytest.mark.parametrize("depth", [50, 200, 300, 900, 5_000])
def test_content_that_is_nested_deeply_ends_in_words(depth: int) -> None:
    line = CHAIN[0].replace(b'"answer":1', b'"answer":' + b"[" * depth + b"]" * depth, 1)
    assert of_bytes(line).startswith("block 0")


def test_a_line_that_is_too_long_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    longest = max(map(len, CHAIN[:3]))
    monkeypatch.setattr(check, "MAX_BLOCK_BYTES", longest)
    assert problem(CHAIN) == f"block 3: longer than {longest:,} bytes"
    read = [len(line) for line in check.lines(io.BytesIO(b"x" * 10_000))]
    assert max(read) == longest + 1


# Blocks


def test_a_block_taken_out_is_found() -> None:
    assert problem(CHAIN[1:]) == "block 0: has the height 1"
    assert problem([*CHAIN[:2], CHAIN[3]]) == "block 2: has the height 3"


def test_a_block_put_in_is_found() -> None:
    assert problem([*CHAIN[:2], CHAIN[1], *CHAIN[2:]]) == "block 2: has the height 1"


def test_swapped_blocks_are_found() -> None:
    assert problem([CHAIN[0], CHAIN[2], CHAIN[1], CHAIN[3]]) == "block 1: has the height 2"


def test_a_block_of_another_chain_does_not_follow() -> None:
    other = chain([session(verdict={"answer": 41})], [session(agreed=False)])
    assert problem([CHAIN[0], other[1]]) == "block 1: does not follow block 0: another hash stands under `previous`"


def test_the_first_block_follows_nothing() -> None:
    cut = [block_line({**json.loads(line), "height": height}) for height, line in enumerate(CHAIN[2:])]
    assert problem(cut).startswith("block 0: does not follow nothing, as the first block does")


def test_a_changed_fact_is_found_by_the_hash() -> None:
    assert problem(changed(CHAIN, 2, lambda block: block["verdict"].update(answer=41))) == (
        "block 2: its hash is not that of its content"
    )


def test_a_wrong_merkle_root_is_found() -> None:
    def change(block: Block) -> None:
        block["merkle_root"] = "0" * 64

    assert problem(changed(CHAIN, 0, change)) == "block 0: its Merkle root is not that of its utterances"


def test_a_block_that_was_made_anew_does_not_fit_the_next() -> None:
    other = chain([session()], [session(agreed=False, verdict={"answer": 41})])
    assert problem([CHAIN[0], other[1], *CHAIN[2:]]) == (
        "block 2: does not follow block 1: another hash stands under `previous`"
    )


# Utterances


def test_a_changed_word_is_found_in_its_utterance_even_if_all_is_hashed_again() -> None:
    def change(block: Block) -> None:
        block["utterances"][5]["content"]["why"] = "another"

    expected = "block 3, utterance 5 (agent_3, round 2): bad signature"
    assert problem(changed(CHAIN, 3, change)) == expected
    assert problem(forged(CHAIN, 3, change)) == expected


def test_a_changed_signature_is_found() -> None:
    def change(block: Block) -> None:
        signature = block["utterances"][1]["signature"]
        block["utterances"][1]["signature"] = signature[:-1] + "0123456789abcdef"[int(signature[-1], 16) ^ 1]

    assert problem(forged(CHAIN, 0, change)) == "block 0, utterance 1 (agent_2, round 1): bad signature"


@pytest.mark.parametrize("spelling", ["upper", "short", "space"])
def test_a_signature_is_spelled_in_one_way(spelling: str) -> None:
    def change(block: Block) -> None:
        old = block["utterances"][0]["signature"]
        block["utterances"][0]["signature"] = {"upper": old.upper(), "short": old[2:], "space": old + " "}[spelling]

    assert problem(forged(CHAIN, 0, change)).startswith("block 0, utterance 0: signature: string should match pattern")


def test_swapped_utterances_are_found() -> None:
    def change(block: Block) -> None:
        block["utterances"][0:2] = block["utterances"][1::-1]

    assert problem(changed(CHAIN, 0, change)) == "block 0: its Merkle root is not that of its utterances"


def replay(field: str, value: Any) -> Callable[[Block], None]:
    """Return a change of the second utterance of a block, whose signature stays."""
    return lambda block: block["utterances"][1].update({field: value})


def test_an_utterance_passes_in_no_other_round() -> None:
    assert problem(forged(CHAIN, 3, replay("round", 2))) == "block 3, utterance 1 (agent_2, round 2): bad signature"


def test_an_utterance_passes_for_no_other_agent() -> None:
    assert problem(forged(CHAIN, 3, replay("agent", "agent_3"))) == (
        "block 3, utterance 1 (agent_3, round 1): bad signature"
    )


def test_an_utterance_passes_in_no_other_simulation() -> None:
    def change(block: Block) -> None:
        block["utterances"][1] = json.loads(CHAIN[0])["utterances"][1]

    before = json.loads(CHAIN[3])["utterances"][1]
    stolen = json.loads(CHAIN[0])["utterances"][1]
    assert {**before, "signature": ""} == {**stolen, "signature": ""}  # the same words, said elsewhere
    assert problem(forged(CHAIN, 3, change)) == "block 3, utterance 1 (agent_2, round 1): bad signature"


def test_an_utterance_passes_in_no_other_session() -> None:
    two = chain([session((1,), agreed=False), session((1,), agents=AGENTS[:2])])

    def change(block: Block) -> None:
        block["utterances"] = [json.loads(chain([session((1,))])[0])["utterances"][0], block["utterances"][1]]

    assert problem(forged(two, 1, change)) == "block 1, utterance 0 (agent_1, round 1): bad signature"


def test_an_utterance_repeated_or_out_of_order_is_found() -> None:
    def repeat(block: Block) -> None:
        block["utterances"].insert(1, block["utterances"][0])
        block["spoken"] += 1

    def reverse(block: Block) -> None:
        block["utterances"].reverse()

    assert problem(forged(CHAIN, 3, repeat)) == "block 3, utterance 1 (agent_1, round 1): speaks twice in this round"
    assert problem(forged(CHAIN, 3, reverse)) == "block 3, utterance 3 (agent_3, round 1): goes back from round 2"


def test_an_utterance_taken_out_is_found() -> None:
    assert problem(forged(CHAIN, 3, lambda block: block["utterances"].pop())) == (
        "block 3: has 5 utterances, and 6 were spoken"
    )


def test_who_took_no_part_says_nothing() -> None:
    def change(block: Block) -> None:
        key = AgentKey(block["simulation"], "stranger")
        content = {"answer": 1}
        block["utterances"].append(
            {"round": 2, "agent": "stranger", "content": content, "signature": key.sign(0, 2, content)}
        )
        block["spoken"] += 1

    assert problem(forged(CHAIN, 3, change)) == "block 3, utterance 6 (stranger, round 2): its agent took no part"


def test_a_hung_block_is_empty() -> None:
    def change(block: Block) -> None:
        block["utterances"] = json.loads(CHAIN[0])["utterances"]

    assert problem(forged(CHAIN, 1, change)) == "block 1: has utterances, and its deliberation hung"


def test_a_chain_signed_again_with_other_keys_is_found() -> None:
    def change(block: Block) -> None:
        for signer in block["agents"]:
            signer["key"] = AgentKey(SIMULATIONS[3], signer["name"]).public
        for said in block["utterances"]:
            key = AgentKey(SIMULATIONS[3], said["agent"])
            said["signature"] = key.sign(0, said["round"], said["content"])

    assert problem(forged(CHAIN, 3, change)) == (
        "block 3: the key of agent_1 is not the one that agent_1 has in this simulation"
    )


def test_an_agent_named_twice_is_found() -> None:
    assert problem(forged(CHAIN, 1, lambda block: block["agents"].append(block["agents"][0]))) == (
        "block 1: an agent is named twice"
    )


# Hashed anew: whoever changes a block and computes all roots, hashes and heights again has not signed it


BAD_BLOCK = "bad signature of the block by agent_1: it was changed and not signed anew"


@pytest.mark.parametrize(
    ("height", "change"),
    [
        (3, lambda block: block["verdict"].update(answer=41)),
        (3, lambda block: (block["utterances"].pop(), block.update(spoken=5))),
        (3, lambda block: block.update(agreed=False, utterances=[])),
        (1, lambda block: block.update(spoken=0)),
        (2, lambda block: block["subject"].update(problem=8)),
        (3, lambda block: block["parameters"].update(turns=7)),
        (0, lambda block: block.update(game="another")),
        (0, lambda block: block["agents"].reverse()),
    ],
    ids=["verdict", "dropped", "made hung", "count", "subject", "rules", "game", "agents"],
)
def test_a_block_that_was_only_hashed_again_is_found(height: int, change: Callable[[Block], object]) -> None:
    found = problem(forged(CHAIN, height, change))
    assert found.startswith(f"block {height}: bad signature of the block by agent_")


def test_swapped_and_deleted_blocks_that_were_only_hashed_again_are_found() -> None:
    def moved(order: list[int]) -> str:
        lines = []
        for height, place in enumerate(order):
            lines.append(block_line({**json.loads(CHAIN[place]), "height": height}))
        first = {**json.loads(lines[0]), "previous": json.loads(CHAIN[0])["previous"]}
        return problem(forged([block_line(first), *lines[1:]], 0, lambda block: None))

    assert moved([0, 1, 2, 3]) == ""
    assert moved([3, 0, 1, 2]) == f"block 0: {BAD_BLOCK}"
    assert moved([1, 2, 3]) == f"block 0: {BAD_BLOCK}"
    assert moved([0, 1, 3]) == f"block 2: {BAD_BLOCK}"


# The verdict: what anybody says who can sign, and nobody uttered


def deliberated(said: list[list[Any]], **given: Any) -> Session:
    """Return the ledger's session of a deliberation in which agents say this, turn by turn."""
    game = new_deliberation(**given)
    outcome = deliberate(game, *said).outcome.as_json()
    [found] = DeliberationGame.evidence.transcript(outcome, outcome["trace"])
    return found


def judged(one: Session, **changes: Any) -> str:
    """Return what is wrong with a chain of the session, signed by all its agents after these changes."""
    return problem(chain([replace(one, **changes)], game="deliberation"))


def test_a_verdict_that_nobody_uttered_is_found_even_if_everybody_signs_it() -> None:
    one = deliberated([["18", "20", "18"], ["18", "18.00", "$18"]])
    assert judged(one) == ""
    assert judged(one, verdict={**one.verdict, "value": "20"}) == (
        "block 0: its verdict is '20', the last answer of 0 of 3 agents, and 3 are honest"
    )


def test_a_verdict_needs_all_honest_agents_and_no_malicious_one() -> None:
    one = deliberated([["18", "18", "20"]], roles="hhb")
    assert (judged(one), one.parameters["malicious"]) == ("", 1)
    assert judged(one, parameters={**one.parameters, "malicious": 0}) == (
        "block 0: its verdict is '18', the last answer of 2 of 3 agents, and 3 are honest"
    )
    assert judged(one, parameters={**one.parameters, "malicious": 3}) == (
        "block 0: 3 of its 3 agents are malicious, and one is honest at least"
    )
    assert judged(one, utterances=one.utterances[1:]).startswith("block 0: its verdict is '18', the last answer of 1")


def test_utterances_of_the_last_turn_that_were_dropped_are_found() -> None:
    one = deliberated([["18"] * 3] * 3, stop_when_unanimous=False)
    assert judged(one) == ""
    assert judged(one, utterances=one.utterances[:6]) == (
        "block 0: its last utterance is of round 1: the last turns are missing"
    )


def test_a_hung_deliberation_has_no_value() -> None:
    one = deliberated([["18", "20", "18"]], turns=0)
    assert judged(one) == ""
    assert "hung, and its verdict has a value" in judged(one, verdict={**one.verdict, "value": "18"})
    assert "says otherwise than its block" in judged(one, verdict={**one.verdict, "agreed": True})


def test_accepted_policies_have_the_level_that_agents_gave_them() -> None:
    named = [[["Lend tools"], ["Lend tools", "Buy more books"], ["Lend tools"]]]
    one = deliberated(named, problem=CHOICES, problems={"kind": "policies"}, turns=0)
    assert judged(one) == ""
    both = {"buy more books": "1/3", "lend tools": "1"}
    assert one.verdict["levels"] == both
    for levels, value, words in [
        (
            {**both, "buy more books": "2/3"},
            ["buy more books", "lend tools"],
            "the level 2/3 of a policy that 1 agents",
        ),
        ({"lend tools": "1"}, ["lend tools"], "the level 0 of a policy that 1 agents name"),
        ({**both, "open on sundays": "1"}, ["lend tools", "open on sundays"], "that 0 agents name"),
        (both, ["buy more books", "lend tools"], "does not accept the policies whose level reaches theta"),
        ({**both, "lend tools": "1/0"}, ["lend tools"], "cannot be compared with what was said (ZeroDivisionError"),
    ]:
        assert words in judged(one, verdict={**one.verdict, "levels": levels, "value": value})


@pytest.mark.parametrize("key", ["value", "agreed", "detail", "levels"])
@pytest.mark.parametrize("value", [None, 7, [], {}, "x", [[]], True])
def test_a_verdict_of_any_shape_ends_in_words(key: str, value: object) -> None:
    named = [[["Lend tools"]] * 3]
    one = deliberated(named, problem=CHOICES, problems={"kind": "policies"}, turns=0)
    judged(one, verdict={**one.verdict, key: value})
    judged(one, verdict={})
    judged(one, subject={**one.subject, key: value}, parameters={})


# Definition XI.2


def test_deliberations_that_should_not_have_been_are_found() -> None:
    hung = session(agreed=False)
    again = chain([session()], [hung, session((2,))])
    assert problem(again) == "block 2: deliberated again by the agents that hung it (block 1)"
    agreed = chain([session(), session((2,), agents=AGENTS[:2])])
    assert problem(agreed) == "block 1: deliberated again after agreement (block 0)"


# Proof of work


def test_a_chain_with_proof_of_work_is_whole() -> None:
    lines = ordinary(difficulty=8)
    assert problem(lines) == ""
    assert all(json.loads(line)["hash"].startswith("00") for line in lines)


def test_a_block_without_its_proof_of_work_is_found() -> None:
    lines = ordinary(difficulty=4)

    block = json.loads(lines[2])
    while block["hash"].startswith("0"):
        block["nonce"] += 1
        block["hash"] = block_hash(block)
    assert (
        problem([*lines[:2], block_line(block)]) == "block 2: its hash does not begin with 4 zero bits, its difficulty"
    )


def test_a_lowered_difficulty_is_found() -> None:
    lines = ordinary(difficulty=4)
    assert problem(forged(lines, 2, lambda block: block.update(difficulty=3))) == (
        "block 2: has the difficulty 3, and the blocks before have 4"
    )
    assert problem(forged(lines, 0, lambda block: block.update(difficulty=3))).startswith("block 0: does not follow")


# Files


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    return write_chain(tmp_path / "chain.jsonl", CHAIN)


def test_a_stored_chain_is_checked_with_its_head(stored: Path) -> None:
    assert check_chain(stored).blocks == 4


def test_a_chain_that_was_cut_at_the_end_of_a_block_is_found_by_its_head(stored: Path) -> None:
    stored.write_bytes(b"".join(CHAIN[:3]))
    with pytest.raises(RecordError, match=r"head\.json: not the head .* which has 3 blocks: it counts 4"):
        check_chain(stored)
    paths.ledger_head(stored).unlink()
    with pytest.raises(RecordError, match=r"head\.json: missing: without it, blocks could be missing at the end"):
        check_chain(stored)
    assert check_chain(stored, head=False).blocks == 3  # and nothing else can find it


def test_a_chain_that_was_emptied_is_found_by_its_head(stored: Path) -> None:
    stored.write_bytes(b"")
    with pytest.raises(RecordError, match="which has 0 blocks: it counts 4"):
        check_chain(stored)


@pytest.mark.slow
def test_every_changed_byte_of_a_head_is_found(stored: Path) -> None:
    write_chain(stored, SMALL.splitlines(keepends=True))
    head = paths.ledger_head(stored)
    whole = head.read_bytes()
    for place in range(len(whole)):
        for bit in range(8):
            head.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
            with pytest.raises(RecordError, match=r"head\.json: not the head"):
                check_chain(stored)
    for content in (b"", whole[:-1], whole + b"\n", whole * 100, b'{"blocks":NaN}', b"[" * 900):
        head.write_bytes(content)
        with pytest.raises(RecordError, match=r"head\.json: not the head"):
            check_chain(stored)


def test_a_bad_block_is_named_with_its_file(stored: Path) -> None:
    stored.write_bytes(b"".join(CHAIN[:2]) + b"x\n")
    with pytest.raises(RecordError, match=r"chain\.jsonl: block 2: not valid JSON"):
        check_chain(stored)


def test_a_chain_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"none\.jsonl: cannot be read: No such file or directory"):
        check_chain(tmp_path / "none.jsonl")
