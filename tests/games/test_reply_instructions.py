"""What agents are told of the form of replies: what is cut from printed prompts, and what ours never show."""

import re
from collections.abc import Iterator
from pathlib import Path

from parley.games.consensus.prompts import FOLDER as PRINTED
from parley.games.consensus.swarms.parameters import LEAKS
from parley.games.prompts import REPLY_TEMPLATES as FOLDER
from parley.games.prompts import without_json
from parley.games.registry import GAMES
from parley.policies import REPLY_FORMATS

PROMPTS = FOLDER.parent

# What each printed prompt ends with when it is not for JSON; all before it stays, all after it is cut.
CUT = {
    "fig05_byzantine_propose_system": "=== OUTPUT FORMAT ===\nRespond in JSON with exactly three fields:",
    "fig06_byzantine_propose_user": 'Respond with JSON only:\n{\n  "internal_strategy": "your SECRET tactics"',
    "fig07_byzantine_vote_user": 'Respond: {"decision": "stop"}, {"decision": "continue"}, or',
    "fig08_byzantine_vote_system": "=== OUTPUT FORMAT ===\nRespond with JSON only:",
    "fig09_honest_propose_user": 'Respond with JSON only:\n{\n  "internal_strategy": "your private observations"',
    "fig10_honest_vote_user": 'Respond: {"decision": "stop"} or {"decision": "continue"}',
    "fig11_honest_may_exist_propose_system": "=== OUTPUT FORMAT ===\nRespond in JSON with exactly these three",
    "fig12_honest_none_exist_propose_system": "=== OUTPUT FORMAT ===\nRespond in JSON with exactly these three",
    "fig13_honest_may_exist_vote_system": "=== OUTPUT FORMAT ===\nRespond with JSON only:",
    "fig14_honest_none_exist_vote_system": "=== OUTPUT FORMAT ===\nRespond with JSON only:",
    "swarms/byzantine_prompt": 'Respond only with valid JSON:\n{{\n  "internal_strategy": "secret tactics"',
    "swarms/cooperative_prompt": 'Respond only with valid JSON:\n{{\n  "internal_strategy": "private notes"',
    "swarms/honest_prompt": 'Respond only with valid JSON:\n{{\n  "internal_strategy": "private notes"',
    "swarms/round_prompt": "Return JSON only.",
}


def printed() -> Iterator[Path]:
    yield from PRINTED.glob("fig*.txt")
    yield from (path for path in (PRINTED / "swarms").glob("*.txt") if path.stem != "vote_on_last_round")


def ours() -> Iterator[Path]:
    quoted = {*printed(), *PROMPTS.rglob("stag_hunt/templates/published/a*.txt")}
    yield from (path for path in PROMPTS.rglob("*.txt") if path not in quoted)


def test_what_asks_for_json_is_cut_from_each_printed_prompt_and_nothing_else() -> None:
    assert {str(path.relative_to(PRINTED).with_suffix("")) for path in printed()} == {*CUT}
    for name, asks in CUT.items():
        text = (PRINTED / f"{name}.txt").read_text(encoding="utf-8")
        kept, english, rest = without_json(text).partition("\nAll responses must be in English only.")
        assert (bool(english), rest) == ("English" in text, ""), name
        assert text.startswith(kept)
        assert text[len(kept) :].lstrip().startswith(asks), name
        assert "JSON" not in kept
        assert len(kept) > 100
    text = (PRINTED / "network" / "disclosed.txt").read_text(encoding="utf-8")
    assert without_json(text) == text.rstrip()  # one that does not ask for JSON stays whole


# A key with a text in quotes that a model could copy, an ellipsis, and words in quotes that stand for others.
_WORDS = r"(?:your|the|a|an|why|what|one|secret|fake|private)"
_COPIED = re.compile(rf"""\"\w+":\s*["[{{]|\.\.\.|…|["'`]{_WORDS}\s[^"':]*["'`]""", re.IGNORECASE)


def test_no_prompt_of_ours_shows_a_placeholder() -> None:
    assert _COPIED.search('{"argument": "why, in one sentence"}')
    assert _COPIED.search('"answer": "..."')
    assert _COPIED.search('with the word "your word"')
    texts = {path: path.read_text(encoding="utf-8") for path in ours()}
    assert len(texts) > 50
    assert {str(path): found[0] for path, text in texts.items() if (found := _COPIED.search(text))} == {}


def test_every_file_that_is_sent_is_identity() -> None:
    steps = {"json": {"json"}, "text": {"text"}, "two_steps": {"reply_templates", "then"}}
    for name, game in GAMES.items():
        for written in REPLY_FORMATS:
            prompt, parameters = next(iter(game.prompts)), game.Parameters(reply_format=written)  # type: ignore[arg-type]
            files = game.prompts.files(prompt, parameters)
            replies = {path for path in files.values() if FOLDER in path.parents}
            # The printed prompts of consensus have their own; answers before their argument have no second step.
            expected = set() if (name, written) == ("consensus", "json") else steps[written]
            expected = expected | ({"json"} if (name, written) == ("deliberation", "two_steps") else set())
            assert {path.parent.name for path in replies} == expected, (name, written)
            for role in game.roles:
                of_role = {key: path for key, path in files.items() if key.startswith(f"{role}_")}
                assert {*of_role.values()} >= replies or name == "consensus"
                assert len(game.prompts.digests(prompt, [role], parameters)) == len(of_role)


def test_every_file_is_of_some_reply() -> None:
    used: set[Path] = set()
    for game in GAMES.values():
        for written in REPLY_FORMATS:
            for more in ({}, {"protocol": "swarms"}, {"problems": "policies"}):
                known = {key: value for key, value in more.items() if key in game.Parameters.model_fields}
                parameters = game.Parameters.model_validate({"reply_format": written, **known})
                used |= {*game.prompts.files(next(iter(game.prompts)), parameters).values()}
    assert set(FOLDER.rglob("*.txt")) <= used
    assert LEAKS  # the swarms protocol is among them
