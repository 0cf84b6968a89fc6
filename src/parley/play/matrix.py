"""A game as a matrix, agents by rounds: the game's own timeline, completed by its replies.

`Timeline` is the one model of it. Renderers: `matrix_text` for terminals, `report/explorer/game.py` for the explorer's
page, `figures/trajectories.py` for figures. No game is known here.
"""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from parley.engine.grammar import json_schema
from parley.games.base import Game, Outcome
from parley.games.evidence import Mark, Timeline, TimelineCell
from parley.play.runner import Exchange, Watcher
from parley.policies import Ask
from parley.text import by_number

FAILED, AGAIN, WAITING = "no usable reply", "asked again", "is being asked"
NO_STATE = ""  # of a cell that the game says nothing of

Place = tuple[str, int]  # an agent and a round


@dataclass(frozen=True)
class Replied:
    """What an agent replied in a round, in a few words, which may be a model's own; `marks` are labels."""

    text: str
    marks: Sequence[str] = ()


def game_timeline(
    game: Game,
    outcome: Mapping[str, Any] | None,
    trace: Sequence[Mapping[str, Any]],
    replies: Mapping[Place, Replied],
) -> Timeline:
    """Return a game as agents by rounds: what it says of itself, and its replies where it says nothing.

    Where the game tells nobody apart, agents of another role than its first stand out. Without an `outcome`, or with
    one that this version cannot read, replies are all there is.
    """
    timeline = by_replies = _of_replies(game, replies)
    if outcome is not None:
        with suppress(Exception):  # a game without one, code of the user's own, or a trace of another version
            timeline = game.evidence.timeline(outcome, trace)
    if not timeline.framed:
        timeline = replace(timeline, framed=by_replies.framed, framed_label=by_replies.framed_label)
    agents = {**timeline.agents, **{name: name for name in by_replies.agents if name not in timeline.agents}}
    cells = {place: cell for place, cell in by_replies.cells.items() if place[0] in agents}
    of_replies = [Mark(*place, label) for place in cells for label in replies[place].marks]
    return replace(timeline, agents=agents, cells={**cells, **timeline.cells}, marks=[*timeline.marks, *of_replies])


def rounds_of(timeline: Timeline) -> list[int]:
    """Return the rounds in which anything was done or marked."""
    return sorted({number for _, number in timeline.cells} | {mark.round for mark in timeline.marks})


def marks_of(timeline: Timeline) -> dict[Place, list[str]]:
    """Return the labels of the marks of each cell, each once."""
    labels: dict[Place, list[str]] = defaultdict(list)
    for mark in timeline.marks:
        if mark.label not in labels[mark.agent, mark.round]:
            labels[mark.agent, mark.round].append(mark.label)
    return labels


def _of_replies(game: Game, replies: Mapping[Place, Replied]) -> Timeline:
    roles = {seat.name: seat.role for seat in game.seats}
    framed = frozenset(name for name, role in roles.items() if role != game.roles[0])
    return Timeline(
        agents={name: name for name in sorted(roles, key=lambda name: (name in framed, by_number(name)))},
        framed=framed,
        framed_label=", ".join(sorted({roles[name] for name in framed})),
        cells={place: TimelineCell(NO_STATE, reply.text) for place, reply in replies.items()},
        states=(),
        marks=(),
        results={},
        results_label="",
    )


# A game while it is played


class WatchedGame(Watcher):
    """A game as it is played, to be looked at from any thread; `asks` are those of the phase that is asked."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self.asks: tuple[Ask, ...] = ()
        self.exchanges: tuple[Exchange, ...] = ()
        self.outcome: Outcome | None = None
        self._began, self._ended = time.monotonic(), 0.0

    def asking(self, asks: Sequence[Ask]) -> None:
        """Note the asks of the phase that begins."""
        self.asks = tuple(asks)

    def answered(self, exchange: Exchange) -> None:
        """Note one attempt."""
        self.exchanges = (*self.exchanges, exchange)

    def over(self, outcome: Outcome) -> None:
        """Note how the game ended."""
        self.asks, self.outcome, self._ended = (), outcome, time.monotonic()

    @property
    def seconds(self) -> float:
        """How long it has been played."""
        return (self._ended or time.monotonic()) - self._began

    @property
    def waiting(self) -> frozenset[str]:
        """Names of the agents who are to answer."""
        retries, last = self.game.parameters.retries, {x.entry.key[:3]: x for x in self.exchanges}
        asked = [(ask.agent, last.get((ask.round, ask.phase, ask.agent))) for ask in self.asks]
        return frozenset(
            name for name, x in asked if x is None or (x.reply.failure is not None and x.entry.attempt < retries)
        )

    @property
    def timeline(self) -> Timeline:
        """Agents by rounds. Before its end the game has said nothing of these: the timeline has replies."""
        said: dict[Place, dict[str, Exchange]] = defaultdict(dict)  # the last try of each phase
        for exchange in self.exchanges:
            said[exchange.ask.agent, exchange.ask.round][exchange.ask.phase] = exchange
        replies = {place: self._replied(list(phases.values())) for place, phases in said.items()}
        waiting = self.waiting
        for ask in self.asks:
            if ask.agent in waiting:
                known = replies.get((ask.agent, ask.round), Replied(""))
                replies[ask.agent, ask.round] = Replied(known.text, (*known.marks, WAITING))
        outcome = None if self.outcome is None else self.outcome.as_json()
        timeline = game_timeline(self.game, outcome, outcome.pop("trace") if outcome else (), replies)
        groups = {seat.name: f"({seat.group + 1}) " for seat in self.game.seats}  # as the study counts them
        if len({*groups.values()}) == len({seat.role for seat in self.game.seats}):
            return timeline
        labels = {name: groups.get(name, "") + label for name, label in timeline.agents.items()}
        return replace(timeline, agents=labels)

    def _replied(self, phases: Sequence[Exchange]) -> Replied:
        values = [value for exchange in phases for value in decided(exchange, self.game.read_texts)[0]]
        words = [_short(value) for value in values if value is not None]
        failed = any(exchange.failed for exchange in phases)
        again = any(exchange.entry.attempt for exchange in phases)
        return Replied(" ".join(word for word, _ in groupby(words) if word), [FAILED] * failed + [AGAIN] * again)


def decided(exchange: Exchange, decisive: frozenset[str]) -> tuple[list[Any], dict[str, str]]:
    """Return what a reply that could be read decides, the `decisive` texts among it, and its other texts by name."""
    if exchange.reply.value is None:
        return [], {}
    properties = json_schema(exchange.ask.reply_model)["properties"]
    fields = exchange.reply.value.model_dump(exclude_unset=True)
    texts = {key: value for key, value in fields.items() if "maxLength" in properties[key] and key not in decisive}
    return [value for key, value in fields.items() if key not in texts], texts


def _short(value: Any) -> str:
    """Return what was decided in a word or two; what was told to each of many stands in the reply."""
    if isinstance(value, Mapping):
        return f"+{len(value)}" if value else ""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
