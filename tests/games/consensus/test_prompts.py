import hashlib
import re
from dataclasses import replace
from pathlib import Path

import pytest

from parley.errors import UsageError
from parley.games.consensus.prompts import FOLDER, PROMPTS, PromptValues, places

# The experimental stimulus: Figures 5 to 14 of the paper, word for word. A changed digest is another experiment.
SHA256 = {
    "fig05_byzantine_propose_system.txt": "9f2073c33202d8850267c249e5538c9a543f2b515ee6d13d227e08dcbc227406",
    "fig06_byzantine_propose_user.txt": "0aa36de6699655f5de2d2882e8b8b4236661f0b05eb75df2633ba78400cf3cd8",
    "fig07_byzantine_vote_user.txt": "459ea04d6aaa82f893e541f5cd4b19bfd018aee1ca990bbd98ac3287e18d2b36",
    "fig08_byzantine_vote_system.txt": "c70909f2694bb6625efb3da7ca234ab2505f0edd49c00d62e15d0d732afda074",
    "fig09_honest_propose_user.txt": "bd0f7a6350124ebc2ee9ee1381bbaef4f9a94a02ab34c1477ccda3ae6d03d39e",
    "fig10_honest_vote_user.txt": "9eb70ed219fd16ec5ce40a046b1c8d7890639a56204c8617cd75fd7a0bd90e2e",
    "fig11_honest_may_exist_propose_system.txt": "83652a0cce2ccf51313d0c03d3cf8824e4008e84f8802d2701469afcab711512",
    "fig12_honest_none_exist_propose_system.txt": "24f90b863b2bc6758d3b806e7429fb84f19e5494cc14e5bb487b49606df33ebc",
    "fig13_honest_may_exist_vote_system.txt": "1b3836346e56bdc73fd96d82b498e4fb4b0cc3bf0e2c3544af922342b96494ac",
    "fig14_honest_none_exist_vote_system.txt": "1c4a0c37aafc04a84b8168c11a470ad48f6a7925ae1dfdb3e18d62d747a74ad4",
}
FIGURES = {
    ("may_exist", "byzantine", "propose", "system"): "fig05",
    ("may_exist", "byzantine", "propose", "user"): "fig06",
    ("may_exist", "byzantine", "vote", "user"): "fig07",
    ("may_exist", "byzantine", "vote", "system"): "fig08",
    ("none_exist", "byzantine", "propose", "system"): "fig05",
    ("none_exist", "byzantine", "propose", "user"): "fig06",
    ("none_exist", "byzantine", "vote", "user"): "fig07",
    ("none_exist", "byzantine", "vote", "system"): "fig08",
    ("may_exist", "honest", "propose", "user"): "fig09",
    ("may_exist", "honest", "vote", "user"): "fig10",
    ("none_exist", "honest", "propose", "user"): "fig09",
    ("none_exist", "honest", "vote", "user"): "fig10",
    ("may_exist", "honest", "propose", "system"): "fig11",
    ("none_exist", "honest", "propose", "system"): "fig12",
    ("may_exist", "honest", "vote", "system"): "fig13",
    ("none_exist", "honest", "vote", "system"): "fig14",
}
template = PROMPTS.template
VALUES = PromptValues(
    agent_id="agent_3",
    round=4,
    max_rounds=31,
    value_min=-7,
    value_max=93,
    initial_value=61,
    current_value=62,
    history="HISTORY",
    this_round="PROPOSALS",
    notes="NOTES",
)
# A Python expression in braces; the JSON examples of the prompts hold a quote or a line break after theirs.
EXPRESSION = re.compile(r"\{(?!\s*\"|\n)(?:[^{}]|\{[^{}]*\})*\}")

every_prompt = pytest.mark.parametrize("key", FIGURES, ids="-".join)
Key = tuple[str, str, str, str]


def render(prompt: str, role: str, phase: str, part: str, values: PromptValues) -> str:
    return PROMPTS.filled(prompt, role, phase, part, places(values))


def test_the_templates_are_the_papers_ten_listings() -> None:
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in FOLDER.glob("*.txt")}
    assert found == SHA256


@every_prompt
def test_each_prompt_comes_from_its_figure(key: Key) -> None:
    prompt, role, phase, part = key
    path = PROMPTS.variants[prompt][f"{role}_{phase}_{part}"]
    assert isinstance(path, Path)
    assert path.name.startswith(FIGURES[key])
    assert template(*key) + "\n" == path.read_text(encoding="utf-8")


