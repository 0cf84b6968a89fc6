"""The prompts of the consensus game: Figures 5 to 14 of "Can AI Agents Agree?" (A.3), word for word.

The figures print the Python source of the prompts, f-string expressions and all. The template files keep them as
printed, since they are the experimental stimulus; each printed expression is known here by its text and
replaced by a value that was worked out beforehand. Nothing in a template is ever evaluated, and values are not
searched for expressions again.

Two listings lost the text between angle brackets in print (`"value": ,`): `<integer>` is put back there.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from parley.errors import UsageError
from parley.games.base import BYZANTINE
from parley.games.reply_instructions import instruction, instruction_files, without_json
from parley.policies import ReplyFormat

FOLDER = Path(__file__).parent / "templates"

_SHARED = {
    "honest_propose_user": FOLDER / "fig09_honest_propose_user.txt",
    "honest_vote_user": FOLDER / "fig10_honest_vote_user.txt",
    "byzantine_propose_system": FOLDER / "fig05_byzantine_propose_system.txt",
    "byzantine_propose_user": FOLDER / "fig06_byzantine_propose_user.txt",
    "byzantine_vote_user": FOLDER / "fig07_byzantine_vote_user.txt",
    "byzantine_vote_system": FOLDER / "fig08_byzantine_vote_system.txt",
}

# Whether honest agents are told that Byzantine agents may exist, or that none do (section 4.1).
PROMPTS: Mapping[str, Mapping[str, Path]] = {
    "may_exist": {
        **_SHARED,
        "honest_propose_system": FOLDER / "fig11_honest_may_exist_propose_system.txt",
        "honest_vote_system": FOLDER / "fig13_honest_may_exist_vote_system.txt",
    },
    "none_exist": {
        **_SHARED,
        "honest_propose_system": FOLDER / "fig12_honest_none_exist_propose_system.txt",
        "honest_vote_system": FOLDER / "fig14_honest_none_exist_vote_system.txt",
    },
}


@dataclass(frozen=True)
class PromptValues:
    """What the prompts of one ask are filled with; texts are one line per entry, cleaned by the game."""

    agent_id: str
    round: int
    max_rounds: int
    value_min: int
    value_max: int
    initial_value: int | None  # None for Byzantine agents, whose prompts have no place for it
    current_value: int | None
    history: str  # earlier rounds, or "" in round 1
    this_round: str  # the proposals of this round, for votes
    notes: str  # the agent's own private notes, or ""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What one agent told the others in one round; `value` is None when it was silent.

    `peer_values` are the peers that were told another value, or None, each with what it was told.
    """

    agent: str
    value: int | None
    justification: str = ""
    peer_values: Mapping[str, int | None] = field(default_factory=dict)


def proposals_text(agent: str, proposals: Sequence[Proposal]) -> str:
    """Return one line per proposal as `agent` sees it; the reason is quoted, so that it cannot forge a line's end."""
    lines = []
    for proposal in proposals:
        you = " (you)" if proposal.agent == agent else ""
        if proposal.value is None:
            lines.append(f"  {proposal.agent}{you}: (no proposal)")
            continue
        lines.append(f"  {proposal.agent}{you}: {proposal.value} | Reasoning: {_quote(proposal.justification)}")
    return "\n".join(lines)


_quote = json.JSONEncoder(ensure_ascii=False).encode


def _current_value(values: PromptValues) -> str:
    if values.current_value is None:
        return "You have not proposed a value yet"
    return f"Your current value: {values.current_value}"


_NO_HISTORY = "(This is round 1 - no previous history)"

_EXPRESSIONS: Mapping[str, Callable[[PromptValues], str]] = {
    "{agent_id}": lambda v: v.agent_id,
    "{self.agent_id}": lambda v: v.agent_id,
    "{current_round}": lambda v: str(v.round),
    "{max_rounds}": lambda v: str(v.max_rounds),
    "{value_min}": lambda v: str(v.value_min),
    "{value_max}": lambda v: str(v.value_max),
    "{int(self.initial_value)}": lambda v: str(v.initial_value),
    '{f"Your current value: {int(self.my_value)}" if self.my_value is not None'
    ' else "You have not proposed a value yet"}': _current_value,
    "{history_summary}": lambda v: v.history or "(No history yet)",
    '{history_summary if history_summary and "(No history" not in history_summary'
    ' else "(This is round 1 - no previous history)"}': lambda v: v.history or _NO_HISTORY,
    '{history_summary if history_summary and "(No history)" not in history_summary'
    ' else "(This is round 1 - no previous history)"}': lambda v: v.history or _NO_HISTORY,
    "{current_round_summary}": lambda v: v.this_round,
    '{previous_strategies if previous_strategies else "(No notes yet)"}': lambda v: v.notes or "(No notes yet)",
    '{previous_strategies if previous_strategies else "(No notes)"}': lambda v: v.notes or "(No notes)",
}
_PATTERN = re.compile("|".join(re.escape(e) for e in sorted(_EXPRESSIONS, key=len, reverse=True)))


