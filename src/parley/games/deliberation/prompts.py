"""The prompts of the deliberation game. The paper prints none: these are Parley's own, after its Algorithms 1 and 2.

Their placeholders are replaced once, in one pass, by values that were worked out beforehand; nothing is ever
evaluated.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from parley.errors import UsageError
from parley.games.base import BYZANTINE, HONEST
from parley.games.deliberation.state import Answer, Value
from parley.games.problems.problem import Problem
from parley.games.reply_instructions import Instruction, instruction, instruction_files
from parley.policies import ReplyFormat
from parley.text import one_line

FOLDER = Path(__file__).parent / "templates"
PHASES = ("initial", "reflect")
STYLES = ("cot", "zero_shot", "reflect")  # the first two are those of the initial round


def _variant(reflect: str) -> dict[str, Path]:
    users = {"cot_user": "cot_user", "zero_shot_user": "zero_shot_user", "reflect_user": reflect}
    return {
        f"{role}_{name}": FOLDER / f"{file}.txt"
        for role in (HONEST, BYZANTINE)
        for name, file in {"system": f"{role}_system", **users}.items()
    }


# What an agent is told to do with the answers of others: to improve its own, or to be slow to give it up.
PROMPTS: Mapping[str, Mapping[str, Path]] = {
    "improve": _variant("reflect_improve_user"),
    "skeptical": _variant("reflect_skeptical_user"),
}


@dataclass(frozen=True)
class PromptValues:
    """What the prompts of one ask are filled with."""

    agent: str
    agents: int  # of the panel
    turn: int
    turns: int
    problem: Problem
    own: Answer | None
    heard: Sequence[Answer]
    target: Value | None
    shown_chars: int
    reply: str  # what is said of the form of the reply


_FORMS = {
    "number": "The answer is one number.",
    "cards": "The answer names the cards, separated by commas.",
    "policies": "The answer lists the policies that you support, each word for word as it stands here:\n{options}",
}
_NO_ANSWER = "(no answer)"


def answer_text(answer: Answer, name: str, chars: int) -> str:
    """Return one line for one answer; words of agents are quoted, so that they cannot forge a line's end."""
    if answer.silent:
        return f"  {name}: {_NO_ANSWER}"
    why = json.dumps(one_line(answer.argument, chars), ensure_ascii=False)
    return f"  {name}: {json.dumps(answer.said, ensure_ascii=False)} | Argument: {why}"


def value_text(value: Value | None) -> str:
    """Return a value in normal form as an agent would write it."""
    return "; ".join(value) if isinstance(value, tuple) else str(value)


def _form(problem: Problem) -> str:
    options = "\n".join(f"- {one_line(option)}" for option in problem.options)
    return _FORMS[problem.kind].replace("{options}", options)


def _kind(style: str, definitive: bool) -> str:
    """Return the kind of a reply (parley.games.reply_instructions), by what is asked for and in which order."""
    order = "zero_shot" if style == "zero_shot" else "reasoned"
    return f"deliberation_{order}" if definitive else f"deliberation_{order}_policies"


def format_of(style: str, reply_format: ReplyFormat) -> ReplyFormat:
    """Return how the reply to a style is asked for: an answer before its argument is no second step after a first."""
    return "json" if style == "zero_shot" and reply_format == "two_steps" else reply_format


def told_reply(style: str, definitive: bool, reply_format: ReplyFormat) -> Instruction:
    """Return what is said of the form of the reply to a style, on problems that have a right answer or not."""
    return instruction(_kind(style, definitive), format_of(style, reply_format))


def templates(prompt: str, definitive: bool, reply_format: ReplyFormat) -> Mapping[str, Path]:
    """Return the files that are sent, by name; raises KeyError for an unknown prompt."""
    replies = {
        f"{role}_reply_{_kind(style, definitive)}_{part}": path
        for role in (HONEST, BYZANTINE)
        for style in STYLES
        for part, path in instruction_files(_kind(style, definitive), format_of(style, reply_format)).items()
    }
    return {**PROMPTS[prompt], **replies}


_PLACEHOLDER = re.compile(r"\{(agent|agents|turn|turns|problem|form|own|heard|target|reply)\}")


def template(prompt: str, role: str, style: str, part: str) -> str:
    """Return the unrendered text of one prompt; raises UsageError for an unknown one."""
    name = f"{role}_system" if part == "system" else f"{role}_{style}_user"
    try:
        path = PROMPTS[prompt][name]
    except KeyError:
        path = None
    if path is None or style not in STYLES:
        raise UsageError(
            f"no prompt for {prompt}, {role}, {style}, {part}; prompts: {', '.join(PROMPTS)}; roles: {HONEST}, "
            f"{BYZANTINE}; phases: {', '.join(STYLES)}; parts: system, user"
        )
    return _text(path)


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8").rstrip("\n")


def render(prompt: str, role: str, style: str, part: str, values: PromptValues) -> str:
    """Return one prompt as an agent receives it."""
    filled = {
        "agent": lambda: values.agent,
        "agents": lambda: str(values.agents),
        "turn": lambda: str(values.turn),
        "turns": lambda: str(values.turns),
        "problem": lambda: values.problem.question,
        "form": lambda: _form(values.problem),
        "own": lambda: (
            answer_text(values.own, "you", values.shown_chars) if values.own is not None else f"  you: {_NO_ANSWER}"
        ),
        "heard": lambda: (
            "\n".join(answer_text(answer, answer.agent, values.shown_chars) for answer in values.heard)
            or "  (nobody's answer reached you)"
        ),
        "target": lambda: value_text(values.target),
        "reply": lambda: values.reply,
    }
    return _PLACEHOLDER.sub(lambda match: filled[match[1]](), template(prompt, role, style, part))


def sample(
    prompt: str, role: str, style: str, part: str, problem: Problem, target: Value, reply_format: ReplyFormat
) -> str:
    """Return one prompt filled with sample values (for `parley prompts`)."""
    value = problem.answer or "; ".join(problem.options[:1])
    own = Answer("agent_1", value, value, "I worked it out step by step.")
    peers = [
        Answer("agent_2", value_text(target), value_text(target), "I read the question another way."),
        Answer("agent_3", None, silent=True),
    ]
    pushed = target if role == BYZANTINE else None
    reply = told_reply(style, problem.definitive, reply_format).reply
    values = PromptValues("agent_1", 3, 1, 2, problem, own, peers, pushed, 300, reply)
    return render(prompt, role, style, part, values)
