"""The prompts of the deliberation game: Parley's own, after Algorithms 1 and 2 of the paper, which prints none."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from pathlib import Path

from parley.games.deliberation.parameters import (
    ANOTHER_PROBLEM,
    TALK,
    DeliberationParameters,
    DeliberationView,
    Said,
    value_text,
)
from parley.games.parameters import ROLES
from parley.games.problems.problem import Problem, letters
from parley.games.prompts import Phase, Prompts, fill
from parley.text import one_line

FOLDER = Path(__file__).parent / "templates"
STYLES = ("cot", "zero_shot", "reflect")  # the first two are those of the initial round
OF_POLICIES = "_policies"  # ends the names of prompts on prioritized problems, which have no right answer
ALONE = "_alone"  # ends those of agents that hear nobody, and know it
MESSAGE, VOTE = "message", "vote"  # where agents talk, what is asked for in a round of it, and after it
_OF_ANOTHER = f"_{ANOTHER_PROBLEM}"  # ends those of agents that hear of another problem, and know it


def _variant(name: str) -> dict[str, Path]:
    files = {}

    def add(role: str, style: str, system: str, user: str) -> None:
        files[f"{role}_{style}_system"] = FOLDER / f"{system}_system.txt"
        files[f"{role}_{style}_user"] = FOLDER / f"{user}_user.txt"

    for role in ROLES:
        for ending in ("", OF_POLICIES, ALONE):
            for style in STYLES[:2]:
                add(role, style + ending, role + ending, style + ending.replace(ALONE, ""))
            add(role, f"reflect{ending}", role + ending, f"reflect_{name}{ending}")
        for style in (*STYLES[:2], MESSAGE, VOTE):
            add(role, f"{style}_{TALK}", f"{role}_{TALK}", style)
        add(role, f"reflect{_OF_ANOTHER}", role, f"reflect_{name}{_OF_ANOTHER}")
    return files


_FORMS = {
    "number": "The answer is one number.",
    "choice": "The answer is the letter of one of these choices:\n{options}",
    "cards": "The answer names the cards, separated by commas.",
    "policies": "Name each policy that you support word for word as it stands here:\n{options}",
}
_DEALT, _OF_ALL = "What you know, which others may not know:", "What all of you know:"
_SHUFFLED = "What you know, in an order that means nothing:"
CUT = " (cut here)"  # outside of the quotes, where no agent can write it


def answer_text(name: str, said: Said | None, chars: int | None = None) -> str:
    """Return one line for what an agent said.

    Words are quoted, and an argument of more than `chars` characters is cut and marked.
    """
    if said is None:
        return f"  {name}: (no answer)"
    shown = one_line(said["argument"], chars)
    why = json.dumps(shown, ensure_ascii=False) + (CUT if shown != one_line(said["argument"]) else "")
    return f"  {name}: {json.dumps(said['answer'], ensure_ascii=False)} | Argument: {why}"


def transcript(talk: Sequence[Mapping[str, str | None]], agent: str, heard: Sequence[str], chars: int) -> str:
    """Return a line for each message that an agent heard or said itself, in the order in which they were said."""
    lines = []
    for messages in talk:
        for name in (each for each in messages if each in (agent, *heard)):
            text = messages[name]
            shown = "(no message)" if text is None else json.dumps(one_line(text, chars), ensure_ascii=False)
            lines.append(f"  {'you' if name == agent else name}: {shown}")
    return "\n".join(lines) or "  (nobody has spoken yet)"


def _form(problem: Problem) -> str:
    marks = [f"{letter})" for letter in letters(problem.options)] if problem.kind == "choice" else repeat("-")
    options = "\n".join(f"{mark} {one_line(option)}" for mark, option in zip(marks, problem.options, strict=False))
    return fill(_FORMS[problem.kind], {"options": options})


def phase_of(style: str, p: DeliberationParameters) -> Phase:
    """Return the phase in which something is asked for in a style; its reply is told of by kind and order."""
    if style == MESSAGE:
        system, user = f"{MESSAGE}_{TALK}_system", f"{MESSAGE}_{TALK}_user"
        told = "deliberation_message"
        return Phase(TALK, "reflect", system, user, reply=told, told=told, answers_first=True)
    prompt = style
    if not p.definitive:
        prompt += OF_POLICIES
    elif p.hears == "nobody":
        prompt += ALONE
    elif p.talk:
        prompt += f"_{TALK}"
    elif p.hears == ANOTHER_PROBLEM and style == "reflect":
        prompt += _OF_ANOTHER
    reply = f"deliberation_{'zero_shot' if style == 'zero_shot' else 'reasoned'}{'' if p.definitive else OF_POLICIES}"
    name = "reflect" if style == "reflect" else "initial"
    # An answer before its argument is no second step after a first.
    first = style == "zero_shot"
    system, user = f"{prompt}_system", f"{prompt}_user"
    return Phase(name, system=system, user=user, reply=reply, told=reply, answers_first=first)


def voted_after(phase: Phase) -> Phase:
    """Return the phase of a first answer as it is asked for again after talking."""
    return replace(phase, name="reflect", user=f"{VOTE}_{TALK}_user")


def places(
    p: DeliberationParameters,
    view: DeliberationView,
    facts: Sequence[str],
    agents: int,
    own: Said | None,
    heard: Mapping[str, Said | None],
    another_problem: str,
) -> dict[str, object]:
    """Return what stands for each place of a template, with the last answers of the agent and of those it hears.

    `facts` are those of the problem that the agent holds; they stand below its question. What it hears is of the
    problem at hand, or of `another_problem`, its text ("" for none).
    """
    others = [answer_text(name, said, p.shown_chars) for name, said in heard.items()]
    heading = _SHUFFLED if view.problem.shared else _OF_ALL if p.facts == "all" else _DEALT
    known = [heading, *(f"- {one_line(fact)}" for fact in facts)] if facts else []
    return {
        "agent": view.agent,
        "agents": agents,
        "turn": view.turn,
        "turns": p.turns,
        "problem": "\n".join([view.problem.question, *known]),
        "another_problem": another_problem,
        "form": _form(view.problem),
        "own": answer_text("you", own),
        "heard": "\n".join(others) or "  (nobody's answer reached you)",
        "target": view.target and value_text(view.target),
    }


# What an agent is told to do with the answers of others: to improve its own, or to be slow to give it up.
_VARIANTS = {"improve": _variant("improve"), "skeptical": _variant("skeptical")}


class DeliberationPrompts(Prompts[DeliberationParameters]):
    """Two variants, with the answers' form as the problems and the reply format want it."""

    variants = _VARIANTS

    def asked(self, parameters: DeliberationParameters) -> Sequence[Phase]:
        """Return what is asked about these problems: first answers in two styles, and later ones."""
        if parameters.talk:
            voted = [voted_after(phase_of(style, parameters)) for style in STYLES[:2]]
            return [*(phase_of(style, parameters) for style in (*STYLES[:2], MESSAGE)), *voted]
        return [phase_of(style, parameters) for style in STYLES]
