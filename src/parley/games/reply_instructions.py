"""What agents are told of the form of their replies, in each reply format: Parley's own words, in prompts/replies/.

`json/` and `text/` end a prompt of that format. With `two_steps`, `free.txt` ends the first prompt, and `then/` is the
second. A file is named after a kind of reply, which each game names itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from parley.policies import ReplyFormat

FOLDER = Path(__file__).parent / "reply_templates"

# What a printed prompt says of replies in any form, among what asks for JSON.
_IN_ENGLISH = "All responses must be in English only."
# Where printed prompts begin to ask for JSON, which is always at their end.
_ASKS_FOR_JSON = (
    "=== OUTPUT FORMAT ===",
    "Respond with JSON only:",
    "Respond: {",
    "Respond only with valid JSON:",
    "Return JSON only.",
)


@dataclass(frozen=True)
class Instruction:
    """What ends a prompt, and the prompt of the second step where there is one ("" where not)."""

    reply: str
    follow_up: str = ""


def instruction_files(kind: str, reply_format: ReplyFormat) -> Mapping[str, Path]:
    """Return the files that tell of a kind of reply in a format, by their part in it."""
    if reply_format == "two_steps":
        return {"free": FOLDER / "free.txt", "then": FOLDER / "then" / f"{kind}.txt"}
    return {reply_format: FOLDER / reply_format / f"{kind}.txt"}


@cache
def instruction(kind: str, reply_format: ReplyFormat) -> Instruction:
    """Return what is said of a kind of reply in a format."""
    files = instruction_files(kind, reply_format)
    return Instruction(*(path.read_text(encoding="utf-8").rstrip("\n") for path in files.values()))


def without_json(printed: str) -> str:
    """Return a prompt that was printed for JSON without what asks for it, up to its end; its language stays."""
    places = [place for text in _ASKS_FOR_JSON if (place := printed.find(text)) >= 0]
    at = min(places, default=len(printed))
    return printed[:at].rstrip() + (f"\n{_IN_ENGLISH}" if _IN_ENGLISH in printed[at:] else "")
