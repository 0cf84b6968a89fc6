"""`parley play`: one simulation, live in the terminal, which is left as it was found."""

import asyncio
import io
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any, TextIO

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console, Group
from rich.live import Live
from rich.terminal_theme import SVG_EXPORT_THEME

from parley.engine.supervisor import temporary_engine
from parley.errors import UsageError
from parley.files import write_new
from parley.games.base import Outcome
from parley.play.matrix import WatchedGame, decided
from parley.play.matrix_text import final_view, live_view, outcome_line
from parley.play.runner import Exchange, Play, Watcher
from parley.play.simulate import Answering, engine_places, paid, play_simulation
from parley.study import Study
from parley.study.condition import Simulation
from parley.text import NAME, Hearing, one_line

_LONGEST_TEXT = 300  # characters of a text
SVG_LEAST, SVG_WIDTH = 64, 110  # columns
_FONTS = "'DejaVu Sans Mono', Menlo, Consolas, 'Liberation Mono', monospace"
_FONT_FACE = re.compile(r"@font-face\s*\{\{.*?\}\}\s*", re.DOTALL)
_LEAST = (40, 12)  # columns and lines of a terminal that has room for a matrix


def play(
    study: Study,
    axes: Mapping[str, Any],
    seed: int,
    endpoints: Sequence[Path],
    engine_timeout: float,
    reasoning: bool,
    show: Callable[[str], None],
    terminal: TextIO | None = None,
    record: Path | None = None,
) -> None:
    """Play the study's first condition that has the given `axes`, and show it.

    As a matrix on `terminal`, if it is one that has room and colors; else a line for each reply goes to `show`, when
    its phase is over. With `reasoning` the lines have the texts, and come below the matrix, too. `record` is a
    picture to make of the last matrix: an .svg file.

    Starts an engine of its own where one is needed and none of `endpoints` is for its model. Raises UsageError if no
    condition fits, if an endpoint is not wanted, if the key of a service is missing, or if `record` cannot be written.
    """
    condition = study.fitting(axes)[0]
    simulation = Simulation(condition, seed)
    heading = [f"{study.name}: {condition.name.replace('/', ' ')}, seed {seed}"]
    if about := simulation.game().about:
        heading.append(one_line(about))
    drawn = terminal if terminal is not None and can_draw(terminal) else None
    decisive = condition.game.read_texts
    screen = LiveScreen(simulation, heading, record, drawn)
    watchers: list[Watcher] = [screen]
    if drawn is None:
        watchers.append(Transcript(show, reasoning, decisive))
        for line in (f"{condition.name}, seed {seed}", *heading[1:]):
            show(line)
    played = asyncio.run(play_once(study, simulation, endpoints, engine_timeout, watchers, screen.shown()))
    if drawn is None:
        show(outcome_line(condition.game, played.outcome))
    elif reasoning:
        for line in transcript_lines(played.exchanges, reasoning, decisive):
            show(line)


async def play_once(
    study: Study,
    simulation: Simulation,
    endpoints: Sequence[Path],
    engine_timeout: float,
    watchers: Sequence[Watcher] = (),
    shown: AbstractContextManager[Callable[[Outcome], None]] | None = None,
) -> Play:
    """Play a simulation with the engines that it needs, and record nothing.

    Those that are no services and not among `endpoints` are started, and stopped at the end. `shown` lasts while it is
    played, and is told of the outcome.
    """
    engines = ExitStack()
    try:
        answering = engines.enter_context(answering_for(study, [simulation], endpoints, engine_timeout))
        with shown or nullcontext() as end:
            played, _ = await play_simulation(simulation, answering, watchers=watchers)
            if end is not None:
                end(played.outcome)
    finally:
        await asyncio.to_thread(engines.close)  # a server takes seconds to end, and others may play
    return played


@contextmanager
def answering_for(
    study: Study, simulations: Sequence[Simulation], endpoints: Sequence[Path], engine_timeout: float
) -> Iterator[Answering]:
    """Provide what answers in simulations that are recorded nowhere; what is no service and not given is started."""
    entries = {name: entry for each in simulations for name, entry in each.condition.entries.items()}
    places = engine_places(entries, endpoints)
    with ExitStack() as stack:
        for model in entries:
            if model not in places:
                places[model] = stack.enter_context(temporary_engine(model, study.models_file))
        budget = stack.enter_context(paid(study, simulations, journals=False))
        yield Answering(places, engine_timeout, budget)


def transcript_lines(
    exchanges: Iterable[Exchange],
    reasoning: bool,
    decisive: frozenset[str],
    heading: str = "",
    longest: int | None = _LONGEST_TEXT,
) -> Iterator[str]:
    """Yield the replies as lines for people, under a heading for each phase; `heading` is the one before.

    Of texts only the `decisive` ones are there, or all with `reasoning`, each cut to its `longest` characters.
    """
    for exchange in exchanges:
        before, heading = heading, _heading(exchange)
        if heading != before:  # where agents speak in turn, each is a phase of its own
            yield heading
        yield from _reply_lines(exchange, reasoning, decisive, longest)


