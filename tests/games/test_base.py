"""Replies, asks, seats: what holds for every game."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from parley.games.base import new_game
from parley.games.consensus.game import ConsensusGame
from parley.games.consensus.parameters import ByzantineVote, ConsensusParameters, HonestVote, proposal_model
from parley.games.deliberation.parameters import reply_model
from parley.policies import FAILURE_CLASSES
from parley.policies.reply_text import parse_reply
from support.playing import groups

HONEST = proposal_model("honest", 0, 50, 20, 30)
BYZANTINE = proposal_model("byzantine", 0, 50, 20, 30)
MODELS = [HONEST, BYZANTINE, HonestVote, ByzantineVote]


def proposal(value: str, note: str = '"n"', why: str = '"w"') -> str:
    return f'{{"internal_strategy": {note}, "value": {value}, "public_reasoning": {why}}}'


def failure(text: str, model: type[BaseModel] = HONEST, finish: str = "stop") -> str | None:
    reply = parse_reply(text, finish, model)
    assert (reply.value is None) == (reply.failure is not None)
    assert (reply.detail is None) == (reply.failure is None)
    assert len(reply.detail or "") <= 200
    return reply.failure


ONE = proposal("1")
INVALID = [
    *("", " \n ", "I propose 17.", f"Sure! {ONE}", f"```json\n{ONE}\n```", ONE * 2, ONE[:-3], "[1]", "null", '"17"'),
    *(ONE[:-1] + ",}", ONE.replace('"', "'"), proposal("1 /* mine */"), "\0", ONE + "\0", "\ufeff" + ONE, "{}"),
    # Another type or notation of a value
    *(proposal(value) for value in ('"17"', "5.0", "1e1", "1e400", "true", "null", "[17]", '{"value": 17}', "NaN")),
    *(proposal(value) for value in ("-Infinity", "017", "+17", "0x11", "<integer>")),
    *(proposal("17", note="17"), proposal("17", why="null")),
    # Keys that are missing, other, more, or repeated, also where a value is out of range
    *('{"internal_strategy": "", "public_reasoning": ""}', '{"internal_strategy": "", "value": 99}'),
    *(ONE.replace("value", "Value"), ONE[:-1] + ', "": 1}', proposal("99")[:-1] + ', "confidence": 1}'),
    *(ONE[:-1] + ', "value": 1}', proposal("99")[:-1] + ', "value": 2}', ONE[:-1] + ', "v\\u0061lue": 2}'),
    # Texts that are none
    *(proposal("1", why=why) for why in ('"a\nb"', '"a\x01b"', '"\ud800"', r'"\ud800"', r'"\x41"')),
    *("[" * 100_000, "[" * 100_000 + "]" * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000, "x" * 2_000_000),
]
OUT_OF_RANGE = [
    *(proposal(value) for value in ("-1", "51", "9" * 22, "-" + "9" * 400)),
    *(proposal("1", note=json.dumps("x" * 21)), proposal("1", why=json.dumps("x" * 31))),
    proposal("99", why=json.dumps("x" * 1_000_000)),
]


def test_what_is_not_of_the_asked_shape_is_invalid_json_and_what_is_outside_its_bounds_out_of_range() -> None:
    for model in (HONEST, BYZANTINE):
        assert [text[:80] for text in INVALID if failure(text, model) != "invalid_json"] == []
        assert [text[:80] for text in OUT_OF_RANGE if failure(text, model) != "out_of_range"] == []
    assert failure(proposal("9" * 100_000)) in (
        "invalid_json",
        "out_of_range",
    )  # an integer, if one can be read at all


def test_long_texts_are_cut_where_no_grammar_bounds_them_and_nothing_else_is_mended() -> None:
    cut = parse_reply(
        proposal("1", note=json.dumps("é" * 25), why=json.dumps("w" * 1_000_000)), "stop", HONEST, cut=True
    )
    assert cut.value == HONEST(internal_strategy="é" * 20, value=1, public_reasoning="w" * 30)
    for text in (*INVALID, *OUT_OF_RANGE):
        found = parse_reply(text, "stop", HONEST, cut=True).failure
        assert found == (None if text in OUT_OF_RANGE[4:6] else failure(text)), text[:80]
    word = reply_model("cot", "number", (), 20, 30)
    assert parse_reply(json.dumps({"argument": "x" * 40, "answer": "1" * 21}), "stop", word, cut=True).value is None


def test_votes_and_abstentions_are_read_by_role() -> None:
    for model in (HonestVote, ByzantineVote):
        for decision, expected in (("stop", None), ("continue", None), ("Stop", "out_of_range"), ("", "out_of_range")):
            assert failure(json.dumps({"decision": decision}), model) == expected, decision
        for other in (5, True, None, [], ["stop"], {"stop": 1}):
            assert failure(json.dumps({"decision": other}), model) == "invalid_json", other
    abstain = '{"decision": "abstain"}'
    assert (failure(abstain, HonestVote), failure(abstain, ByzantineVote)) == ("out_of_range", None)
    for word, honest, byzantine in (("abstain", "invalid_json", None), ("Abstain", "invalid_json", "invalid_json")):
        assert (failure(proposal(f'"{word}"')), failure(proposal(f'"{word}"'), BYZANTINE)) == (honest, byzantine)


def test_values_for_peers_are_parsed_strictly() -> None:
    model = proposal_model("byzantine", 0, 50, 20, 30, ("agent_2", "agent_4"))
    rows: list[tuple[Any, str | None]] = [
        *(({name: 3}, "invalid_json") for name in ("agent_9", "agent_1")),
        *(({"agent_2": wrong}, "out_of_range") for wrong in (51, -1)),
        *(({"agent_2": wrong}, "invalid_json") for wrong in ("3", "stop", 3.0, None)),
        *((told, "invalid_json") for told in ([3], None)),
        *((told, None) for told in ({"agent_2": 3}, {"agent_2": "abstain"}, {})),
    ]
    for told, expected in rows:
        reply = {"internal_strategy": "", "value": 7, "public_reasoning": "", "peer_values": told}
        assert failure(json.dumps(reply), model) == expected, told


def test_a_reply_that_was_cut_off_or_filtered_is_none_even_if_it_parses() -> None:
    for model in MODELS:
        for text in (ONE, '{"decision": "stop"}', "", "{"):
            assert failure(text, model, "length") == "length"
            assert failure(text, model, "content_filter") == "refused"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["stop", "abstain"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["value", "decision", "internal_strategy", "public_reasoning"]) | st.text(), inner
        )
    ),
    max_leaves=12,
)


@pytest.mark.promise("No reply ever raises, and only what was asked for is taken.")
@given(st.text(st.characters()) | JSON.map(json.dumps), st.sampled_from(["stop", "length", "content_filter", "abort"]))
@pytest.mark.slow
def test_no_text_ever_raises_and_only_the_asked_shape_is_taken(text: str, finish: str) -> None:
    for model in MODELS:
        reply = parse_reply(text, finish, model)
        assert reply.failure in FAILURE_CLASSES
        if reply.value is not None:
            assert reply.value.model_dump() == json.loads(text)


# Asks and seats


def seats(honest: int, byzantine: int, seed: int) -> list[tuple[str, str]]:
    agents = groups(honest=honest, byzantine=byzantine)
    game = new_game(ConsensusGame, ConsensusParameters(), agents, "may_exist", seed)
    assert [ask.agent for ask in next(game.play())] == [f"agent_{i + 1}" for i in range(honest + byzantine)]
    return [(seat.name, seat.role) for seat in game.seats]


def test_names_are_neutral_depend_on_the_seed_alone_and_say_nothing_about_roles() -> None:
    names = [[name for name, _ in seats(8 - b, b, 5)] for b in (0, 1, 4)]
    assert names[0] == names[1] == names[2] != [name for name, _ in seats(8, 0, 6)]
    assert sorted(names[0]) == sorted(f"agent_{i}" for i in range(1, 9))
    assert [role for _, role in seats(8, 4, 0)].count("byzantine") == 4
    byzantine = [name for seed in range(200) for name, role in seats(3, 1, seed) if role == "byzantine"]
    # Each of four names should come about 50 times; five standard deviations are 31.
    assert all(19 <= byzantine.count(f"agent_{i}") <= 81 for i in range(1, 5))
