"""The prompts of the stag hunt: Parley's own words, after the fragments in the paper's appendix A.

Their placeholders are replaced once, in one pass, by values that were worked out beforehand; nothing is ever
evaluated. Each piece of the rules is a file, so that the identity of a simulation has those that were sent.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from parley.errors import UsageError
from parley.games.base import BYZANTINE, HONEST
from parley.games.reply_instructions import Instruction, instruction, instruction_files
from parley.games.stag_hunt.parameters import ALL, StagHuntParameters
from parley.games.stag_hunt.state import HARE, STAG, YOU, Action, Seen
from parley.policies import ReplyFormat

FOLDER = Path(__file__).parent / "templates"
PHASES = ("signal", "act")
PLAIN = "plain"
_REPLIES = {phase: f"stag_hunt_{phase}" for phase in PHASES}  # kinds of replies (parley.games.reply_instructions)
_ROLES = (HONEST, BYZANTINE)
_ALL_FILES = {f"{role}_{path.stem}": path for role in _ROLES for path in sorted(FOLDER.glob("*.txt"))}
PROMPTS: Mapping[str, Mapping[str, Path]] = {PLAIN: _ALL_FILES}

_ACTIONS: Mapping[Action | None, str] = {STAG: STAG, HARE: HARE, None: "(no action)"}


@dataclass(frozen=True)
class PromptValues:
    """What the prompts of one ask are filled with: `players` in all, those that this one sees, and what it saw.

    `history` has the rounds that are shown, each as `round_text` tells it. `words` are those of this round, by the
    names that this player knows.
    """

    players: int
    seen: Sequence[str]
    history: Sequence[str]
    round: int
    words: Mapping[str, str | None]


def _names(parameters: StagHuntParameters) -> list[str]:
    """Return the templates that are sent with these parameters, without their role."""
    talk = ["talk", "signal_user", "act_after_words_user"] if parameters.cheap_talk else ["act_user"]
    return [
        "system",
        "players_untold" if parameters.disclosure == "silent" else "players_told",
        "payoffs_all" if parameters.needed == ALL else "payoffs_some",
        *talk,
        *(["visibility", "seen_some", "seen_nobody"] if parameters.disclosure == "explicit" else []),
    ]


def templates(prompt: str, parameters: StagHuntParameters) -> Mapping[str, Path]:
    """Return the files of the templates that are sent, by name; raises KeyError for an unknown prompt."""
    names = [f"{role}_{name}" for role in _ROLES for name in _names(parameters)]
    replies = {
        f"{role}_reply_{phase}_{part}": path
        for role in _ROLES
        for phase in PHASES
        if phase == "act" or parameters.cheap_talk
        for part, path in instruction_files(_REPLIES[phase], parameters.reply_format).items()
    }
    return {name: PROMPTS[prompt][name] for name in [*names, f"{BYZANTINE}_byzantine_aim"]} | replies


def told_reply(phase: str, reply_format: ReplyFormat) -> Instruction:
    """Return what is said of the form of the reply in a phase."""
    return instruction(_REPLIES[phase], reply_format)


def template(prompt: str, role: str, phase: str, part: str) -> str:
    """Return the unrendered text of one prompt; raises UsageError for an unknown one."""
    if prompt not in PROMPTS or role not in _ROLES or phase not in PHASES or part not in ("system", "user"):
        raise UsageError(
            f"no prompt for {prompt}, {role}, {phase}, {part}; prompts: {', '.join(PROMPTS)}; roles: "
            f"{', '.join(_ROLES)}; phases: {', '.join(PHASES)}; parts: system, user"
        )
    users = {"signal": "signal_user", "act": "act_after_words_user"}
    return _text("system" if part == "system" else users[phase])


@cache
def _text(name: str) -> str:
    return (FOLDER / f"{name}.txt").read_text(encoding="utf-8").rstrip("\n")


_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


def _filled(name: str, values: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda match: values[match[1]], _text(name))


def render_system(role: str, parameters: StagHuntParameters, values: PromptValues) -> str:
    """Return the system prompt: the rules, and what is told of who sees whom."""
    p, told = parameters, set(_names(parameters))
    silent = p.disclosure == "silent"
    numbers = {
        "n": str(values.players),
        "counted": "" if silent else f"{values.players} ",
        "needed": p.needed,
        "stag": str(p.stag),
        "alone": str(p.alone),
        "hare": str(p.hare),
        "seen_things": "words and actions" if p.cheap_talk else "actions",
        "seen": ", ".join(values.seen),
        "unseen": str(values.players - 1 - len(values.seen)),
    }
    numbers["seen_by_you"] = _filled("seen_some" if values.seen else "seen_nobody", numbers)
    pieces = {
        "players": _filled("players_untold" if silent else "players_told", numbers),
        "payoffs": _filled("payoffs_all" if p.needed == ALL else "payoffs_some", numbers),
        "talk": "\n" + _filled("talk", numbers) if "talk" in told else "",
        "visibility": "\n" + _filled("visibility", numbers) if "visibility" in told else "",
        "aim": "\n" + _filled("byzantine_aim", numbers) if role == BYZANTINE else "",
    }
    return _filled("system", pieces)


def render_user(phase: str, parameters: StagHuntParameters, values: PromptValues, reply: str) -> str:
    """Return the user prompt of a phase: what was seen, the task, and what is said of the `reply`."""
    words = "\n".join(f"  {name}: {_word(word)}" for name, word in values.words.items())
    name = "signal_user" if phase == "signal" else "act_after_words_user" if parameters.cheap_talk else "act_user"
    return _filled(name, {"history": _history(values), "words": words, "reply": reply})


def _history(values: PromptValues) -> str:
    """Return the rounds that are shown, the first one first: what is shown stays as it was as rounds are added."""
    if values.round == 1:
        return "(this is the first round)"
    if not values.history:
        return "(earlier rounds are not shown)"
    return "\n".join(values.history)


def round_text(seen: Seen) -> str:
    """Return what a prompt's history tells of one round."""
    lines = [f"Round {seen.number}:"]
    for name, action in seen.actions.items():
        word = f"{_word(seen.words[name])}, then " if seen.words else ""
        points = f" ({seen.points} points)" if name == YOU and seen.points is not None else ""
        lines.append(f"  {name}: {word}{_ACTIONS[action]}{points}")
    return "\n".join(lines)


def _word(word: str | None) -> str:
    return "(no word)" if word is None else json.dumps(word, ensure_ascii=False)


def sample(role: str, phase: str, part: str, reply_format: ReplyFormat) -> str:
    """Return one prompt of the default game filled with sample values (for `parley prompts`)."""
    others = ("player_1", "player_2", "player_3")
    names = (YOU, *others)
    actions: dict[str, Action | None] = {**dict.fromkeys(names, STAG), others[2]: HARE}
    words: dict[str, str | None] = {**dict.fromkeys(names, "stag"), others[0]: "together"}
    values = PromptValues(4, others, [round_text(Seen(1, words, actions, None))], 2, words if phase == "act" else {})
    parameters = StagHuntParameters()
    if part == "system":
        return render_system(role, parameters, values)
    return render_user(phase, parameters, values, told_reply(phase, reply_format).reply)