class Transcript(Watcher):
    """Shows the replies of a game as lines, when their phase is over."""

    def __init__(self, show: Callable[[str], None], reasoning: bool, decisive: frozenset[str]) -> None:
        self._show, self._reasoning, self._decisive = show, reasoning, decisive
        self._heading = ""

    def phase_over(self, exchanges: Sequence[Exchange]) -> None:
        """Show the replies of a phase."""
        for line in transcript_lines(exchanges, self._reasoning, self._decisive, self._heading):
            self._show(line)
        self._heading = _heading(exchanges[-1])


def _heading(exchange: Exchange) -> str:
    return f"Round {exchange.entry.round}, {exchange.entry.phase}"


def _reply_lines(
    exchange: Exchange, reasoning: bool, decisive: frozenset[str], longest: int | None = _LONGEST_TEXT
) -> Iterator[str]:
    """Yield one line with what was decided, `decisive` texts among it, and one per other text if `reasoning`."""
    head = f"  {exchange.entry.agent:<9} {exchange.ask.role:<10}"
    if exchange.reply.value is None:
        yield f"{head} {exchange.lacking}"
        texts = {"written": exchange.entry.text}
    else:
        values, texts = decided(exchange, decisive)
        yield " ".join([head, *(one_line(str(value)) for value in values)])
    if reasoning:
        for key, value in {"thought": exchange.entry.reasoning or "", **texts}.items():
            if text := one_line(value, longest):
                yield f"      {key}: {text}"


# The screen, and a picture of it


def check_target(path: Path) -> None:
    """Raise UsageError if a picture cannot be written there, before anything is played."""
    if path.suffix != ".svg":
        raise UsageError(f"{path}: --record writes a picture; end its name in .svg")
    if path.exists():
        raise UsageError(f"{path}: exists already, and nothing is overwritten; choose another name")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: its folder does not exist; make it first")


def write_svg(path: Path, view: Callable[[int], Group], title: str) -> None:
    """Write what a terminal shows as a picture: `view` returns it for a width, in columns.

    Raises UsageError if it cannot be written.
    """
    console = Console(
        file=io.StringIO(),
        width=SVG_WIDTH,
        record=True,
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
        highlight=False,
    )
    console.width = max(console.measure(view(SVG_WIDTH)).maximum, SVG_LEAST)
    console.print(view(console.width))
    form = _FONT_FACE.sub("", CONSOLE_SVG_FORMAT).replace("Fira Code, monospace", _FONTS)
    text = console.export_svg(title=title, theme=SVG_EXPORT_THEME, code_format=form)
    write_new({path: text})


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
    console.print(final_view(watched.see(), heading, console.width))


class LiveScreen(WatchedGame):
    """A game on a screen, in a picture, or both."""

    def __init__(
        self, simulation: Simulation, heading: Sequence[str], record: Path | None, stream: TextIO | None
    ) -> None:
        """`stream` is the terminal to draw on, None for none. Raises UsageError if `record` cannot be written."""
        super().__init__(simulation.game())
        self._heading, self._record = heading, record
        if record is not None:
            check_target(record)
        self._console = None if stream is None else Console(file=stream, force_terminal=True, highlight=False)

    @contextmanager
    def shown(self) -> Iterator[Callable[[Outcome], None]]:
        """Show the game while the context lasts, and what is known of it when it ends; however that comes about."""
        logger = logging.getLogger(NAME)
        handlers = logger.handlers[:]
        heard: list[logging.LogRecord] = []
        live: AbstractContextManager[object] = nullcontext()
        if self._console is not None:
            logger.handlers[:] = [Hearing(heard.append)]  # it would tear the screen
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
                yield self.end
        finally:
            logger.handlers[:] = handlers
            self._finish()
            for record in heard:
                if record.levelno >= logging.WARNING:
                    logger.handle(record)

    def _finish(self) -> None:
        """Print the whole matrix, and make the picture."""
        snapshot = self.see()
        if self._console is not None and snapshot.exchanges:
            print_final(self, self._heading, self._console.file)
        if self._record is not None and snapshot.exchanges:
            write_svg(self._record, lambda width: final_view(snapshot, self._heading, width), "parley play")

    def _view(self) -> Group:
        assert self._console is not None
        try:
            return live_view(self.see(), self._heading, self._console.size)
        except Exception as error:  # noqa: BLE001 (a display that fails must not end the game)
            return Group(f"the display failed, and the game goes on: {type(error).__name__}")
