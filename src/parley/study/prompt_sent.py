"""`parley prompts`: what one agent is sent in a condition of a study, or of a game with default parameters.

The game is played with a seed up to what is asked for. Scripted agents answer as they do; for models, and code of the
user's own, the first scripted policy of the game that anyone may be played by answers.
"""

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from parley.errors import ParleyError, UsageError, located
from parley.games.base import Game
from parley.games.parameters import Seat
from parley.games.playing import playing
from parley.games.prompts import text_of
from parley.identity import stream
from parley.policies import BYTES_PER_TOKEN, Ask, Reply, estimated_tokens
from parley.policies.kinds import BY_MODEL, PolicyKind, Rule
from parley.policies.reply_text import FreeText, parse_reply, schema_of
from parley.study import Study
from parley.study.condition import Condition, Player, PlayerGroup, Simulation, axis_value
from parley.study.study_file import StudyFile
from parley.text import by_number, choose
from parley.text.yamlfile import check_known, validated

if TYPE_CHECKING:
    import numpy as np

PARTS = ("system", "user", "reply")  # the last one is what goes with the request: a JSON schema, or nothing
_FREELY = "(what the agent wrote in the first step)"


@dataclass(frozen=True)
class PromptQuery:
    """Which prompt: the first that fits. None for an agent, a round, a phase or a role is whichever comes first."""

    role: str | None
    agent: str | None = None
    round: int | None = None
    phase: str | None = None
    prompt: str | None = None

    def __str__(self) -> str:
        named = dict(sorted(vars(self).items(), reverse=True))
        return ", ".join(f"{name} {value}" for name, value in named.items() if value is not None)


@dataclass(frozen=True)
class PromptSent:
    """What an agent, played by `player`, is asked in a condition; `others` are conditions that were meant as well."""

    condition: Condition
    others: Sequence[Condition]
    seed: int
    ask: Ask
    player: Player

    def about(self) -> Iterator[str]:
        """Yield the lines that say whose prompt of which condition it is."""
        scripted = ", scripted: reads none" if self.player.policy.kind.rule is not None else ""
        yield (
            f"{self.condition.name}, seed {self.seed}: {self.ask.agent} ({self.ask.role}, played by "
            f"{self.player.label}{scripted}), round {self.ask.round}, {self.ask.phase}"
        )
        if self.others:
            yield f"the first of {len(self.others) + 1} conditions that fit; choose another by --where"

    def other(self, study: Study, against: Mapping[str, Any]) -> "PromptSent":
        """Return what the same agent is asked in that condition `against` which is most like its own."""
        like = _most_like(self.condition, study, against)
        query = PromptQuery(self.ask.role, self.ask.agent, self.ask.round, self.ask.phase)
        return prompt_sent(replace(study, conditions=(like,)), {}, query, self.seed)


def prompt_sent(study: Study, where: Mapping[str, Any], query: PromptQuery, seed: int) -> PromptSent:
    """Return what is sent in the first condition that has the axes `where` and an agent of the role.

    Raises UsageError if there is no such condition or agent, or if the game ends before it is asked that.
    """
    role, prompt = query.role, query.prompt
    if role is not None:
        check_known(f"{study.file}: --role", role, study.game.roles, "role")
    fitting = [
        c
        for c in study.fitting(where)
        if any(g.count and role in (None, g.role) and prompt in (None, g.prompt or c.prompt) for g in c.playing)
    ]
    if not fitting:
        raise UsageError(f"{study.file}: no agent fits ({query}) in these conditions; choose another --where")
    simulation = Simulation(fitting[0], seed)
    game = simulation.game()
    there = [seat for seat in game.seats if role in (None, seat.role) and prompt in (None, seat.prompt)]
    names = [seat.name for seat in there if query.agent in (None, seat.name)]
    place = f"{study.file}: {fitting[0].name}, seed {seed}"
    if not names:
        seats = sorted(game.seats, key=lambda seat: by_number(seat.name))
        listed = ", ".join(f"{seat.name} ({seat.role})" for seat in seats)
        raise UsageError(f"{place}: no agent fits ({query}); choose one of: {listed}")
    ask = _first(game, names, query, seed, place)
    return PromptSent(fitting[0], fitting[1:], seed, ask, simulation.players[ask.agent])


@dataclass(frozen=True)
class TooLong:
    """From which n and round on what a model is sent may not fit its context, its reply included, and about what."""

    model: str
    context: int
    prompt: str
    n: int
    round: int
    tokens: int


