"""`parley prompts --against`: what one agent is sent in two conditions of a study, and where that differs.

Both games are played with the same seed up to a round, as `prompt_sent` does it. Two prompts are compared by the words
of their templates.
"""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from parley.errors import UsageError
from parley.games.base import Game
from parley.games.prompts import text_of
from parley.study import Study
from parley.study.condition import Condition, Simulation
from parley.study.prompt_sent import PARTS, asked, part_text
from parley.text import choose

REMOVED, ADDED = "red strike", "bold green"  # styles of words that went, and that came
_Sent = dict[tuple[int, str], dict[str, str]]


@dataclass(frozen=True)
class PromptDiff:
    """What `agent` is sent in the condition `where` and in the condition `against`.

    `differences` has the lines of a unified diff, none where both are identical, by round, phase and part.
    """

    where: Condition
    against: Condition
    agent: str
    differences: Mapping[tuple[int, str, str], Sequence[str]]

    def text(self) -> Iterator[str]:
        """Yield the lines that people read: "identical", or the difference, for each round, phase and part."""
        yield f"--- {self.where.name}"
        yield f"+++ {self.against.name}"
        yield f"{self.agent}, the same seed in both"
        for (number, phase, part), lines in self.differences.items():
            yield f"round {number}, {phase}, {part}:{'' if lines else ' identical'}"
            yield from (f"    {line}" for line in lines)


def prompt_diff(
    study: Study, where: Mapping[str, Any], against: Mapping[str, Any], role: str, seed: int, last_round: int
) -> PromptDiff:
    """Compare what an agent of `role` is sent up to `last_round` in two conditions of a study.

    The first condition that has the axes `where`, and of those that have the axes `against` the one that agrees with
    it in most others. Raises UsageError if there is none, or nobody of that role in both.
    """
    first = study.fitting(where)[0]
    candidates = [condition for condition in study.fitting(against) if condition is not first]
    if not candidates:
        raise UsageError(f"{study.file}: {first.name}: --where and --against choose the same condition; choose two")
    second = max(candidates, key=lambda other: sum(first.axes[axis] == value for axis, value in other.axes.items()))
    games = [Simulation(condition, seed).game() for condition in (first, second)]
    agent = _agent(games[0], games[1], role)
    sent = [_sent(game, agent, seed, last_round) for game in games]
    keys = sorted({key: None for found in sent for key in found}, key=lambda key: key[0])
    differences = {}
    for key in keys:
        for part in PARTS:
            one, other = (found.get(key, {}).get(part, "").splitlines() for found in sent)
            lines = difflib.unified_diff(one, other, lineterm="", n=1)
            differences[*key, part] = list(lines)[2:]  # without its header
    return PromptDiff(first, second, agent, differences)


def _agent(one: Game, other: Game, role: str) -> str:
    """Return the first agent that has this role in both games; one of another prompt in each, if there is one."""
    prompts = {seat.name: seat.prompt for seat in other.seats if seat.role == role}
    both = [seat for seat in one.seats if seat.role == role and seat.name in prompts]
    for seat in sorted(both, key=lambda seat: seat.prompt == prompts[seat.name]):
        return seat.name
    raise UsageError(f"no agent has the role {role} in both conditions; choose another --role, or other conditions")


def _sent(game: Game, agent: str, seed: int, last_round: int) -> _Sent:
    """Return what `agent` is sent in each round and phase up to `last_round`, by part."""
    return {
        (ask.round, ask.phase): {part: part_text(ask, part) for part in PARTS}
        for ask in asked(game, seed, last_round)
        if ask.agent == agent
    }


def word_diff(study: Study, one: str, other: str) -> Iterator[Text]:
    """Yield the lines with words in which two prompts differ, under the names of the templates that they are in.

    Compared is what the study sends to roles that have both in it. Raises UsageError for an unknown prompt.
    """
    prompts, own = study.game.prompts, study.own_prompts.by_name if study.own_prompts else {}
    known = {**prompts.variants, **{name: prompt.templates for name, prompt in own.items()}}
    for name in (one, other):
        if name not in known:
            raise UsageError(f"{study.file}: {name!r}: unknown prompt; {choose(name, known)}")
    everyone = {*study.game.roles}
    having = [{r for c in study.conditions for r in c.roles_by_prompt.get(name, ())} for name in (one, other)]
    both = set.intersection(*(roles or everyone for roles in having)) or everyone
    sent: set[str] = set()
    for condition in study.conditions:
        sent |= prompts.needed(condition.parameters, both & {group.role for group in condition.groups})
    named: dict[tuple[str, str], list[str]] = {}
    for name in sorted(sent):
        before, after = (text_of(known[prompt].get(name, "")) for prompt in (one, other))
        if before != after:
            named.setdefault((before, after), []).append(name)
    if not named:
        yield Text(f"{one} and {other} are identical in all that this study sends")
    for texts, names in named.items():
        yield Text(f"{', '.join(names)}:", "bold")
        yield from (Text("    ") + line for line in _changed_lines(*texts))


def _changed_lines(*texts: str) -> list[Text]:
    """Return the lines with changed words; what went and what came stand in brackets, as in `git diff --word-diff`."""
    printable = ("".join(c if c == "\n" or c.isprintable() else " " for c in text) for text in texts)
    old, new = (re.findall(r"\n|[^\S\n]+|\S+", text) for text in printable)
    words = Text()
    for kind, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            words.append("".join(old[a:b]))
            continue
        for style, left, right, changed in (
            (REMOVED, "[-", "-]", old[a:b]),
            (ADDED, "{+", "+}", new[c:d]),
        ):
            lines = "".join(changed).split("\n")
            words.append("\n".join(f"{left}{line}{right}" if line else "" for line in lines), style)
    return [line for line in words.split("\n") if line.spans and line.plain]
