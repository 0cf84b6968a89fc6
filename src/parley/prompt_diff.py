"""`parley prompts --diff`: what one agent is sent in two conditions of a study, and where that differs.

Both games are played with the same seed up to a round. Scripted agents answer as they do; for models, and code of the
user's own, the first scripted policy of the game that anyone may be played by answers.
"""

import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from parley.condition import Condition, Simulation
from parley.errors import UsageError
from parley.games.base import Ask, Game, Reply, Seat, parse_reply
from parley.games.kinds import Rule
from parley.identity import stream
from parley.study import Study

PARTS = ("system", "user", "reply")
_Sent = dict[tuple[int, str], dict[str, str]]


@dataclass(frozen=True)
class Difference:
    """One text in two conditions; `lines` are those of a unified diff, empty where both are identical."""

    round: int
    phase: str
    part: str  # "system", "user", or "reply": the JSON schema that is asked for
    lines: tuple[str, ...]


@dataclass(frozen=True)
class PromptDiff:
    """What `agent` is sent in the condition `where` and in the condition `against`."""

    where: Condition
    against: Condition
    agent: str
    differences: tuple[Difference, ...]

    def text(self) -> Iterator[str]:
        """Yield the lines that people read: "identical", or the difference, for each round, phase and part."""
        yield f"--- {self.where.path}"
        yield f"+++ {self.against.path}"
        yield f"{self.agent}, the same seed in both"
        for found in self.differences:
            head = f"round {found.round}, {found.phase}, {found.part}:"
            if not found.lines:
                yield f"{head} identical"
                continue
            yield head
            yield from (f"    {line}" for line in found.lines)


def prompt_diff(
    study: Study, where: Mapping[str, Any], against: Mapping[str, Any], role: str, seed: int, last_round: int
) -> PromptDiff:
    """Compare what an agent of `role` is sent up to `last_round` in two conditions of a study.

    The first condition that has the axes `where`, and of those that have the axes `against` the one that agrees with
    it in most others. Raises UsageError if there is none, or nobody of that role in both.
    """
    first = _fitting(study, where)[0]
    candidates = [condition for condition in _fitting(study, against) if condition is not first]
    if not candidates:
        raise UsageError(
            f"{study.file}: {first.path}: both conditions are this one; name two with --where and --against"
        )
    second = max(candidates, key=lambda condition: _agreement(first, condition))
    games = [Simulation(condition, seed).game() for condition in (first, second)]
    agent = _agent(games[0], games[1], role)
    sent = [_sent(game, agent, seed, last_round) for game in games]
    keys = sorted({key: None for found in sent for key in found}, key=lambda key: key[0])
    differences = [
        Difference(*key, part, _unified(*(found.get(key, {}).get(part, "") for found in sent)))
        for key in keys
        for part in PARTS
    ]
    return PromptDiff(first, second, agent, tuple(differences))


def _fitting(study: Study, axes: Mapping[str, Any]) -> list[Condition]:
    if unknown := [axis for axis in axes if axis not in study.conditions[0].axes]:
        known = ", ".join(study.conditions[0].axes)
        raise UsageError(f"{study.file}: {unknown[0]}: not an axis of this study; choose one of: {known}")
    found = [c for c in study.conditions if all(str(c.axes[axis]) == str(value) for axis, value in axes.items())]
    if not found:
        asked = ", ".join(f"{axis}={value}" for axis, value in axes.items())
        raise UsageError(f"{study.file}: no condition has {asked}; `parley expand {study.file}` lists them")
    return found


def _agreement(one: Condition, other: Condition) -> int:
    return sum(one.axes[axis] == value for axis, value in other.axes.items())


def _agent(one: Game, other: Game, role: str) -> str:
    """Return the first agent that has this role in both games."""
    both = {seat.name for seat in other.seats if seat.role == role}
    for seat in one.seats:
        if seat.role == role and seat.name in both:
            return seat.name
    raise UsageError(f"no agent has the role {role} in both conditions; choose another --role, or other conditions")


def _sent(game: Game, agent: str, seed: int, last_round: int) -> _Sent:
    """Return what `agent` is sent in each round and phase up to `last_round`, by part."""
    rules = {seat.name: _rule(type(game), seat) for seat in game.seats}
    playing, found = game.play(), _Sent()
    asks = next(playing)
    try:
        while asks[0].round <= last_round:
            for ask in asks:
                if ask.agent == agent:
                    found[ask.round, ask.phase] = {"system": ask.system, "user": ask.user, "reply": _shape(ask)}
            asks = playing.send([_answer(ask, rules[ask.agent], seed) for ask in asks])
    except StopIteration:
        pass
    return found


def _rule(game: type[Game], seat: Seat) -> Rule:
    if seat.policy.kind.rule is not None:
        return seat.policy.kind.rule(seat.policy.parameters)
    for kind in game.policies.values():
        if kind.rule is not None and not kind.roles and not kind.needs:
            return kind.rule(kind.Parameters())
    raise UsageError(f"the game {game.name} has no scripted policy to answer for a model; use scripted conditions")


def _answer(ask: Ask, rule: Rule, seed: int) -> Reply:
    rng: np.random.Generator = stream("prompts", seed, ask.round, ask.phase, ask.agent)
    return parse_reply(json.dumps(rule(ask.view, rng)), "stop", ask.reply_model)


def _shape(ask: Ask) -> str:
    return json.dumps(ask.reply_model.model_json_schema(), indent=1)


def _unified(one: str, other: str) -> tuple[str, ...]:
    """Return the lines of a unified diff of two texts, without its header."""
    return tuple(difflib.unified_diff(one.splitlines(), other.splitlines(), lineterm="", n=1))[2:]
