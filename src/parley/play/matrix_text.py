"""A matrix as lines of a terminal: what is wide is cut, what comes from a model is cleaned, and cells stay aligned.

Lines are `rich.text.Text`, never markup: what a reply holds is letters.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from textwrap import wrap

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text

from parley.games.base import Game, Outcome
from parley.play.board import Seen
from parley.play.matrix import Cell, Matrix, Row, parts
from parley.play.runner import Exchange
from parley.text import counted, one_line

FAILED, AGAIN, OPEN, FRAMED = "✗", "↻", "…", "◆"
_CUT = "…"
_NARROWEST, _ENOUGH, _WIDEST = 4, 8, 16  # columns of the terminal for a cell
_LONGEST_NAME = 16
_FEWEST_SAID, _MOST_SAID = 2, 10  # lines of replies below
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
# Terminals do not agree how wide they are: marks on letters, and signs that change the emoji before them.
_OF_NO_WIDTH = {"Mn", "Me"}
_MODIFIERS = range(0x1F3FB, 0x1F400)


def screen_lines(seen: Seen, heading: Sequence[str], note: str, game: Game, size: tuple[int, int]) -> list[Text]:
    """Return what a terminal of `size` (columns, lines) shows of a game that is played, and of what else goes on."""
    width, height = size
    top = [
        _cut(Text(line, style="bold" if not at else "dim"), width) for at, line in enumerate(heading[: height // 6])
    ]
    top += [_cut(line, width) for line in (*_state(seen, game, note), Text())]
    legend = _wrapped(_legend(seen.matrix), width)[:2]
    results = 1 + bool(seen.matrix.results)  # and the line of the numbers
    room = height - len(top) - results - len(legend) - 2 - _FEWEST_SAID
    rows = _chosen(seen.matrix.rows, max(room, 1))
    body = next(_blocks(seen.matrix, rows, game.evidence.round_name, width, seen.longest + 2), [])
    left = len(seen.matrix.rows) - len(rows)
    if left:
        body.append(Text(f"and {counted(left, 'more agent')}", style="dim"))
    said_room = min(max(height - len(top) - len(body) - len(legend) - 2, 0), _MOST_SAID)
    said = [_said(exchange, game, width) for exchange in seen.recent[-said_room:]] if said_room else []
    return [*top, *body, Text(), *legend, Text(), *said][:height]


def final_lines(seen: Seen, heading: Sequence[str], game: Game, width: int) -> list[Text]:
    """Return the whole matrix of a game, in as many blocks of rounds as it needs, and how the game ended."""
    lines = [
        _cut(Text(part, style="dim" if at else "bold"), width)
        for at, line in enumerate(heading)
        for part in wrap(line, width, break_on_hyphens=False)
    ]
    for block in _blocks(seen.matrix, seen.matrix.rows, game.evidence.round_name, width):
        lines += [Text(), *block]
    ending = (
        _cut(Text(part, style=line.style), width)
        for line in _state(seen, game, "")
        for part in wrap(line.plain, width, break_on_hyphens=False)
    )
    return [*lines, Text(), *_wrapped(_legend(seen.matrix), width), Text(), *ending]


def outcome_words(game: type[Game], outcome: Outcome) -> str:
    """Return in words how a game ended."""
    name = game.class_of(outcome.name, outcome.detail)
    label = next((each.label for each in game.outcomes if each.name == name), name)
    details = dict.fromkeys(part for part in (outcome.detail, outcome.diagnosis) if part and part != name)
    why = f" ({', '.join(details)})".replace("_", " ") if details else ""
    rounds = counted(outcome.rounds, game.evidence.round_name)
    return one_line(f"{label}{why}, after {rounds}")


def _state(seen: Seen, game: Game, note: str) -> Iterator[Text]:
    """Yield what goes on, or how the game ended, and what was counted."""
    clock = f"{int(seen.seconds) // 60}:{int(seen.seconds) % 60:02}"
    counts = [clock, f"{seen.attempts:,} repl{'y' if seen.attempts == 1 else 'ies'}", f"{seen.unusable:,} unusable"]
    counts += [f"{seen.tokens:,} tokens"] if seen.tokens else []
    if seen.outcome is not None:
        yield Text(f"Outcome: {outcome_words(type(game), seen.outcome)}", style="bold")
        yield Text(" · ".join(counts), style="dim")
        return
    sign = _SPINNER[int(seen.seconds * 4) % len(_SPINNER)] + " "
    if seen.asks:
        first = seen.asks[0]
        done = len(seen.asks) - len(seen.waiting)
        words = f"Round {first.round}, {one_line(first.phase)}: {done} of {len(seen.asks)} answered"
    else:
        words = one_line(note) or "getting ready"
    yield Text.assemble((sign, "cyan"), words, (f" · {' · '.join(counts)}", "dim"))
    if note and seen.asks:
        yield Text(one_line(note), style="yellow")


def _said(exchange: Exchange, game: Game, width: int) -> Text:
    """Return one reply in a line: who, what was decided, and the texts."""
    ask, line = exchange.ask, Text()
    line.append(f"{_clean(ask.agent)} ", style="bold red" if _is_last_role(game, ask.role) else "bold")
    if exchange.reply.value is None:
        line.append(f"{FAILED} unusable reply ({exchange.reply.failure}): ", style="red")
        line.append(_clean(exchange.entry.text[:2000]), style="dim")
        return _cut(line, width)
    decided, texts = parts(exchange, game.read_texts)
    line.append(_clean(" ".join(map(str, decided))[:2000]))
    for name, text in texts.items():
        if text:
            line.append(f"  {name}: ", style="dim").append(_clean(str(text)[:2000]), style="italic")
    return _cut(line, width)


def _is_last_role(game: Game, role: str) -> bool:
    return len(game.roles) > 1 and role == game.roles[-1]


def _chosen(rows: Sequence[Row], most: int) -> list[Row]:
    """Return the rows that there is room for: those that stand out, then the first ones, in their order."""
    if len(rows) <= most:
        return list(rows)
    kept = sorted(rows, key=lambda row: not row.framed)[: max(most - 1, 1)]  # a line says how many more there are
    return [row for row in rows if row in kept]


def _blocks(matrix: Matrix, rows: Sequence[Row], round_name: str, width: int, least: int = 0) -> Iterator[list[Text]]:
    """Yield the matrix as blocks of rounds that fit into `width`.

    With `least` the last rounds alone, with cells of so many letters, so that their width stays what it is.
    """
    names = [_fitted(("◆ " if row.framed else "  ") + _clean(row.label), _LONGEST_NAME) for row in rows]
    label = _fitted("  " + _clean(matrix.results_label), _LONGEST_NAME) if matrix.results else ""
    title = _fitted("  " + _clean(round_name), _LONGEST_NAME)
    beside = max(cell_len(name) for name in (*names, label, title)) + 1
    columns = matrix.columns
    if not columns:
        yield [Text(set_cell_size(name, beside)) for name in names]
        return
    size = _cell_size(matrix, least, max(width - beside, _NARROWEST) if least else None)
    most = max((width - beside + 1) // (size + 1), 1)
    starts = [max(len(columns) - most, 0)] if least else range(0, len(columns), most)
    for start in starts:
        shown = columns[start : start + most]
        numbers = Text(set_cell_size(title, beside), style="dim")
        for number in shown:
            before = "‹" if least and number == shown[0] and start else ""
            numbers.append(_centered(f"{before}{number}", size) + " ")
        lines = [numbers]
        for row, name in zip(rows, names, strict=True):
            line = Text(set_cell_size(name, beside), style="bold" if row.framed else "")
            if row.framed:
                line.stylize("red", 0, 1)
            for number in shown:
                _draw(line, matrix.cells.get((row.name, number), Cell()), size)
            lines.append(line)
        if matrix.results:
            line = Text(set_cell_size(label, beside), style="dim")
            for number in shown:
                line.append(_centered(_clean(matrix.results.get(number, "")), size) + " ")
            lines.append(line)
        for line in lines:
            line.right_crop(1)  # the space behind the last cell
            line.no_wrap = True
        yield lines


def _cell_size(matrix: Matrix, least: int, room: int | None) -> int:
    """Return how wide cells are: as their longest needs, less where more rounds fit into a `room` so."""
    needed = max((cell_len(_words(cell)) for cell in matrix.cells.values()), default=0)
    needed = min(max(needed + 2, least, _NARROWEST, len(str(matrix.columns[-1])) + 1), _WIDEST)
    if room is None:
        return needed
    return min(needed, max(room // len(matrix.columns) - 1, _ENOUGH))


def _words(cell: Cell) -> str:
    """Return what stands in a cell, marks last."""
    text = _clean(cell.text[:200])
    if cell.open:
        return f"{text} {OPEN}".strip()
    tail = (AGAIN if cell.again and not cell.failed else "") + cell.signs
    return f"{FAILED} {text}".strip() + tail if cell.failed else text + tail


def _draw(line: Text, cell: Cell, size: int) -> None:
    words, color = _centered(_words(cell), size), cell.color
    if color is not None:
        back = hex_of(color)
        style = Style(color="#000000" if _is_light(back) else "#FFFFFF", bgcolor=back, bold=cell.failed)
    else:
        style = Style(color="red", bold=True) if cell.failed else Style(dim=cell.open)
    line.append(words, style=style).append(" ")


def _legend(matrix: Matrix) -> list[Text]:
    found = []
    for label, color in matrix.colors.items():
        back = hex_of(color)
        found.append(Text.assemble(("  ", Style(bgcolor=back)), " ", _fitted(_clean(label), 40)))
    found += [Text(f"{sign} {_fitted(_clean(label), 60)}") for label, sign in matrix.signs.items()]
    cells = matrix.cells.values()
    if any(row.framed for row in matrix.rows):
        found.append(Text.assemble((FRAMED, "red"), f" {_clean(matrix.framed_label)}"))
    if any(cell.failed for cell in cells):
        found.append(Text.assemble((FAILED, "bold red"), " unusable reply"))
    if any(cell.again and not cell.failed for cell in cells):
        found.append(Text(f"{AGAIN} asked again"))
    return found


def _wrapped(items: Sequence[Text], width: int) -> list[Text]:
    """Return short texts in as many lines as they need."""
    lines: list[Text] = []
    for item in items:
        if lines and lines[-1].cell_len + 3 + item.cell_len <= width:
            lines[-1].append("   ").append_text(item)
        else:
            lines.append(_cut(item.copy(), width))
    return lines


@lru_cache(4096)
def _clean(text: str) -> str:
    """Return text from outside as printable letters whose width terminals agree on."""
    line = unicodedata.normalize("NFC", one_line(text))
    kept = [c for c in line if unicodedata.category(c) not in _OF_NO_WIDTH and ord(c) not in _MODIFIERS]
    return "".join(c if c.isprintable() else "\ufffd" for c in kept)  # no letter yet, or one that XML does not allow


def _fitted(text: str, width: int) -> str:
    """Return a text that is at most so wide."""
    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + _CUT


def _centered(text: str, width: int) -> str:
    fitted = _fitted(text, width)
    return set_cell_size(" " * ((width - cell_len(fitted)) // 2) + fitted, width)


def _cut(line: Text, width: int) -> Text:
    line.truncate(width, overflow="ellipsis")
    line.no_wrap = True
    return line


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
