import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from parley.games.base import new_game
from parley.games.consensus.game import ConsensusGame
from parley.games.consensus.parameters import ByzantineVote, ConsensusParameters, HonestVote, proposal_model
from parley.policies import FAILURE_CLASSES, Ask, Sampling
from parley.policies.parsing import parse_reply
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
    return reply.failure


# Replies that can be used


@pytest.mark.parametrize("value", [0, 17, 50])
@pytest.mark.parametrize("model", [HONEST, BYZANTINE])
def test_a_proper_proposal_is_taken(model: type[BaseModel], value: int) -> None:
    reply = parse_reply(proposal(str(value)), "stop", model)
    assert reply.failure is None
    assert reply.value is not None
    assert reply.value.model_dump() == {"internal_strategy": "n", "value": value, "public_reasoning": "w"}


def test_white_space_and_another_order_of_keys_do_not_matter() -> None:
    text = ' \n{"value":3,\t"public_reasoning":"","internal_strategy":""}\n '
    assert failure(text) is None


def test_a_byzantine_agent_may_abstain_from_both() -> None:
    assert failure(proposal('"abstain"'), BYZANTINE) is None
    assert failure('{"decision": "abstain"}', ByzantineVote) is None


@pytest.mark.parametrize("decision", ["stop", "continue"])
@pytest.mark.parametrize("model", [HonestVote, ByzantineVote])
def test_a_proper_vote_is_taken(model: type[BaseModel], decision: str) -> None:
    assert failure(json.dumps({"decision": decision}), model) is None


def test_texts_of_just_the_longest_length_are_taken() -> None:
    assert failure(proposal("1", json.dumps("x" * 20), json.dumps("é" * 30))) is None


def test_escaped_text_is_taken_as_what_it_stands_for() -> None:
    reply = parse_reply(proposal("1", why=r'"a\nb\u2028\ud83d\ude00"'), "stop", HONEST)
    assert reply.value is not None
    assert reply.value.model_dump()["public_reasoning"] == "a\nb\u2028\U0001f600"


# Classes of failure

NOT_THE_SHAPE = {
    "empty": "",
    "blank": " \n ",
    "prose": "I propose 17.",
    "JSON in prose": f"Sure! {proposal('1')}",
    "JSON in a code fence": f"```json\n{proposal('1')}\n```",
    "two objects": proposal("1") * 2,
    "trailing comma": '{"internal_strategy": "", "value": 1, "public_reasoning": "",}',
    "single quotes": "{'internal_strategy': '', 'value': 1, 'public_reasoning': ''}",
    "comment": proposal("1 /* mine */"),
    "cut off": proposal("1")[:-3],
    "a list": "[1]",
    "a number": "17",
    "null": "null",
    "a string": '"17"',
    "string of a number": proposal('"17"'),
    "float": proposal("5.0"),
    "float with a fraction": proposal("5.5"),
    "exponent": proposal("1e1"),
    "overflowing exponent": proposal("1e400"),
    "true": proposal("true"),
    "false": proposal("false"),
    "null value": proposal("null"),
    "list value": proposal("[17]"),
    "object value": proposal('{"value": 17}'),
    "NaN": proposal("NaN"),
    "Infinity": proposal("Infinity"),
    "-Infinity": proposal("-Infinity"),
    "leading zero": proposal("017"),
    "plus sign": proposal("+17"),
    "hexadecimal": proposal("0x11"),
    "placeholder": proposal("<integer>"),
    "number for a text": proposal("17", note="17"),
    "null for a text": proposal("17", why="null"),
    "missing key": '{"internal_strategy": "", "public_reasoning": ""}',
    "missing text": '{"internal_strategy": "", "value": 1}',
    "no keys": "{}",
    "other case": proposal("1").replace("value", "Value"),
    "extra key": proposal("1")[:-1] + ', "confidence": 1}',
    "extra empty key": proposal("1")[:-1] + ', "": 1}',
    "extra key, value out of range": proposal("99")[:-1] + ', "confidence": 1}',
    "missing key, value out of range": '{"internal_strategy": "", "value": 99}',
    "repeated key": proposal("1")[:-1] + ', "value": 2}',
    "repeated key, same value": proposal("1")[:-1] + ', "value": 1}',
    "repeated key, first out of range": proposal("99")[:-1] + ', "value": 2}',
    "repeated key, last out of range": proposal("1")[:-1] + ', "value": 99}',
    "repeated key, escaped": proposal("1")[:-1] + ', "v\\u0061lue": 2}',
    "NUL": "\0",
    "NUL at the end": proposal("1") + "\0",
    "raw newline in a string": proposal("1", why='"a\nb"'),
    "raw control character": proposal("1", why='"a\x01b"'),
    "byte order mark": "\ufeff" + proposal("1"),
    "lone surrogate": proposal("1", why='"\ud800"'),
    "escaped lone surrogate": proposal("1", why=r'"\ud800"'),
    "bad escape": proposal("1", why=r'"\x41"'),
    "deep list": "[" * 100_000,
    "deep closed list": "[" * 100_000 + "]" * 100_000,
    "deep object": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "deep value": proposal("[" * 100_000 + "]" * 100_000),
    "huge text": "x" * 2_000_000,
    "endless digits": proposal("9" * 100_000),
}


