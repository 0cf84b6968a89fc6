"""What holds a model to the form of a reply, in requests and in identities."""

import json
import re
from dataclasses import replace
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from parley.engine.grammar import LATEST, MAX_WHITE_SPACE, OF_OWN_SERVERS, GrammarVersion, constraint
from parley.engine.models import ModelEntry
from parley.games.consensus.game import ConsensusGame, ConsensusParameters
from parley.games.stag_hunt.policies import POLICIES
from parley.identity import digest
from parley.policies import ReplyFormat
from parley.policies.kinds import BY_MODEL, LLM, ChosenPolicy, PolicyParameters
from parley.study.condition import Condition, Player, PlayerGroup
from support.answering import first_ask
from support.replies import MODELS, PROPOSAL

OWN = ModelEntry.model_validate({"source": {"repo": "owner/tiny", "revision": "a" * 40}})
SERVICE = ModelEntry.model_validate({"source": {"url": "http://127.0.0.1:1/v1", "served": "x"}})


def test_servers_of_ours_get_a_grammar_with_bounded_white_space_and_services_openai_s_schema() -> None:
    request = constraint(first_ask(), of_service=False)
    assert set(request) == {"structured_outputs"}
    tag = json.loads(request["structured_outputs"]["structural_tag"])
    assert tag["type"] == "structural_tag"
    assert tag["format"]["max_whitespace_cnt"] == MAX_WHITE_SPACE
    held = tag["format"]["json_schema"]["properties"]
    assert held["value"] == {"maximum": 50, "minimum": 0, "title": "Value", "type": "integer"}
    assert held["public_reasoning"] == {"title": "Public Reasoning", "type": "string"}
    former = json.loads(sent(first_ask().reply_model, 1))
    assert former["format"]["json_schema"] == first_ask().reply_model.model_json_schema()
    request = constraint(first_ask(), of_service=True)
    assert set(request) == {"response_format"}
    assert request["response_format"]["json_schema"]["name"] == "propose"
    for written in ("text", "free"):  # held to nothing
        for of_service in (False, True):
            assert constraint(replace(first_ask(), reply_format=written), of_service) == {}


@pytest.mark.slow
def test_white_space_is_allowed_and_bounded() -> None:
    xgrammar = pytest.importorskip("xgrammar")
    from xgrammar.testing import _is_grammar_accept_string

    tag = constraint(first_ask(), of_service=False)["structured_outputs"]["structural_tag"]
    grammar = xgrammar.Grammar.from_structural_tag(tag)
    text = '{%"internal_strategy":%"x",%"value": 3,%"public_reasoning": "y"%}'
    for between, accepted in ("\n  ", True), (" " * MAX_WHITE_SPACE, True), (" " * (MAX_WHITE_SPACE + 1), False):
        assert _is_grammar_accept_string(grammar, text.replace("%", between)) is accepted, between


def longest_bound(schema: Any) -> int:
    """Return the largest number of characters that a schema counts, as a length or within a pattern."""
    if not isinstance(schema, list | dict):
        return 0
    counted = [longest_bound(part) for part in (schema.values() if isinstance(schema, dict) else schema)]
    if isinstance(schema, dict) and schema.get("type") == "string":
        counted += [int(number) for number in re.findall(r"\d+(?=\})", schema.get("pattern", ""))]
        counted += [schema.get("minLength", 0), schema.get("maxLength", 0)]
    return max(counted, default=0)


def sent(model: type[BaseModel], version: GrammarVersion) -> str:
    """Return xgrammar's structural tag that goes with a request for a reply of `model`."""
    ask = replace(first_ask(), reply_model=model)
    tag: str = constraint(ask, of_service=False, version=version)["structured_outputs"]["structural_tag"]
    return tag


@pytest.mark.promise("The grammar bounds no text, so that no GPU waits for its CPU.")
def test_no_text_of_a_reply_is_bounded() -> None:
    """With bounds the masks of a reply take over ten times the CPU time: each character counted is a state."""
    for model in MODELS:
        former, latest = (json.loads(sent(model, version))["format"]["json_schema"] for version in (1, LATEST))
        assert longest_bound(latest) < 20, model
        assert model is not PROPOSAL or longest_bound(former) == 400


# Identities


def test_what_holds_the_replies_is_identity_where_a_model_is_asked() -> None:
    former = OWN.model_copy(update={"grammar": 1})
    for entry, name in ((OWN, OF_OWN_SERVERS[2]), (former, OF_OWN_SERVERS[1]), (SERVICE, "json_schema")):
        identity = Player(BY_MODEL, "m", entry).identity()
        assert identity == {"policy": "llm", "version": 1, "model": entry.identity(), "grammar": name}
        assert "grammar" not in entry.identity()
    assert OF_OWN_SERVERS == {  # a change of them is a new identity
        1: "xgrammar, JSON schema, white space up to 12",
        2: "xgrammar, JSON schema without lengths, white space up to 12",
    }
    own_code = ChosenPolicy(replace(LLM, name="a:b", fingerprint="f"), PolicyParameters())
    assert Player(own_code, "m", OWN).identity()["grammar"] == OF_OWN_SERVERS[2]
    assert "grammar" not in Player(own_code).identity()


def scripted_condition(**parameters: Any) -> Condition:
    policy = ChosenPolicy(ConsensusGame.policies["majority"], ConsensusGame.policies["majority"].Parameters())
    axes = {"model": "majority", "n": 3, "b": 0, "prompt": "may_exist"}
    groups = (PlayerGroup("honest", 3, Player(policy)),)
    return Condition(ConsensusGame, axes, ConsensusParameters(**parameters), groups, "may_exist", range(1))


@pytest.mark.promise("A new grammar leaves former identities as they were.")
def test_scripted_players_conditions_and_asks_are_identified_as_before() -> None:
    """The hashes were taken before formats of replies existed."""
    scripted = ChosenPolicy(POLICIES["always_stag"], PolicyParameters())
    assert Player(scripted).identity() == {"policy": "always_stag", "version": 1}
    condition = scripted_condition()
    assert condition.identity == "d6a539495ed570872cffc4d0a5e91d55fc554cb8d47b93c267557a3af627a797"
    assert scripted_condition(reply_format="json").spec == condition.spec
    assert len({scripted_condition(reply_format=name).spec for name in get_args(ReplyFormat)}) == 3
    assert first_ask().digest == "7f6388b8486f7cf4666767c9242054ae7914ec660fcaf610519504b7264ecec3"


def test_what_schemas_allow_changes_with_the_name_of_the_grammar() -> None:
    """Schemas shape replies, and identities have the grammar's name alone: another hash needs another name."""
    for version, pinned in ((1, "5eee3648e32e1379"), (2, "1a74fcd028b635fe")):
        shapes = [json.loads(sent(model, version))["format"]["json_schema"] for model in MODELS]
        assert digest(shapes)[:16] == pinned, version