def too_long(study: Study) -> list[TooLong]:
    """Return where the models of a study may be sent too much: the smallest n for each and its prompt, and the round.

    Games are played by the scripted agents whose games are longest, with replies as long as they may be: four
    characters for each token of `max_tokens`, or the longest text of a field.
    """
    found: dict[tuple[str, str], TooLong] = {}
    kinds: list[PolicyKind] = []
    for condition in sorted(study.conditions, key=lambda each: int(each.axes["n"])):
        if not any(entry.context for entry in condition.entries.values()):
            continue
        with suppress(ParleyError):  # what they would talk about is not on this machine, or own code fails
            simulation = Simulation(condition, 0)
            kinds = kinds or lasting(simulation)
            for ask in asked(simulation.game(), 0, kinds=kinds, length=1.0):
                player = simulation.players[ask.agent]
                if (entry := player.entry) is None or entry.context is None:
                    continue
                size = sum(len(message["content"].encode()) for message in ask.messages)
                tokens = estimated_tokens(size, entry.dialect.longest(ask.sampling) + entry.reasoning_tokens)
                if tokens > entry.context:
                    model, prompt, n = player.model or "", player.prompt or condition.prompt, int(condition.axes["n"])
                    found.setdefault((model, prompt), TooLong(model, entry.context, prompt, n, ask.round, tokens))
    return list(found.values())


def lasting(simulation: Simulation) -> list[PolicyKind]:
    """Return the scripted policies that can play for a model, first the one whose game has the most rounds."""
    kinds = simulation.condition.game.policies.values()
    fitting = [kind for kind in kinds if kind.rule is not None and not kind.roles and not kind.needs]
    return sorted(fitting, key=lambda kind: -max(ask.round for ask in asked(simulation.game(), 0, kinds=[kind])))


def default_study(game: type[Game], prompt: str, parameters: Mapping[str, Any]) -> Study:
    """Return a study of one condition: four agents, one of them of the last role, all played by language models.

    `parameters` are those that are not the default. Raises UsageError if the game cannot be played so, or does not
    know the prompt.
    """
    check_known("--prompt", prompt, game.prompts, "prompt")
    chosen = validated(game.Parameters, dict(parameters), game.name)
    axes: dict[str, Any] = {"model": BY_MODEL.label, "n": 4, "b": 1, "prompt": prompt}
    axes |= {name: axis_value(getattr(chosen, name)) for name in parameters}
    groups = (PlayerGroup(game.roles[0], 3, Player(BY_MODEL)), PlayerGroup(game.roles[-1], 1, Player(BY_MODEL)))
    condition = Condition(game, axes, chosen, groups, prompt, range(1))
    with located(f"{game.name} with these parameters"):
        game.check(chosen, condition.playing)
    return Study(Path(game.name), StudyFile(game=game.name), Path(), game, (condition,), {})


def asked(
    game: Game, seed: int, last_round: int | None = None, kinds: Sequence[PolicyKind] = (), length: float = 0.0
) -> Iterator[Ask]:
    """Yield all that is asked in `game` up to a round, or to its end, in order.

    Models are played by the first of `kinds`, if there is one. Replies have at least `length` of the longest ones.
    """
    rules = {seat.name: rule_for(type(game), seat, kinds) for seat in game.seats}
    steps = playing(game)
    asks = next(steps)
    while last_round is None or not asks or asks[0].round <= last_round:
        yield from asks
        try:
            asks = steps.send([_answer(ask, rules[ask.agent], seed, length) for ask in asks])
        except StopIteration:
            return


def part_text(ask: Ask, part: str) -> str:
    """Return one of the PARTS of what is asked; the user's with the turns of the chat before it."""
    if part == "reply" and ask.reply_format in ("free", "text"):
        return "(free text)"
    if part == "reply":
        return json.dumps(ask.reply_model.model_json_schema(), indent=1)
    if part == "user" and ask.earlier:
        return "\n\n".join(f"[{role}]\n{text}" for role, text in (*ask.earlier, ("user", ask.user)))
    return {"system": ask.system, "user": ask.user}[part]


def _first(game: Game, names: Sequence[str], query: PromptQuery, seed: int, where: str) -> Ask:
    """Return the first ask that is wanted of the first of `names` that is asked it."""
    there = []
    for (number, phase), asks in groupby(asked(game, seed, query.round), lambda ask: (ask.round, ask.phase)):
        theirs = {ask.agent: ask for ask in asks if ask.agent in names}
        if theirs and query.round in (None, number) and query.phase in (None, phase):
            return next(theirs[name] for name in names if name in theirs)
        there += [(number, phase)] * bool(theirs)
    if not there:
        raise UsageError(f"{where}: there is no such prompt ({query}); choose another agent or a later round")
    phases = choose(query.phase or "", dict.fromkeys(phase for _, phase in there))
    said = f"with this seed the game has rounds {there[0][0]} to {there[-1][0]}; of its phases, {phases}"
    raise UsageError(f"{where}: there is no such prompt ({query}); {said}")