@pytest.mark.parametrize("text", NOT_THE_SHAPE.values(), ids=NOT_THE_SHAPE)
@pytest.mark.parametrize("model", [HONEST, BYZANTINE], ids=["honest", "byzantine"])
def test_what_is_not_of_the_asked_shape_is_invalid_json(model: type[BaseModel], text: str) -> None:
    if text == NOT_THE_SHAPE["endless digits"]:
        assert failure(text, model) in ("invalid_json", "out_of_range")  # an integer, if one can be read at all
    else:
        assert failure(text, model) == "invalid_json"


@pytest.mark.parametrize("value", ["-1", "51", "9999999999999999999999", "-" + "9" * 400])
@pytest.mark.parametrize("model", [HONEST, BYZANTINE], ids=["honest", "byzantine"])
def test_an_integer_outside_its_bounds_is_out_of_range(model: type[BaseModel], value: str) -> None:
    assert failure(proposal(value), model) == "out_of_range"


@pytest.mark.parametrize("model", [HONEST, BYZANTINE], ids=["honest", "byzantine"])
def test_a_text_that_is_too_long_is_out_of_range(model: type[BaseModel]) -> None:
    assert failure(proposal("1", note=json.dumps("x" * 21)), model) == "out_of_range"
    assert failure(proposal("1", why=json.dumps("x" * 31)), model) == "out_of_range"
    assert failure(proposal("99", why=json.dumps("x" * 1_000_000)), model) == "out_of_range"


def test_an_honest_agent_may_not_abstain() -> None:
    assert failure(proposal('"abstain"'), HONEST) == "invalid_json"  # no integer
    assert failure('{"decision": "abstain"}', HonestVote) == "out_of_range"  # a word, but none of these


@pytest.mark.parametrize("word", ["Abstain", "abstain ", "silent", "17", ""])
def test_a_byzantine_value_may_be_no_other_word(word: str) -> None:
    assert failure(proposal(json.dumps(word)), BYZANTINE) == "invalid_json"


@pytest.mark.parametrize("word", ["Stop", "stop ", "vote", ""])
@pytest.mark.parametrize("model", [HonestVote, ByzantineVote])
def test_a_vote_of_another_word_is_out_of_range(model: type[BaseModel], word: str) -> None:
    assert failure(json.dumps({"decision": word}), model) == "out_of_range"


@pytest.mark.parametrize("decision", [5, 1.5, True, None, [], ["stop"], {}, {"stop": 1}])
@pytest.mark.parametrize("model", [HonestVote, ByzantineVote])
def test_a_vote_of_another_type_is_invalid_json(model: type[BaseModel], decision: Any) -> None:
    assert failure(json.dumps({"decision": decision}), model) == "invalid_json"


@pytest.mark.parametrize("model", MODELS)
def test_a_reply_that_was_cut_off_is_length_even_if_it_parses(model: type[BaseModel]) -> None:
    for text in (proposal("1"), '{"decision": "stop"}', "", "{"):
        assert failure(text, model, "length") == "length"


@pytest.mark.parametrize("model", MODELS)
def test_a_filtered_reply_is_refused_even_if_it_parses(model: type[BaseModel]) -> None:
    for text in (proposal("1"), '{"decision": "stop"}', "", "I cannot help with that."):
        assert failure(text, model, "content_filter") == "refused"


def test_replies_are_parsed_strictly_whatever_the_model_says() -> None:
    class Lax(BaseModel):
        value: int

    for text in ('{"value": "5"}', '{"value": 5.0}', '{"value": true}'):
        assert failure(text, Lax) == "invalid_json"
    assert failure('{"value": 5}', Lax) is None


