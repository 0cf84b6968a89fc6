"""The prompts of the swarms protocol are the published ones, and parts of an identity where they are used."""

import hashlib
from typing import Any

import pytest

from parley.errors import UsageError
from parley.games.consensus.game import ConsensusGame, ConsensusParameters
from parley.games.consensus.prompts import FOLDER, PROMPTS
from support.turns import new_swarms, take_turns

# SHA-256 of the constants as printed on the page, each with a newline at its end.
PUBLISHED = {
    "honest_prompt": "6972e8ea3d020648134328b4644323becc76c6516407111b1b770e997dbd189d",
    "cooperative_prompt": "70fa7232b368e21dcd322a2b7d84937ee54c019a57ec9ba9eb65791c92fad573",
    "byzantine_prompt": "2b9fc66218ad04f1911a95fc3258a655b028b38bfe6f6b31eb0c79b9d28f63fd",
    "round_prompt": "6c0b192f321630448e2f0c514c9f493b4271d0f05ed5022c8c4be5e9ebf05aef",
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_templates_are_word_for_word_the_published_ones(name: str) -> None:
    assert hashlib.sha256((FOLDER / "swarms" / f"{name}.txt").read_bytes()).hexdigest() == PUBLISHED[name]


@pytest.mark.parametrize(
    ("prompt", "role", "name"),
    [
        ("may_exist", "honest", "honest_prompt"),
        ("none_exist", "honest", "cooperative_prompt"),
        ("may_exist", "byzantine", "byzantine_prompt"),
        ("none_exist", "byzantine", "byzantine_prompt"),
    ],
)
def test_each_role_and_variant_has_its_prompt(prompt: str, role: str, name: str) -> None:
    text = (FOLDER / "swarms" / f"{name}.txt").read_text()
    assert PROMPTS.template(prompt, role, "turn", "system", early_vote=True) + "\n" == text
    assert PROMPTS.template(prompt, role, "turn", "system").startswith(text.rstrip("\n") + "\n\nYour ")


def test_an_agent_gets_the_published_text_with_its_values() -> None:
    game = new_swarms("hb", "early_vote", prompt="none_exist", max_rounds=8)
    honest, byzantine = take_turns(game, [(1, "continue"), (2, "continue")]).asks[:2]
    lines = honest.system.splitlines()
    assert lines[0] == "You are agent_1, an agent in a fully cooperative consensus game."
    assert "- Propose integers from 0 to 50." in lines
    assert '- The game ends when at least two-thirds of agents vote "stop", or after 8 rounds.' in lines
    assert "Your initial value: 20" in lines
    assert lines[-6:] == [
        "{",
        '  "internal_strategy": "private notes",',
        '  "value": 0,',
        '  "public_reasoning": "short message visible to all agents",',
        '  "vote": "stop or continue"',
        "}",
    ]
    assert byzantine.system.startswith("You are agent_2, a SECRET BYZANTINE agent")
    assert "initial value" not in byzantine.system


def test_unknown_prompts_are_one_line() -> None:
    for prompt, role, part in (("x", "honest", "user"), ("may_exist", "x", "user"), ("may_exist", "honest", "x")):
        with pytest.raises(UsageError, match=r"^no prompt for .*turn"):
            PROMPTS.template(prompt, role, "turn", part)


def test_templates_are_those_of_the_page() -> None:
    assert PROMPTS.template("may_exist", "honest", "turn", "user").startswith("Round {round_number}/")


def digests(roles: list[str], **parameters: Any) -> dict[str, str]:
    return ConsensusGame.prompts.digests("may_exist", roles, ConsensusParameters(**parameters))


def test_digests_are_of_the_templates_that_are_used() -> None:
    paper = digests(["honest"])
    swarms = digests(["honest"], protocol="swarms")
    early = digests(["honest"], protocol="swarms", leaks=["early_vote"])
    assert set(paper) == {f"honest_{phase}_{part}" for phase in ("propose", "vote") for part in ("system", "user")}
    assert set(early) == {"honest_turn_system", "honest_turn_user"}
    assert set(swarms) == {*early, "honest_turn_vote_on_last_round"}
    assert early["honest_turn_system"] == PUBLISHED["honest_prompt"]
    assert set(digests(["byzantine"], protocol="swarms", leaks=["early_vote"])) == {
        "byzantine_turn_system",
        "byzantine_turn_user",
    }