def test_every_prompt_is_of_some_figure() -> None:
    known = {(prompt, *name.split("_")) for prompt, names in PROMPTS.variants.items() for name in names}
    assert {key for key in known if key[2] != "turn"} == set(FIGURES)


@pytest.mark.parametrize(
    "key",
    [
        ("unknown", "honest", "propose", "system"),
        ("may_exist", "leader", "propose", "system"),
        ("may_exist", "honest", "chat", "system"),
        ("may_exist", "honest", "vote", "assistant"),
    ],
)
def test_an_unknown_prompt_is_a_usage_error(key: Key) -> None:
    with pytest.raises(UsageError, match=r"^no prompt for "):
        template(*key)


@every_prompt
def test_no_expression_is_left_after_rendering(key: Key) -> None:
    assert EXPRESSION.search(template(*key)), "the check would not see an expression"
    variants = [
        VALUES,
        replace(VALUES, history="", notes="", current_value=None),
        replace(VALUES, round=1, history="", notes="", this_round=""),
    ]
    for values in variants:
        assert EXPRESSION.findall(render(*key, values)) == []


@every_prompt
def test_rendering_changes_nothing_but_the_expressions(key: Key) -> None:
    pieces = re.split(EXPRESSION, template(*key))
    rendered = render(*key, VALUES)
    at = 0
    for piece in pieces:
        at = rendered.index(piece, at) + len(piece)
    assert rendered.startswith(pieces[0])
    assert rendered.endswith(pieces[-1])


def test_an_honest_system_prompt_is_filled_in() -> None:
    lines = render("may_exist", "honest", "propose", "system", VALUES).splitlines()
    assert lines[0] == "You are agent_3, an HONEST agent in a Byzantine Consensus Game."
    assert "5. The game also ends after 31 rounds (deadline) regardless of votes" in lines
    assert "1. Propose integer values between -7 and 93 only" in lines
    assert "Your Initial Value: 61" in lines
    assert "2. value: Your proposed integer (-7-93)" in lines


def test_an_honest_user_prompt_is_filled_in() -> None:
    assert render("none_exist", "honest", "propose", "user", VALUES).splitlines()[:7] == [
        "=== ROUND 4 ===",
        "=== YOUR CURRENT STATE ===",
        "Your current value: 62",
        "=== PREVIOUS ROUNDS HISTORY ===",
        "HISTORY",
        "=== YOUR INTERNAL STRATEGY NOTES (private) ===",
        "NOTES",
    ]


def test_a_vote_prompt_is_filled_in() -> None:
    assert render("may_exist", "honest", "vote", "user", VALUES).splitlines() == [
        "=== VOTING PHASE - Round 4/31 ===",
        "=== ALL PROPOSALS THIS ROUND (current round 4) ===",
        "PROPOSALS",
        "=== PREVIOUS ROUNDS HISTORY (for context) ===",
        "HISTORY",
        "=== YOUR INTERNAL STRATEGY NOTES ===",
        "NOTES",
        "=== MAKE YOUR DECISION ===",
        "Based on THIS round's values above, have honest agents reached consensus on a valid initial value?",
        'Respond: {"decision": "stop"} or {"decision": "continue"}',
    ]


def test_what_is_missing_is_said_in_the_papers_words() -> None:
    empty = replace(VALUES, history="", notes="", current_value=None)
    first = render("may_exist", "honest", "propose", "user", empty)
    assert "You have not proposed a value yet\n" in first
    assert "\n(No notes yet)\n" in first
    for role in ("honest", "byzantine"):
        assert "\n(This is round 1 - no previous history)\n" in render("may_exist", role, "vote", "user", empty)
    assert "\n(No notes)\n" in render("may_exist", "honest", "vote", "user", empty)


@every_prompt
def test_values_are_never_searched_for_expressions_again(key: Key) -> None:
    hostile = "{agent_id} {history_summary} {current_round_summary} {int(self.initial_value)} \\g<0> \\1 {0} %s"
    values = replace(VALUES, history=hostile, this_round=hostile, notes=hostile)
    plain = render(*key, VALUES)
    expected = plain.replace("HISTORY\n", hostile + "\n").replace("NOTES\n", hostile + "\n")
    assert render(*key, values) == re.sub(r"(?m)^PROPOSALS$", lambda match: hostile, expected)


@every_prompt
def test_a_history_that_quotes_the_no_history_mark_is_still_shown(key: Key) -> None:
    told = '  agent_2: 7 | Reasoning: "(No history) (No history yet)"'
    values = replace(VALUES, history=told)
    assert (told in render(*key, values)) == ("history_summary" in template(*key))