def test_the_detail_names_the_key_and_is_short() -> None:
    reply = parse_reply(proposal("99"), "stop", HONEST)
    assert reply.detail == "value: Input should be less than or equal to 50"
    long = parse_reply(json.dumps({"k" * 5000: 1}), "stop", HONEST)
    assert long.detail is not None
    assert len(long.detail) <= 200


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


@given(st.text(st.characters()), st.sampled_from(["stop", "length", "content_filter", "", "abort"]))
def test_no_text_ever_raises(text: str, finish: str) -> None:
    for model in MODELS:
        assert failure(text, model, finish) in FAILURE_CLASSES


@given(JSON)
@pytest.mark.slow
def test_no_json_ever_raises_and_only_the_asked_shape_is_taken(value: Any) -> None:
    text = json.dumps(value)
    for model in MODELS:
        if failure(text, model) is None:
            taken = parse_reply(text, "stop", model).value
            assert taken is not None
            assert taken.model_dump() == value


@given(
    st.text(max_size=25),
    st.integers(-60, 110) | st.floats(allow_nan=False) | st.booleans() | st.just("abstain"),
    st.text(max_size=35),
)
def test_a_proposal_is_taken_exactly_when_all_its_parts_are_in_bounds(note: str, value: Any, why: str) -> None:
    text = json.dumps({"internal_strategy": note, "value": value, "public_reasoning": why})
    fits = len(note) <= 20 and len(why) <= 30
    number = type(value) is int and 0 <= value <= 50
    assert (failure(text, HONEST) is None) == (fits and number)
    assert (failure(text, BYZANTINE) is None) == (fits and (number or value == "abstain"))


# Asks, seats and games


def an_ask(**changes: Any) -> Ask:
    fields: dict[str, Any] = {
        "agent": "agent_1",
        "role": "honest",
        "round": 1,
        "phase": "vote",
        "system": "s",
        "user": "u",
        "reply_model": HonestVote,
        "sampling": Sampling(temperature=0.3, max_tokens=200),
        "view": None,
    }
    return Ask(**{**fields, **changes})


def test_an_ask_is_sent_as_a_system_and_a_user_message() -> None:
    assert an_ask().messages == [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]


@pytest.mark.parametrize(
    "change",
    [
        {"system": "t"},
        {"user": "t"},
        {"system": "u", "user": "s"},
        {"sampling": Sampling(temperature=0.4, max_tokens=200)},
        {"sampling": Sampling(temperature=0.3, max_tokens=201)},
    ],
)
def test_the_digest_of_an_ask_covers_messages_and_sampling(change: dict[str, Any]) -> None:
    assert an_ask(**change).digest != an_ask().digest


def seats(honest: int, byzantine: int, seed: int) -> list[tuple[str, str]]:
    agents = groups(honest=honest, byzantine=byzantine)
    game = new_game(ConsensusGame, ConsensusParameters(), agents, "may_exist", seed)
    return [(seat.name, seat.role) for seat in game.seats]


def test_a_game_has_the_asked_number_of_agents_of_each_role() -> None:
    roles = [role for _, role in seats(8, 4, 0)]
    assert roles.count("honest") == 8
    assert roles.count("byzantine") == 4


def test_names_are_neutral_and_each_is_given_once() -> None:
    assert sorted(name for name, _ in seats(8, 4, 3)) == sorted(f"agent_{i}" for i in range(1, 13))


def test_names_say_nothing_about_roles() -> None:
    byzantine = [name for seed in range(200) for name, role in seats(3, 1, seed) if role == "byzantine"]
    # Each of four names should come about 50 times; five standard deviations are 31.
    assert all(19 <= byzantine.count(f"agent_{i}") <= 81 for i in range(1, 5))


def test_names_depend_on_the_seed_alone_for_a_group_size() -> None:
    names = [[name for name, _ in seats(8 - b, b, 5)] for b in (0, 1, 4)]
    assert names[0] == names[1] == names[2]
    assert [name for name, _ in seats(8, 0, 6)] != names[0]


def test_agents_are_asked_in_the_order_of_their_names() -> None:
    game = new_game(ConsensusGame, ConsensusParameters(), groups(honest=8, byzantine=4), "may_exist", 0)
    assert [ask.agent for ask in next(game.play())] == [f"agent_{i}" for i in range(1, 13)]
