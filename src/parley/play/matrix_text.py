"""A game's matrix on a terminal, which is left as it was, while the game is played and when it is over.

Whatever a reply holds is letters: `rich.text.Text`, never markup, without control characters.
"""

import logging
import os
import time
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import IO, Any, TextIO

from rich.cells import cell_len
from rich.console import Console, Group
from rich.live import Live
from rich.style import Style
from rich.table import Table
from rich.text import Text

from parley.games.base import Game, Outcome
from parley.games.evidence import Timeline, TimelineCell
from parley.play.matrix import AGAIN, FAILED, WAITING, WatchedGame, decided, marks_of, rounds_of
from parley.play.runner import Exchange
from parley.text import NAME, Hearing, counted, one_line

_PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
_FRAMED = "◆"
_OF_REPLIES = {FAILED: "✗", AGAIN: "↻", WAITING: "…"}
_OF_GAMES = "*+^~=#"  # one for each label of a game's marks
_NARROWEST, _WIDEST = 4, 16  # columns of the terminal for a cell
_LONGEST_NAME = 16
_MOST_SAID = 10  # replies below
_LONGEST = 2000  # characters of a text that are looked at: no terminal is as wide
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_NOTE_SECONDS = 30.0  # that what was logged last is shown
_LEAST = (40, 12)  # columns and lines of a terminal that has room for a matrix
# Terminals do not agree how wide they are: marks on letters, and signs that change the emoji before them.
_OF_NO_WIDTH = {"Mn", "Me"}
_MODIFIERS = range(0x1F3FB, 0x1F400)


def live_view(watched: WatchedGame, heading: Sequence[str], width: int, note: str = "") -> Group:
    """Return what a terminal shows of a game that is played, and a `note` beside it; what matters least is below."""
    timeline = watched.timeline
    tables = _tables(timeline, watched.game.evidence.round_name, width)
    notes = [_line(one_line(note), style="yellow")] if note else []
    said = [_said(exchange, watched.game) for exchange in reversed(watched.exchanges[-_MOST_SAID:])]
    legend = wrapped(_legend(timeline), width)
    return Group(*_heading(heading[:2]), *_state(watched), *notes, Text(), tables[-1], Text(), *legend, Text(), *said)


def final_view(watched: WatchedGame, heading: Sequence[str], width: int) -> Group:
    """Return the whole matrix of a game, in as many blocks of rounds as it needs, and how the game ended."""
    timeline = watched.timeline
    tables = _tables(timeline, watched.game.evidence.round_name, width)
    blocks = [each for table in tables for each in (Text(), table)]
    ending = [Text(line.plain, style=line.style) for line in _state(watched)]
    return Group(*_heading(heading), *blocks, Text(), *wrapped(_legend(timeline), width), Text(), *ending)


def outcome_line(game: type[Game], outcome: Outcome) -> str:
    """Return in one line how a game ended."""
    return f"Outcome: {ending(game, outcome.as_json())}"


def ending(game: type[Game], outcome: Mapping[str, Any]) -> str:
    """Return in a few words how a game ended, by its outcome in JSON; what a record says of it may be forged."""
    name, detail, diagnosis = (outcome[key] for key in ("name", "detail", "diagnosis"))
    parts = dict.fromkeys(filter(None, [game.class_of(name, detail), detail, diagnosis]))
    return f"{', '.join(parts)}, after {counted(outcome['rounds'], 'round')}"


def _heading(lines: Iterable[str]) -> list[Text]:
    return [_line(line, style="dim" if at else "bold") for at, line in enumerate(map(one_line, lines))]


def _state(watched: WatchedGame) -> Iterator[Text]:
    """Yield what goes on, or how the game ended, and what was counted."""
    seconds, asks = int(watched.seconds), watched.asks
    unusable = sum(x.failed for x in watched.exchanges)
    tokens = sum(x.entry.completion_tokens or 0 for x in watched.exchanges)
    counts = [f"{seconds // 60}:{seconds % 60:02}", f"{len(watched.exchanges):,} replies", f"{unusable:,} unusable"]
    counts += [f"{tokens:,} tokens"] * bool(tokens)
    if watched.outcome is not None:
        yield _line(one_line(outcome_line(type(watched.game), watched.outcome)), style="bold")
        yield _line(" · ".join(counts), style="dim")
        return
    words = "getting ready"
    if asks:
        done = len(asks) - len(watched.waiting)
        words = f"Round {asks[0].round}, {one_line(asks[0].phase)}: {done} of {len(asks)} answered"
    line = _line("").append(_SPINNER[int(watched.seconds * 4) % len(_SPINNER)] + " ", style="cyan")
    yield line.append(words).append(f" · {' · '.join(counts)}", style="dim")


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


