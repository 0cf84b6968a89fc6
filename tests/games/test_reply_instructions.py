"""What agents are told of the form of replies: no placeholder, and nothing that is not in the identity."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from parley.games.consensus.prompts import FOLDER as PRINTED
from parley.games.prompts import REPLY_TEMPLATES as FOLDER
from parley.games.registry import GAMES
from parley.policies import ReplyFormat

pytestmark = pytest.mark.promise("No prompt of ours shows a placeholder.")

PROMPTS = FOLDER.parent


def printed() -> Iterator[Path]:
    yield from PRINTED.glob("fig*.txt")
    yield from (path for path in (PRINTED / "swarms").glob("*.txt") if path.stem != "vote_on_last_round")


def ours() -> Iterator[Path]:
    quoted = {*printed(), *PROMPTS.rglob("stag_hunt/templates/published/a*.txt")}
    yield from (path for path in PROMPTS.rglob("*.txt") if path not in quoted)


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
        for written in get_args(ReplyFormat):
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
