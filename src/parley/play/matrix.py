"""A game as a matrix, agents by rounds: the game's own timeline, completed by its replies.

`Timeline` is the one model of it. Renderers: here for terminals, on which whatever a reply holds is letters
(`rich.text.Text`, never markup, without control characters); `report/explorer/game.py` for the explorer's page;
`figures/single_games.py` for figures. No game is known here.
"""

import re
import threading
import time
import unicodedata
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import groupby
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Group
from rich.style import Style
from rich.table import Table
from rich.text import Text

from parley.engine.grammar import json_schema
from parley.games.base import Game, Outcome
from parley.games.evidence import Evidence, Mark, State, Timeline, TimelineCell, Trajectory
from parley.play.runner import Exchange, Watcher
from parley.policies import Ask
from parley.text import by_number, counted, one_line

FAILED, AGAIN, WAITING, STOP = "no usable reply", "asked again", "is being asked", "stop"
NO_STATE = ""  # of a cell that the game says nothing of
LEADING = State("leading", "holds the most frequent value", "#56B4E9", "")
OTHER = State("other", "holds another value", "#E69F00", "///")

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
    until: int | None = None,
) -> Timeline:
    """Return a game as agents by rounds: what it says of itself, and its replies where it says nothing.

    Where the game tells nobody apart, agents of another role than its first stand out. Without an `outcome`, or with
    one that this version cannot read, replies are all there is; so they are in the rounds from `until` on, of a game
    that is still played.
    """
    by_replies = _of_replies(game, replies)
    try:
        timeline = None if outcome is None else _of_evidence(game.evidence, outcome, trace)
    except Exception:  # noqa: BLE001 (code of the user's own, or a trace of another version)
        timeline = None
    if timeline is None:
        timeline = by_replies
    elif until is not None:
        whole = {place: cell for place, cell in timeline.cells.items() if place[1] < until}
        results = {number: text for number, text in timeline.results.items() if number < until}
        marks = [mark for mark in timeline.marks if mark.round < until]
        timeline = replace(timeline, cells=whole, marks=marks, results=results)
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


def _of_evidence(
    evidence: Evidence[Any], outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]
) -> Timeline | None:
    """Return what a game that is over says of its rounds; None if it says nothing."""
    own = type(evidence)
    if own.timeline is not Evidence.timeline:
        return evidence.timeline(outcome, trace)
    return None if own.trajectory is Evidence.trajectory else _of_values(evidence.trajectory(outcome, trace))


def _of_values(trajectory: Trajectory) -> Timeline:
    """Return values by round, in states that say whether they are the most frequent of those that matter."""
    by_round: dict[int, dict[str, float]] = defaultdict(dict)
    for name, points in trajectory.series.items():
        for number, value in points:
            by_round[number][name] = value
    cells = {}
    for number, held in by_round.items():
        counts = Counter(value for name, value in held.items() if name in trajectory.highlighted)
        counts = counts or Counter(held.values())
        most = max(counts.values())
        for name, value in held.items():
            state = LEADING if counts[value] == most and most > 1 else OTHER
            cells[name, number] = TimelineCell(state.name, f"{value:g}")
    names = sorted(trajectory.series, key=lambda name: (name not in trajectory.highlighted, by_number(name)))
    return Timeline(
        agents={name: name for name in names},
        framed=frozenset(trajectory.series) - trajectory.highlighted,
        framed_label=trajectory.labels[1],
        cells=cells,
        states=(LEADING, OTHER),
        marks=(),
        results={} if trajectory.stopped is None else {trajectory.stopped: STOP},
        results_label="",
    )


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


# A game while it is played: kept from what the runner says, looked at from another thread

_RECENT = 60  # replies that may be shown below the matrix


@dataclass(frozen=True)
class Snapshot:
    """How far a game is, at one moment; `asks` are those of the phase that is asked, `waiting` who is to answer.

    Before its end the game has said nothing of its rounds: the timeline has replies.
    """

    timeline: Timeline
    asks: tuple[Ask, ...]
    waiting: frozenset[str]
    recent: tuple[Exchange, ...]
    attempts: int
    unusable: int
    tokens: int
    seconds: float
    outcome: Outcome | None


