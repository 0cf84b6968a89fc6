"""The prompts of games: templates with places, which are data, and values that are filled in once.

Nothing in a template is ever evaluated, and nothing in a value is searched for places. What agents are told of the
form of their replies is in `reply_templates/`, in files that are named after kinds of replies: `json/` and `text/` end
a prompt of that reply format. With `two_steps`, `free.txt` ends the first prompt, and `then/` is the second.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Generic, TypeVar

from parley.errors import UsageError
from parley.files import read_regular
from parley.games.parameters import ROLES, P
from parley.policies import ReplyFormat
from parley.text import choose, meant
from parley.text.yamlfile import shown

REPLY_TEMPLATES = Path(__file__).parent / "reply_templates"
# A file with the text, or the text itself.
Template = Path | str
_T = TypeVar("_T", bound=Template)

_WORD = r"\{\w+\}"
# As printed prompts have them besides, Python and all: {f"Your value: {int(x)}" if x else "none"}.
_PRINTED_PLACE = re.compile(r"\{\w[^{}\n]*(?:\{[^{}\n]*\}[^{}\n]*)*\}")
_DOUBLED = {"{{": "{", "}}": "}"}


@cache
def content_of(template: Template) -> bytes:
    """Return what a template holds; a file is read once, so that what is sent is what was hashed."""
    return template.encode() if isinstance(template, str) else read_regular(template)


def text_of(template: Template) -> str:
    """Return the text of a template, without the line breaks at its end."""
    return content_of(template).decode().rstrip("\n")


def fill(text: str, values: Mapping[str, object], *, doubled: bool = False) -> str:
    """Return a template with its places replaced, in one pass: values are never searched. KeyError for no key."""
    pieces = _split(text, tuple(values), doubled).copy()
    pieces[1::2] = [_DOUBLED.get(place) or str(values[place[1:-1]]) for place in pieces[1::2]]
    return "".join(pieces)


@lru_cache(1000)  # a template is filled for each agent in each round
def _split(text: str, names: tuple[str, ...], doubled: bool) -> list[str]:
    return _places(names, doubled).split(text)


@cache
def _places(names: tuple[str, ...], doubled: bool) -> re.Pattern[str]:
    known = [re.escape(f"{{{name}}}") for name in sorted(names, key=len, reverse=True)]
    return re.compile(f"({'|'.join([*(map(re.escape, _DOUBLED) if doubled else ()), *known, _WORD])})")


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
# The same, and how other templates begin to ask for a form.
_ASKS_FOR_FORM = (*_ASKS_FOR_JSON, "You MUST provide your final answer in the following JSON format", "{reply}")


@dataclass(frozen=True)
class Instruction:
    """What ends a prompt, and the prompt of the second step where there is one ("" where not)."""

    reply: str = ""
    follow_up: str = ""


def for_roles(files: Mapping[str, _T], roles: Iterable[str] = ROLES) -> dict[str, _T]:
    """Return what agents of each of `roles` are sent, named after the role."""
    return {f"{role}_{name}": template for role in roles for name, template in files.items()}


@dataclass(frozen=True)
class Phase:
    """A question that a game asks: all that agents are sent in it, and how their replies are sampled.

    `system` and `user` are the names of its templates without the role, by default those of the phase, or `system` and
    `user` alone. `pieces` are other templates that it needs, with the role where other roles are not sent them. Where
    no phase of a game names any, agents are sent all templates of their prompt.
    """

    name: str
    sampling: str = ""  # the parameter that samples it; "": it is called like the phase
    system: str = ""
    user: str = ""
    pieces: tuple[str, ...] = ()
    roles: tuple[str, ...] = ROLES
    reply: str = ""  # the kind of its reply, where {role} is the role; "": the prompts themselves ask for a form
    told: str = ""  # what identities call the text on its reply; "": the phase
    prints_json: bool = False  # whether the prompts themselves ask for a reply in JSON
    answers_first: bool = False  # then no step comes before the answer
    doubled: bool = False  # whether its prompts have doubled braces, as in Python's str.format

    def templates(self, part: str) -> list[str]:
        """Return what the template of a part may be called, without the role."""
        return [{"system": self.system, "user": self.user}[part] or f"{self.name}_{part}", part]

    def sampled_by(self) -> str:
        """Return the name of the parameter that says how its replies are sampled."""
        return self.sampling or self.name

    def written(self, reply_format: ReplyFormat) -> ReplyFormat:
        """Return how its replies are written if those of the game are written so."""
        return "json" if self.answers_first and reply_format == "two_steps" else reply_format

    def form_files(self, role: str, reply_format: ReplyFormat) -> Mapping[str, Path]:
        """Return the files that tell a role of its reply, by part; none where the prompts do."""
        written = self.written(reply_format)
        if not self.reply or (self.prints_json and written == "json"):
            return {}
        file = f"{self.reply.format(role=role)}.txt"
        if written == "two_steps":
            return {"free": REPLY_TEMPLATES / "free.txt", "then": REPLY_TEMPLATES / "then" / file}
        return {written: REPLY_TEMPLATES / written / file}

    def form(self, role: str, reply_format: ReplyFormat) -> Instruction:
        """Return what is said to a role of its reply."""
        return Instruction(*map(text_of, self.form_files(role, reply_format).values()))


def without_json(printed: str) -> str:
    """Return a prompt that was printed for JSON without what asks for it, up to its end; its language stays."""
    places = [place for text in _ASKS_FOR_JSON if (place := printed.find(text)) >= 0]
    at = min(places, default=len(printed))
    return printed[:at].rstrip() + (f"\n{_IN_ENGLISH}" if _IN_ENGLISH in printed[at:] else "")


class OwnPrompt(str):
    """The name of a prompt that a study brings, with its templates by the names of the game's own."""

    templates: Mapping[str, Template]

    def __new__(cls, name: str, templates: Mapping[str, Template] = MappingProxyType({})) -> "OwnPrompt":
        """`templates` have to be checked (`Prompts.own`)."""
        prompt = super().__new__(cls, name)
        prompt.templates = dict(templates)
        return prompt