def rule_for(game: type[Game], seat: Seat, kinds: Sequence[PolicyKind] = ()) -> Rule:
    """Return the rule that answers for a seat: its own, or for a model the first of the game that suits any role.

    `kinds` come before those of the game.
    """
    if rule := seat.policy.rule:
        return rule
    for kind in (*kinds, *game.policies.values()):
        if kind.rule is not None and not kind.roles and not kind.needs:
            return partial(kind.rule, given=kind.Parameters())
    raise UsageError(f"the game {game.name} has no scripted policy to answer for a model; use scripted conditions")


def _answer(ask: Ask, rule: Rule, seed: int, length: float = 0.0) -> Reply:
    rng: np.random.Generator = stream("prompts", seed, ask.round, ask.phase, ask.agent)
    most = BYTES_PER_TOKEN * ask.sampling.max_tokens
    if ask.reply_format == "free":
        text = _FREELY.ljust(round(length * most), "_")
        return Reply(FreeText(text=text), text=text)
    said = dict(rule(ask.view, rng))
    if ask.earlier:  # what it wrote in a first step is not asked for again
        said = {name: value for name, value in said.items() if name in ask.reply_model.model_fields}
    for key, field in schema_of(ask.reply_model).items() if length else ():
        if key in said and field.get("type") == "string" and not field.keys() & {"enum", "const", "pattern"}:
            said[key] = str(said[key]).ljust(round(length * min(field.get("maxLength", most), most)), "_")
    text = json.dumps(said)
    return replace(parse_reply(text, "stop", ask.reply_model), text=text)


# `parley prompts --against`, and what the report says of two prompts: in which words texts differ


REMOVED, ADDED = "red strike", "bold green"  # styles of words that went, and that came


@dataclass(frozen=True)
class PromptDiff:
    """What `agent` is sent in the condition `where` and in the condition `against`.

    `differences` has the lines with words that differ, none where both are identical, by round, phase and part.
    """

    where: Condition
    against: Condition
    agent: str
    differences: Mapping[tuple[int, str, str], Sequence[Text]]

    def lines(self) -> Iterator[Text]:
        """Yield the lines that people read: "identical", or the difference, for each round, phase and part."""
        yield Text(f"--- {self.where.name}\n+++ {self.against.name}\n{self.agent}, the same seed in both")
        for (number, phase, part), lines in self.differences.items():
            yield Text(f"round {number}, {phase}, {part}:{'' if lines else ' identical'}")
            yield from (Text("    ") + line for line in lines)


def prompt_diff(
    study: Study, where: Mapping[str, Any], against: Mapping[str, Any], role: str, seed: int, last_round: int
) -> PromptDiff:
    """Compare what an agent of `role` is sent up to `last_round` in two conditions of a study.

    The first condition that has the axes `where`, and of those that have the axes `against` the one that agrees with
    it in most others. Raises UsageError if there is none, or nobody of that role in both.
    """
    first = study.fitting(where)[0]
    second = _most_like(first, study, against)
    games = [Simulation(condition, seed).game() for condition in (first, second)]
    agent = _agent(games[0], games[1], role)
    sent = [
        {
            (ask.round, ask.phase, part): part_text(ask, part)
            for ask in asked(game, seed, last_round)
            if ask.agent == agent
            for part in PARTS
        }
        for game in games
    ]
    keys = sorted({key: None for texts in sent for key in texts}, key=lambda key: key[0])
    differences = {key: _changed_lines(*(texts.get(key, "") for texts in sent)) for key in keys}
    return PromptDiff(first, second, agent, differences)


def _most_like(first: Condition, study: Study, against: Mapping[str, Any]) -> Condition:
    candidates = [condition for condition in study.fitting(against) if condition is not first]
    if not candidates:
        raise UsageError(f"{study.file}: {first.name}: --where and --against choose the same condition; choose two")
    return max(candidates, key=lambda other: sum(first.axes[axis] == value for axis, value in other.axes.items()))


def _agent(one: Game, other: Game, role: str) -> str:
    """Return the first agent that has this role in both games; one of another prompt in each, if there is one."""
    prompts = {seat.name: seat.prompt for seat in other.seats if seat.role == role}
    both = [seat for seat in one.seats if seat.role == role and seat.name in prompts]
    if not both:
        raise UsageError(f"no agent has the role {role} in both conditions; choose another --role")
    return min(both, key=lambda seat: seat.prompt == prompts[seat.name]).name


def word_diff(study: Study, one: str, other: str) -> Iterator[Text]:
    """Yield the lines with words in which two prompts differ, under the names of the templates that they are in.

    Compared is what the study sends to roles that have both in it.
    """
    prompts, own = study.game.prompts, study.own_prompts.by_name if study.own_prompts else {}
    known = {**prompts.variants, **{name: prompt.templates for name, prompt in own.items()}}
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
