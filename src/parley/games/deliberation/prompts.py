"""The prompts of the deliberation game: Parley's own, after Algorithms 1 and 2 of the paper, which prints none."""

import json
from collections.abc import Mapping, Sequence
from itertools import repeat
from pathlib import Path

from parley.games.deliberation.ballots import BALLOT, OUTSIDER, kind_of, style_of
from parley.games.deliberation.parameters import (
    ANOTHER_PROBLEM,
    DeliberationParameters,
    DeliberationView,
    Said,
    value_text,
)
from parley.games.filters import SCORE, SCORED, files_of_filter
from parley.games.parameters import HONEST, ROLES
from parley.games.problems.problem import Problem, letters
from parley.games.prompts import Prompts, Template, files_of_replies, fill, for_roles, text_of
from parley.policies import ReplyFormat
from parley.text import one_line

FOLDER = Path(__file__).parent / "templates"
STYLES = ("cot", "zero_shot", "reflect")  # the first two are those of the initial round
OF_POLICIES = "_policies"  # ends the names of prompts on prioritized problems, which have no right answer
ALONE = "_alone"  # ends those of agents that hear nobody, and know it
_OF_ANOTHER = f"_{ANOTHER_PROBLEM}"  # ends those of agents that hear of another problem, and know it


def _variant(name: str) -> dict[str, Path]:
    files = {}

    def add(role: str, style: str, system: str, user: str) -> None:
        files[f"{role}_{style}_system"] = FOLDER / f"{system}_system.txt"
        files[f"{role}_{style}_user"] = FOLDER / f"{user}_user.txt"

    for role in ROLES:
        for kind in ("", OF_POLICIES):
            asked = {**{style: style + kind for style in STYLES}, "reflect": f"reflect_{name}{kind}", BALLOT: BALLOT}
            for style, user in ({**asked, SCORE: SCORE} if role == HONEST else asked).items():
                add(role, style + kind, role + kind, user)
            add(role, OUTSIDER + kind, f"{role}_{OUTSIDER}", OUTSIDER)
        for style, user in {**{style: style for style in STYLES}, "reflect": f"reflect_{name}{ALONE}"}.items():
            add(role, style + ALONE, role + ALONE, user)
        add(role, f"reflect{_OF_ANOTHER}", role, f"reflect_{name}{_OF_ANOTHER}")
    return files


_FORMS = {
    "number": "The answer is one number.",
    "choice": "The answer is the letter of one of these choices:\n{options}",
    "cards": "The answer names the cards, separated by commas.",
    "policies": "Name each policy that you support word for word as it stands here:\n{options}",
}
_DEALT, _OF_ALL = "What you know, which others may not know:", "What all of you know:"
CUT = " (cut here)"  # outside of the quotes, where no agent can write it


def answer_text(name: str, said: Said | None, chars: int | None = None, argued: bool = True) -> str:
    """Return one line for what an agent said, `argued` or bare.

    Words are quoted, and an argument of more than `chars` characters is cut and marked.
    """
    if said is None:
        return f"  {name}: (no answer)"
    answer = f"  {name}: {json.dumps(said['answer'], ensure_ascii=False)}"
    if not argued:
        return answer
    shown = one_line(said["argument"], chars)
    why = json.dumps(shown, ensure_ascii=False) + (CUT if shown != one_line(said["argument"]) else "")
    return f"{answer} | Argument: {why}"


def _task(vote: str) -> Path:
    return FOLDER / f"{kind_of(vote)}.txt"


def _form(problem: Problem) -> str:
    marks = [f"{letter})" for letter in letters(problem.options)] if problem.kind == "choice" else repeat("-")
    options = "\n".join(f"{mark} {one_line(option)}" for mark, option in zip(marks, problem.options, strict=False))
    return fill(_FORMS[problem.kind], {"options": options})


def reply_kind(style: str, definitive: bool) -> str:
    """Return the kind of a reply (parley.games.prompts), by what is asked for and in which order."""
    if style == SCORE or style.startswith(BALLOT):
        return style
    order = "zero_shot" if style == "zero_shot" else "reasoned"
    return f"deliberation_{order}" if definitive else f"deliberation_{order}_policies"


def prompt_of(style: str, p: DeliberationParameters) -> str:
    """Return the name of the prompt by which something is asked for."""
    if not p.definitive:
        return style + OF_POLICIES
    if p.hears == "nobody" and style in STYLES:
        return style + ALONE
    return style + _OF_ANOTHER if p.hears == ANOTHER_PROBLEM and style == "reflect" else style


def format_of(style: str, reply_format: ReplyFormat) -> ReplyFormat:
    """Return how the reply to a style is asked for: an answer before its argument is no second step after a first."""
    return "json" if style == "zero_shot" and reply_format == "two_steps" else reply_format


def places(
    p: DeliberationParameters,
    view: DeliberationView,
    facts: Sequence[str],
    agents: int,
    own: Said | None,
    heard: Mapping[str, Said | None],
    reply: str,
    another_problem: str,
) -> dict[str, object]:
    """Return what stands for each place of a template, with the last answers of the agent and of those it hears.

    `facts` are those of the problem that the agent holds; they stand below its question. What it hears is of the
    problem at hand, or of `another_problem`, its text ("" for none).
    """
    others = [answer_text(name, said, p.shown_chars, p.facts != "kept") for name, said in heard.items()]
    known = [_OF_ALL if p.facts == "all" else _DEALT, *(f"- {one_line(fact)}" for fact in facts)] if facts else []
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
        "task": text_of(_task(view.vote)) if view.vote else "",
        "reply": reply,
    }


# What an agent is told to do with the answers of others: to improve its own, or to be slow to give it up.
_VARIANTS = {"improve": _variant("improve"), "skeptical": _variant("skeptical")}


class DeliberationPrompts(Prompts[DeliberationParameters]):
    """Two variants, with the answers' form as the problems and the reply format want it."""

    variants = _VARIANTS
    phases = (
        *(style + kind for kind in ("", OF_POLICIES) for style in (*STYLES, SCORE, BALLOT, OUTSIDER)),
        *(*(style + ALONE for style in STYLES), f"reflect{_OF_ANOTHER}"),
    )

    def files(self, prompt: str, parameters: DeliberationParameters) -> Mapping[str, Template]:
        """Return the files that are sent with these problems, in this format."""
        vote = parameters.decision
        form = parameters.reply_format
        kinds = {reply_kind(style, parameters.definitive): format_of(style, form) for style in STYLES}
        told: dict[str, Template] = {**files_of_replies({f"reply_{kind}": (kind, of) for kind, of in kinds.items()})}
        scored, voted = parameters.filter.kind == SCORED, vote != "none"
        styles = (*STYLES, *[SCORE] * scored, *[style_of(vote)] * voted)
        asked = [prompt_of(style, parameters) for style in styles]
        names = {f"{role}_{each}_{part}" for role in ROLES for each in asked for part in ("system", "user")}
        sent = {name: path for name, path in self.templates(prompt).items() if name in names}
        if voted:
            told |= {**files_of_replies({BALLOT: (kind_of(vote), form)}), f"{BALLOT}_task": _task(vote)}
        return sent | for_roles(told) | files_of_filter(parameters)


PROMPTS = DeliberationPrompts()