def appended(text: str, line: str) -> str:
    """Return a template with one more line at its end, but before what asks for a form of the reply."""
    places = [at for mark in _ASKS_FOR_FORM if (at := text.find(mark)) >= 0]
    at = text.rfind("\n", 0, min(places)) if places else len(text)
    before = text[:at].rstrip("\n") if at > 0 else text
    return f"{before}\n{line}{text[len(before) :]}"


class Prompts(Generic[P]):
    """The prompts of a game; all of it has a default, for a game that makes its prompts by itself.

    `variants` are the prompts that a study may choose, each with its templates by name: `ROLE_PHASE_PART`, or
    `ROLE_PART` for all phases, where the part is `system` or `user`. Whatever is sent besides is named after its role,
    too.
    """

    variants: Mapping[str, Mapping[str, Template]] = {"plain": {}}
    parts: Mapping[str, str] = {}  # "system" or "user" of templates whose names do not end with the part
    # By an expression that a printed prompt has in braces, what people write there.
    plain: Mapping[str, str] = {}
    phases: tuple[Phase, ...] = ()  # all that is asked

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the variants."""
        return iter(self.variants)

    def asked(self, parameters: P) -> Sequence[Phase]:
        """Return the phases of a game with these parameters."""
        return self.phases

    def besides(self, parameters: P) -> Mapping[str, Template]:
        """Return what agents are sent besides the templates of a prompt, by role and name."""
        return {}

    def files(self, prompt: str, parameters: P) -> Mapping[str, Template]:
        """Return all that agents are sent, by role and name; raises KeyError for an unknown prompt."""
        phases = self.asked(parameters)
        named = {name for phase in phases for name in (phase.system, phase.user, *phase.pieces) if name}
        forms = {
            f"{role}_reply_{phase.told or phase.name}_{part}": path
            for phase in phases
            for role in phase.roles
            for part, path in phase.form_files(role, parameters.reply_format).items()
        }
        templates = self.templates(prompt)
        if named:
            templates = {name: of for name, of in templates.items() if {name, name.partition("_")[2]} & named}
        return {**templates, **forms, **self.besides(parameters)}

    def sent(self, prompt: str, role: str, parameters: P) -> dict[str, str]:
        """Return the texts that agents of a role are sent, by their names without the role."""
        files, own = self.files(prompt, parameters), f"{role}_"
        return {name.removeprefix(own): text_of(of) for name, of in files.items() if name.startswith(own)}

    def templates(self, prompt: str) -> Mapping[str, Template]:
        """Return the templates of a prompt, its own if it carries some; raises KeyError for an unknown prompt."""
        return prompt.templates if isinstance(prompt, OwnPrompt) else self.variants[prompt]

    def places(self, name: str) -> list[str]:
        """Return the places that a template of this name may have, by their plain names: those of the shipped ones."""
        texts = [text_of(templates[name]) for templates in self.variants.values() if name in templates]
        printed = (place[1:-1] for text in texts for place in _PRINTED_PLACE.findall(text))
        return list(dict.fromkeys(self.plain.get(place, place) for place in printed))

    def own(self, name: str, templates: Mapping[str, Template], where: str = "", ending: str = "") -> OwnPrompt:
        """Return a prompt with these templates as texts; raises UsageError, with the line, for what cannot be filled.

        A template is named there as it is called, between `where` and `ending`.
        """
        texts = {template: text_of(written) for template, written in templates.items()}
        variants = chain.from_iterable(variant.items() for variant in self.variants.values())
        shipped = {template: text_of(written) for template, written in variants}
        for template, text in texts.items():
            named = f"{where}{template}{ending}"
            if template not in shipped:
                raise UsageError(f"{named}: no template of the game; {choose(template, shipped)}")
            known = self.places(template)
            allowed = (*known, *self.plain)
            # As `fill` finds them; what is no word is text to it, and here a slip if it is almost a place.
            for match in [*_places(allowed, False).finditer(text), *_PRINTED_PLACE.finditer(text)]:
                place, line = match[0][1:-1], text.count("\n", 0, match.start()) + 1
                if place not in allowed and (re.fullmatch(_WORD, match[0]) or meant(place, allowed)):
                    remedy = choose(place, known)
                    raise UsageError(f"{named}, line {line}: {shown(match[0])}: no place of this template; {remedy}")
            marks = [mark for mark in _ASKS_FOR_FORM if mark in shipped[template]]
            if marks and not any(mark in text for mark in _ASKS_FOR_FORM):
                raise UsageError(f"{named}: lacks {marks[0]!r}, where the form of the reply is asked for; add it")
        return OwnPrompt(name, texts)

    def needed(self, parameters: P, roles: Collection[str]) -> set[str]:
        """Return the names of the templates that every variant sends to agents of `roles`."""
        sent = [set(self.files(prompt, parameters)).intersection(self.variants[prompt]) for prompt in self.variants]
        own = tuple(f"{role}_" for role in roles)
        return {name for name in set.intersection(*sent) if name.startswith(own)}

    def digests(
        self, prompt: str, roles: Iterable[str], parameters: P, scripted: Collection[str] = ()
    ) -> dict[str, str]:
        """Return the SHA-256 of the templates that agents of `roles` are sent: part of a simulation's identity."""
        return {
            name: hashlib.sha256(content_of(template)).hexdigest()
            for name, template in sorted(self.files(prompt, parameters).items())
            if name.startswith(tuple(f"{role}_" for role in roles))
        }