def _tables(timeline: Timeline, round_name: str, width: int) -> list[Table]:
    """Return the matrix as blocks of rounds that fit into `width`, agents that stand out first."""
    rounds, marks, signs, colors = rounds_of(timeline), marks_of(timeline), _signs(timeline), _colors(timeline)
    places = {*timeline.cells, *marks}
    words = {place: _words(timeline.cells.get(place), marks.get(place, ()), signs) for place in places}
    styles = {place: _style(timeline.cells.get(place), marks.get(place, ()), colors) for place in places}
    rows = {
        name: Text(f"{_FRAMED if name in timeline.framed else ' '} {_clean(label)}")
        for name, label in sorted(timeline.agents.items(), key=lambda agent: agent[0] not in timeline.framed)
    }
    for name in timeline.framed & rows.keys():
        rows[name].stylize("bold")
        rows[name].stylize("red", 0, 1)
    heads = [f"  {_clean(round_name)}", f"  {_clean(timeline.results_label)}"]
    beside = min(max(map(cell_len, [*heads, *(row.plain for row in rows.values())])), _LONGEST_NAME)
    size = min(max([_NARROWEST, *(cell_len(each) + 2 for each in words.values())]), _WIDEST)
    most = max((width - beside) // (size + 1), 1)
    tables = []
    for start in range(0, max(len(rounds), 1), most):
        shown = rounds[start : start + most]
        table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim not bold")
        table.add_column(Text(heads[0]), no_wrap=True, width=beside)
        for number in shown:
            table.add_column(str(number), no_wrap=True, width=size, justify="center")
        for name, row in rows.items():
            cells = ((name, number) for number in shown)
            table.add_row(row, *(Text(words.get(place, ""), styles.get(place, "")) for place in cells))
        if timeline.results:
            table.add_row(Text(heads[1]), *(Text(_clean(timeline.results.get(n, ""))) for n in shown), style="dim")
        tables.append(table)
    return tables


def _words(cell: TimelineCell | None, labels: Sequence[str], signs: Mapping[str, str]) -> str:
    """Return what stands in a cell, marks last."""
    text = _clean((cell.text or cell.state)[:200]) if cell else ""
    return text + "".join(signs.get(label, "") for label in labels)


def _style(cell: TimelineCell | None, labels: Sequence[str], colors: Mapping[str, str]) -> Style:
    back = colors.get(cell.state or cell.text) if cell else None
    if back is None:
        return Style(color="red", bold=True) if FAILED in labels else Style(dim=WAITING in labels)
    return Style(color="#000000" if _is_light(back) else "#FFFFFF", bgcolor=back, bold=FAILED in labels)


def _colors(timeline: Timeline) -> dict[str, str]:
    """Return the color of each state; of a game that has not said any yet, of each of the first few replies."""
    if timeline.states:
        return {state.name: state.color for state in timeline.states}
    texts = dict.fromkeys(cell.text for cell in timeline.cells.values() if cell.text)
    return dict(zip(texts, _PALETTE, strict=False))


def _signs(timeline: Timeline) -> dict[str, str]:
    """Return the sign of each label of a mark that occurs; of a game with too many, only the first have one."""
    own = dict.fromkeys(mark.label for mark in timeline.marks if mark.label not in _OF_REPLIES)
    return _OF_REPLIES | dict(zip(own, _OF_GAMES, strict=False))


def _legend(timeline: Timeline) -> Iterator[Text]:
    used = {cell.state for cell in timeline.cells.values()}
    labels = {state.name: state.label for state in timeline.states if state.name in used}
    for key, back in _colors(timeline).items():
        if key in labels or not timeline.states:
            yield Text.assemble(("  ", Style(bgcolor=back)), " ", _clean(labels.get(key, key)))
    if timeline.framed:
        label = _clean(timeline.framed_label)
        yield Text.assemble((_FRAMED, "red"), f" {label[:1].upper()}{label[1:]}")
    seen = {mark.label for mark in timeline.marks} - {WAITING}
    for label, sign in _signs(timeline).items():
        if label in seen:
            yield Text.assemble((sign, "bold red" if label == FAILED else ""), f" {_clean(label)}")


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


def _is_light(color: str) -> bool:
    red, green, blue = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue > 140


# The screen of `parley play`


def can_draw(stream: TextIO) -> bool:
    """Whether a matrix can be drawn on a stream: a terminal with colors, room, and letters beyond ASCII."""
    if not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb":
        return False
    if "utf" not in (stream.encoding or "").lower():
        return False
    size = Console(file=stream).size
    return size.width >= _LEAST[0] and size.height >= _LEAST[1]


def print_final(watched: WatchedGame, heading: Sequence[str], stream: IO[str]) -> None:
    """Print the whole matrix of a game on a terminal."""
    console = Console(file=stream, force_terminal=True, highlight=False)
    console.print(final_view(watched, heading, console.width))


class LiveScreen(WatchedGame):
    """A game on a terminal."""

    def __init__(self, game: Game, heading: Sequence[str], stream: TextIO) -> None:
        super().__init__(game)
        self._heading = heading
        self._heard: list[logging.LogRecord] = []
        self._console = Console(file=stream, force_terminal=True, highlight=False)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the game while the context lasts, and what is known of it when it ends; however that comes about."""
        logger = logging.getLogger(NAME)
        handlers = logger.handlers[:]
        logger.handlers[:] = [Hearing(self._heard.append)]  # it would tear the screen
        # On a screen of its own: what was there before comes back, and a new size leaves no traces.
        live = Live(
            get_renderable=self._view,
            console=self._console,
            screen=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        try:
            with live:
                yield
        finally:
            logger.handlers[:] = handlers
            if self.exchanges:
                print_final(self, self._heading, self._console.file)
            for record in self._heard:
                if record.levelno >= logging.WARNING:
                    logger.handle(record)

    def _view(self) -> Group:
        last = self._heard[-1] if self._heard and time.time() - self._heard[-1].created < _NOTE_SECONDS else None
        try:
            return live_view(self, self._heading, self._console.width, "" if last is None else last.getMessage())
        except Exception as error:  # noqa: BLE001 (a display that fails must not end the game)
            return Group(f"the display failed, and the game goes on: {type(error).__name__}")