class WatchedGame(Watcher):
    """A game as it is played, to be looked at."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self._lock = threading.Lock()
        self._began, self._ended = time.monotonic(), 0.0
        self._asks: tuple[Ask, ...] = ()
        self._said: dict[tuple[str, int], dict[str, Exchange]] = {}  # by agent and round: the last try of each phase
        self._recent: deque[Exchange] = deque(maxlen=_RECENT)
        self._attempts = self._unusable = self._tokens = 0
        self._outcome: Outcome | None = None

    def asking(self, asks: Sequence[Ask]) -> None:
        """Note the asks of the phase that begins."""
        with self._lock:
            self._asks = tuple(asks)

    def answered(self, exchange: Exchange) -> None:
        """Note one attempt."""
        ask, entry = exchange.ask, exchange.entry
        with self._lock:
            self._said.setdefault((ask.agent, ask.round), {})[ask.phase] = exchange
            self._recent.append(exchange)
            self._attempts += 1
            self._unusable += exchange.failed
            self._tokens += entry.completion_tokens or 0

    def end(self, outcome: Outcome) -> None:
        """Note how the game ended."""
        with self._lock:
            self._outcome, self._asks, self._ended = outcome, (), time.monotonic()

    def see(self) -> Snapshot:
        """Return how far the game is."""
        with self._lock:
            waiting = frozenset(ask.agent for ask in self._asks if not self._is_answered(ask))
            replies = {place: self._replied(list(phases.values())) for place, phases in self._said.items()}
            for ask in self._asks:
                if ask.agent in waiting:
                    place = (ask.agent, ask.round)
                    known = replies.get(place, Replied(""))
                    replies[place] = Replied(known.text, (*known.marks, WAITING))
            outcome = None if self._outcome is None else self._outcome.as_json()
            trace = outcome.pop("trace") if outcome else ()
            return Snapshot(
                timeline=game_timeline(self.game, outcome, trace, replies),
                asks=self._asks,
                waiting=waiting,
                recent=tuple(self._recent),
                attempts=self._attempts,
                unusable=self._unusable,
                tokens=self._tokens,
                seconds=(self._ended or time.monotonic()) - self._began,
                outcome=self._outcome,
            )

    def _replied(self, phases: Sequence[Exchange]) -> Replied:
        values = [value for exchange in phases for value in decided(exchange, self.game.read_texts)[0]]
        words = [_short(value) for value in values if value is not None]
        failed = any(exchange.failed for exchange in phases)
        again = any(exchange.entry.attempt for exchange in phases)
        return Replied(" ".join(word for word, _ in groupby(words) if word), [FAILED] * failed + [AGAIN] * again)

    def _is_answered(self, ask: Ask) -> bool:
        last = self._said.get((ask.agent, ask.round), {}).get(ask.phase)
        return last is not None and (last.reply.failure is None or last.entry.attempt >= self.game.parameters.retries)


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


_PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
_FRAMED = "◆"
_OF_REPLIES = {FAILED: "✗", AGAIN: "↻", WAITING: "…"}
_OF_GAMES = "*+^~=#"  # one for each label of a game's marks
_CUT = "…"
_NARROWEST, _ENOUGH, _WIDEST = 4, 8, 16  # columns of the terminal for a cell
_LONGEST_NAME = 16
_FEWEST_SAID, _MOST_SAID = 2, 10  # lines of replies below
_LONGEST = 2000  # characters of a text that are looked at: no terminal is as wide
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
# Terminals do not agree how wide they are: marks on letters, and signs that change the emoji before them.
_OF_NO_WIDTH = {"Mn", "Me"}
_MODIFIERS = range(0x1F3FB, 0x1F400)


def live_view(snapshot: Snapshot, heading: Sequence[str], note: str, game: Game, size: tuple[int, int]) -> Group:
    """Return what a terminal of `size` (columns, lines) shows of a game that is played, and of what else goes on."""
    width, height = size
    top = [_line(line, style="dim" if at else "bold") for at, line in enumerate(heading[: height // 6])]
    top += [*_state(snapshot, game, note), Text()]
    legend = wrapped(_legend(snapshot.timeline), width)[:2]
    below = bool(snapshot.timeline.results)
    room = height - len(top) - 1 - below - len(legend) - 2 - _FEWEST_SAID
    rows = _rows(snapshot.timeline, max(room, 1))
    tables = list(_tables(snapshot.timeline, rows, game.evidence.round_name, width, last_only=True))
    left_out = len(snapshot.timeline.agents) - len(rows)
    more = [Text(f"and {counted(left_out, 'more agent')}", style="dim")] if left_out else []
    used = len(top) + 1 + len(rows) + below + len(more) + len(legend) + 2
    said_room = min(max(height - used, 0), _MOST_SAID)
    said = [_said(exchange, game) for exchange in snapshot.recent[-said_room:]] if said_room else []
    return Group(*top, *tables, *more, Text(), *legend, Text(), *said)


def final_view(snapshot: Snapshot, heading: Sequence[str], game: Game, width: int) -> Group:
    """Return the whole matrix of a game, in as many blocks of rounds as it needs, and how the game ended."""
    top = [Text(one_line(line), style="dim" if at else "bold") for at, line in enumerate(heading)]
    rows = _rows(snapshot.timeline)
    blocks = [
        each for table in _tables(snapshot.timeline, rows, game.evidence.round_name, width) for each in (Text(), table)
    ]
    ending = [Text(line.plain, style=line.style) for line in _state(snapshot, game, "")]
    return Group(*top, *blocks, Text(), *wrapped(_legend(snapshot.timeline), width), Text(), *ending)


def outcome_words(game: type[Game], outcome: Outcome) -> str:
    """Return in words how a game ended."""
    name = game.class_of(outcome.name, outcome.detail)
    label = next((each.label for each in game.outcomes if each.name == name), name)
    details = dict.fromkeys(part for part in (outcome.detail, outcome.diagnosis) if part and part != name)
    why = f" ({', '.join(details)})".replace("_", " ") if details else ""
    rounds = counted(outcome.rounds, game.evidence.round_name)
    return one_line(f"{label}{why}, after {rounds}")


def _state(snapshot: Snapshot, game: Game, note: str) -> Iterator[Text]:
    """Yield what goes on, or how the game ended, and what was counted."""
    seconds, attempts = int(snapshot.seconds), snapshot.attempts
    counts = [f"{seconds // 60}:{seconds % 60:02}", f"{attempts:,} repl{'y' if attempts == 1 else 'ies'}"]
    counts += [f"{snapshot.unusable:,} unusable"] + [f"{snapshot.tokens:,} tokens"] * bool(snapshot.tokens)
    if snapshot.outcome is not None:
        yield _line(f"Outcome: {outcome_words(type(game), snapshot.outcome)}", style="bold")
        yield _line(" · ".join(counts), style="dim")
        return
    asks = snapshot.asks
    words = one_line(note) or "getting ready"
    if asks:
        done = len(asks) - len(snapshot.waiting)
        words = f"Round {asks[0].round}, {one_line(asks[0].phase)}: {done} of {len(asks)} answered"
    line = _line("").append(_SPINNER[int(snapshot.seconds * 4) % len(_SPINNER)] + " ", style="cyan")
    yield line.append(words).append(f" · {' · '.join(counts)}", style="dim")
    if note and asks:
        yield _line(one_line(note), style="yellow")


def _said(exchange: Exchange, game: Game) -> Text:
    """Return one reply in a line: who, what was decided, and the texts."""
    ask, line = exchange.ask, _line("")
    stands_out = len(game.roles) > 1 and ask.role == game.roles[-1]
    line.append(f"{_clean(ask.agent)} ", style="bold red" if stands_out else "bold")
    if exchange.reply.value is None:
        line.append(f"{_OF_REPLIES[FAILED]} {exchange.lacking}: ", style="red")
        return line.append(_clean(exchange.entry.text[:_LONGEST]), style="dim")
    values, texts = decided(exchange, game.read_texts)
    line.append(_clean(" ".join(map(str, values))[:_LONGEST]))
    for name, text in texts.items():
        if text:
            line.append(f"  {name}: ", style="dim").append(_clean(str(text)[:_LONGEST]), style="italic")
    return line


def _rows(timeline: Timeline, most: int | None = None) -> list[str]:
    """Return the agents, those that stand out last; where there is no room, these and the first of the others."""
    names = sorted(timeline.agents, key=lambda name: name in timeline.framed)
    if most is None or len(names) <= most:
        return names
    # A line says how many more there are.
    kept = sorted(names, key=lambda name: name not in timeline.framed)[: max(most - 1, 1)]
    return [name for name in names if name in kept]


def _tables(
    timeline: Timeline, rows: Sequence[str], round_name: str, width: int, *, last_only: bool = False
) -> Iterator[Table]:
    """Yield the matrix as blocks of rounds that fit into `width`; only the last one, of rounds up to now, if asked."""
    rounds, marks, signs = rounds_of(timeline), marks_of(timeline), _signs(timeline)
    places = {*timeline.cells, *marks}
    words = {place: _words(timeline.cells.get(place), marks.get(place, ()), signs) for place in places}
    framed = {name: f"{_FRAMED} " if name in timeline.framed else "  " for name in rows}
    names = [framed[name] + _clean(timeline.agents[name]) for name in rows]
    heads = ["  " + _clean(round_name), *(["  " + _clean(timeline.results_label)] if timeline.results else [])]
    beside = min(max(map(cell_len, [*names, *heads])), _LONGEST_NAME)
    size = max(map(cell_len, words.values()), default=0) + 2
    size = min(max(size, _NARROWEST, len(str(rounds[-1])) + 1 if rounds else 0), _WIDEST)
    room = max(width - beside, _NARROWEST)
    if last_only and rounds:  # narrower cells, if more rounds fit so
        size = min(size, max(room // len(rounds) - 1, _ENOUGH))
    most = max(room // (size + 1), 1)
    starts = [max(len(rounds) - most, 0)] if last_only else range(0, max(len(rounds), 1), most)
    colors = _colors(timeline)
    for start in starts:
        shown = rounds[start : start + most]
        table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim not bold")
        table.add_column(heads[0], no_wrap=True, width=beside)
        for number in shown:
            before = "‹" if last_only and number == shown[0] and start else ""
            table.add_column(f"{before}{number}", no_wrap=True, width=size, justify="center")
        for row, name in zip(rows, names, strict=True):
            title = Text(name, style="bold" if row in timeline.framed else "")
            if row in timeline.framed:
                title.stylize("red", 0, 1)
            cells = ((row, number) for number in shown)
            table.add_row(
                title,
                *(Text(words.get(at, ""), _style(timeline.cells.get(at), marks.get(at, ()), colors)) for at in cells),
            )
        if timeline.results:
            results = (Text(_clean(timeline.results.get(number, ""))) for number in shown)
            table.add_row(Text(heads[1]), *results, style="dim")
        yield table


def _words(cell: TimelineCell | None, labels: Sequence[str], signs: Mapping[str, str]) -> str:
    """Return what stands in a cell, marks last."""
    text = _clean((cell.text or cell.state)[:200]) if cell else ""
    if WAITING in labels:
        return f"{text} {signs[WAITING]}".strip()
    failed = FAILED in labels
    tail = "".join(signs.get(each, "") for each in labels if each != FAILED and not (failed and each == AGAIN))
    return (f"{signs[FAILED]} {text}".strip() if failed else text) + tail


def _style(cell: TimelineCell | None, labels: Sequence[str], colors: Mapping[str, str]) -> Style:
    back = colors.get(cell.state or cell.text) if cell else None
    if back is None:
        return Style(color="red", bold=True) if FAILED in labels else Style(dim=WAITING in labels)
    return Style(color="#000000" if _is_light(back) else "#FFFFFF", bgcolor=back, bold=FAILED in labels)


def _colors(timeline: Timeline) -> dict[str, str]:
    """Return the color of each state; of a game that has not said any yet, of each of the first few replies."""
    if timeline.states:
        return {state.name: hex_of(state.color) for state in timeline.states}
    texts = dict.fromkeys(cell.text for cell in timeline.cells.values() if cell.text)
    return dict(zip(texts, _PALETTE, strict=False))


def _signs(timeline: Timeline) -> dict[str, str]:
    """Return the sign of each label of a mark that occurs; of a game with too many, only the first have one."""
    own = dict.fromkeys(mark.label for mark in timeline.marks if mark.label not in _OF_REPLIES)
    return _OF_REPLIES | dict(zip(own, _OF_GAMES, strict=False))


def _legend(timeline: Timeline) -> list[Text]:
    used = {cell.state for cell in timeline.cells.values()}
    labels = {state.name: state.label for state in timeline.states if state.name in used}
    found = [
        Text.assemble(("  ", Style(bgcolor=back)), " ", _fitted(_clean(labels.get(key, key)), 40))
        for key, back in _colors(timeline).items()
        if key in labels or not timeline.states
    ]
    seen = {mark.label for mark in timeline.marks} - {WAITING}
    if timeline.framed:
        label = _clean(timeline.framed_label)
        found.append(Text.assemble((_FRAMED, "red"), f" {label[:1].upper()}{label[1:]}"))
    signs = {label: sign for label, sign in _signs(timeline).items() if label in seen}
    for label, sign in signs.items():
        style = "bold red" if label == FAILED else ""
        found.append(Text.assemble((sign, style), f" {_fitted(_clean(label), 60)}"))
    return found


def wrapped(items: Iterable[Text], width: int, between: str = "   ") -> list[Text]:
    """Return short texts in as many lines as they need, with something `between` two in a line."""
    lines: list[Text] = []
    for item in items:
        if lines and lines[-1].cell_len + len(between) + item.cell_len <= width:
            lines[-1].append(between).append_text(item)
        else:
            lines.append(_line("").append_text(item))
    return lines


def _line(text: str, style: str = "") -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


@lru_cache(4096)
def _clean(text: str) -> str:
    """Return text from outside as printable letters whose width terminals agree on."""
    line = unicodedata.normalize("NFC", one_line(text))
    kept = [c for c in line if unicodedata.category(c) not in _OF_NO_WIDTH and ord(c) not in _MODIFIERS]
    return "".join(c if c.isprintable() else "\ufffd" for c in kept)  # no letter yet, or one that XML does not allow


def _fitted(text: str, width: int) -> str:
    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + _CUT


@cache
def hex_of(color: str) -> str:
    """Return a color of matplotlib's as #RRGGBB."""
    if re.fullmatch(r"#[0-9A-Fa-f]{6}", color):
        return color
    from matplotlib.colors import to_hex  # slow to import, and the games of Parley itself need none

    return to_hex(color)


def _is_light(color: str) -> bool:
    red, green, blue = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue > 140