@cache
def template(prompt: str, role: str, phase: str, part: str) -> str:
    """Return the unrendered text of one prompt; raises UsageError for an unknown one."""
    try:
        path = PROMPTS[prompt][f"{role}_{phase}_{part}"]
    except KeyError:
        known = sorted({name.rsplit("_", 2)[0] for name in next(iter(PROMPTS.values()))})
        raise UsageError(
            f"no prompt for {prompt}, {role}, {phase}, {part}; prompts: {', '.join(PROMPTS)}; roles: "
            f"{', '.join(known)}; phases: propose, vote, turn (the swarms protocol); parts: system, user"
        ) from None
    return path.read_text(encoding="utf-8").rstrip("\n")


def reply_kind(role: str, phase: str) -> str:
    """Return the kind of a reply (parley.games.reply_instructions)."""
    return f"consensus_{role}_{phase}"


def reply_templates(phases: Sequence[str], reply_format: ReplyFormat) -> dict[str, Path]:
    """Return the files that tell of replies in a format other than the paper's JSON, by role, phase and part."""
    if reply_format == "json":
        return {}
    return {
        f"{role}_reply_{phase}_{part}": path
        for role in ("honest", BYZANTINE)
        for phase in phases
        for part, path in instruction_files(reply_kind(role, phase), reply_format).items()
    }


def in_format(printed: str, role: str, phase: str, part: str, reply_format: ReplyFormat) -> str:
    """Return a printed prompt for a reply format: what asks for JSON gives way to the format's own instruction.

    In JSON it stays as printed. The part `follow_up` is the second prompt of two steps; of other formats it is "".
    """
    if part == "follow_up":
        return "" if reply_format == "json" else instruction(reply_kind(role, phase), reply_format).follow_up
    if reply_format == "json":
        return printed
    told = f"\n{instruction(reply_kind(role, phase), reply_format).reply}" if part == "user" else ""
    return without_json(printed) + told


def render(
    prompt: str, role: str, phase: str, part: str, values: PromptValues, reply_format: ReplyFormat = "json"
) -> str:
    """Return one prompt as an agent receives it; each expression is replaced once, in one pass."""
    printed = template(prompt, role, phase, "user" if part == "follow_up" else part)
    text = in_format(printed, role, phase, part, reply_format)
    return _PATTERN.sub(lambda match: _EXPRESSIONS[match.group(0)](values), text)


def check_given(given: Mapping[str, int | str | None]) -> None:
    """Raise UsageError if the values that a user gave for a sample contradict each other."""
    number = int(given["round_number"] or 0)
    if number < 1:
        raise UsageError(f"--round {number} is before the first, 1")
    if number > int(given["max_rounds"] or 1):
        raise UsageError(f"--round {number} is after the last, --max-rounds {given['max_rounds']}")
    if int(given["value_min"] or 0) > int(given["value_max"] or 0):
        raise UsageError(f"--value-min {given['value_min']} is above --value-max {given['value_max']}")


_ROUND = ("round_number", "max_rounds")
_HELD = ("current_value", "initial_value")
# What a user may set of a sample, by what stands in an expression that depends on it.
_SET_BY: Mapping[str, tuple[str, ...]] = {
    "agent_id": ("agent_id",),
    "current_round}": _ROUND,
    "max_rounds": ("max_rounds",),
    "value_min": ("value_min",),
    "value_max": ("value_max",),
    "initial_value": ("initial_value",),
    "my_value": _HELD,
    "history_summary": (*_ROUND, "agent_id", *_HELD),
    "current_round_summary": ("agent_id", *_HELD),
    "previous_strategies": _ROUND,
}


def sample_values(prompt: str, role: str, phase: str, part: str) -> frozenset[str]:
    """Return the names of the values that a sample of this prompt depends on."""
    expressions = _PATTERN.findall(template(prompt, role, phase, part))
    found = {name for key, names in _SET_BY.items() if any(key in text for text in expressions) for name in names}
    return frozenset(found - ({"initial_value"} if role == BYZANTINE else set()))


def sample(prompt: str, role: str, phase: str, part: str, given: Mapping[str, int | str | None]) -> str:
    """Return one prompt filled with sample values, some of which are `given` (for `parley prompts`)."""
    check_given(given)
    number = int(given["round_number"] or 1)
    agent = str(given["agent_id"])
    initial = given["initial_value"] if role == "honest" else None
    current = given["current_value"] if given["current_value"] is not None else initial
    own = Proposal(agent, None if current is None else int(current), "This is close to what most of us said.")
    peer = Proposal("agent_2" if agent != "agent_2" else "agent_1", 23, "A value in the middle suits all of us.")
    peers = proposals_text(agent, [own, peer])
    values = PromptValues(
        agent_id=agent,
        round=number,
        max_rounds=int(given["max_rounds"] or 1),
        value_min=int(given["value_min"] or 0),
        value_max=int(given["value_max"] or 0),
        initial_value=None if initial is None else int(initial),
        current_value=None if current is None else int(current),
        history=f"Round {number - 1}:\n{peers}" if number > 1 else "",
        this_round=peers if phase == "vote" else "",
        notes=f"Round {number - 1}: Most agents are close to 20." if number > 1 else "",
    )
    reply_format: ReplyFormat = given.get("reply_format") or "json"  # type: ignore[assignment]
    return render(prompt, role, phase, part, values, reply_format)
