"""The prompts of the swarms protocol, word for word as in the published code.

The source is the page "Byzantine consensus" of the Swarms documentation (docs.swarms.world), whose constants
HONEST_PROMPT, COOPERATIVE_PROMPT, BYZANTINE_PROMPT and ROUND_PROMPT the template files hold as printed, with the
doubled braces of Python's `str.format`. They are filled by fixed replacement in one pass: nothing in a value is
searched for fields again. One sentence is our own, `vote_on_last_round.txt`; it follows the system prompt unless
the leak `early_vote` is there.
"""

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from parley.errors import UsageError
from parley.games.base import BYZANTINE, HONEST
from parley.games.consensus.prompts import FOLDER, Proposal, check_given, in_format, reply_templates
from parley.games.consensus.swarms.parameters import EARLY_VOTE, SWARMS_DEFAULTS
from parley.policies import ReplyFormat

_FOLDER = FOLDER / "swarms"
_HONEST: Mapping[str, Path] = {
    "may_exist": _FOLDER / "honest_prompt.txt",
    "none_exist": _FOLDER / "cooperative_prompt.txt",
}
_OWN_SENTENCE = "turn_vote_on_last_round"


@cache
def templates(prompt: str, leaks: tuple[str, ...] = (), reply_format: ReplyFormat = "json") -> Mapping[str, Path]:
    """Return the files that agents are sent, by role, phase and part; raises KeyError for an unknown prompt."""
    found: dict[str, Path] = {}
    for role, system in ((HONEST, _HONEST[prompt]), (BYZANTINE, _FOLDER / "byzantine_prompt.txt")):
        found |= {f"{role}_turn_system": system, f"{role}_turn_user": _FOLDER / "round_prompt.txt"}
        if EARLY_VOTE not in leaks:
            found[f"{role}_{_OWN_SENTENCE}"] = _FOLDER / "vote_on_last_round.txt"
    return found | reply_templates(("turn",), reply_format)


@cache
def template(
    prompt: str, role: str, part: str, leaks: tuple[str, ...] = (), reply_format: ReplyFormat = "json"
) -> str:
    """Return the unrendered text of one prompt; raises UsageError for an unknown one.

    The part `follow_up` is the second prompt of two steps ("" in other formats).
    """
    try:
        files = templates(prompt, leaks)
        path = files[f"{role}_turn_{'user' if part == 'follow_up' else part}"]
    except KeyError:
        raise UsageError(
            f"no prompt for {prompt}, {role}, turn, {part}; prompts: {', '.join(_HONEST)}; roles: {BYZANTINE}, "
            f"{HONEST}; parts: system, user"
        ) from None
    text = in_format(_text(path), role, "turn", part, reply_format)
    if part == "system" and f"{role}_{_OWN_SENTENCE}" in files:
        return f"{text}\n\n{_text(files[f'{role}_{_OWN_SENTENCE}'])}"
    return text


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8").rstrip("\n")


_FIELD = re.compile(r"\{\{|\}\}|\{(\w+)\}")


def filled(text: str, values: Mapping[str, Any]) -> str:
    """Return a template with its fields replaced once, in one pass; a doubled brace becomes a single one.

    Raises KeyError for a field without a value.
    """
    return _FIELD.sub(lambda match: str(values[match[1]]) if match[1] else match[0][0], text)


def format_proposals(proposals: Sequence[Proposal]) -> str:
    """Return one line per proposal, as the published code does; a reason is quoted, so that it can forge nothing."""
    lines = []
    for proposal in proposals:
        why = json.dumps(proposal.justification, ensure_ascii=False) if proposal.justification else ""
        lines.append(f"- {proposal.agent}: value={proposal.value}, reasoning={why}")
    return "\n".join(lines) or "- No proposals yet."


_ROUND = ("round_number", "max_rounds")
# What a user may set of a sample, by the fields that depend on it.
_SET_BY: Mapping[str, tuple[str, ...]] = {
    "agent_id": ("agent_id",),
    "round_number": _ROUND,
    "max_rounds": ("max_rounds",),
    "value_min": ("value_min",),
    "value_max": ("value_max",),
    "initial_value": ("initial_value",),
    "current_value": ("current_value", "initial_value"),
    "proposals": ("agent_id",),
    "history": (*_ROUND, "agent_id"),
    "private_notes": _ROUND,
}


def sample_values(prompt: str, role: str, part: str) -> frozenset[str]:
    """Return the names of the values that a sample of this prompt depends on."""
    fields = filter(None, _FIELD.findall(template(prompt, role, part)))
    found = {name for field in fields for name in _SET_BY.get(field, ())}
    return frozenset(found - ({"initial_value"} if role == BYZANTINE else set()))


def sample(prompt: str, role: str, part: str, given: Mapping[str, int | str | None]) -> str:
    """Return one prompt filled with sample values, some of which are `given` (for `parley prompts`)."""
    check_given(given)
    agent, number = str(given["agent_id"]), int(given["round_number"] or 0)
    current = given["current_value"]
    if current is None and role == HONEST:
        current = given["initial_value"]
    peer = Proposal("agent_2" if agent != "agent_2" else "agent_1", 23, "A value in the middle suits all of us.")
    values = {
        **given,
        "task": SWARMS_DEFAULTS["task"],
        "current_value": current,
        "proposals": format_proposals([peer]),
        "history": format_proposals([peer]) if number > 1 else "No previous rounds.",
        "private_notes": "Most agents are close to 20." if number > 1 else "None.",
    }
    reply_format: ReplyFormat = given.get("reply_format") or "json"  # type: ignore[assignment]
    return filled(template(prompt, role, part, reply_format=reply_format), values)
