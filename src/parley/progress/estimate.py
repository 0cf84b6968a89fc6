"""How fast a study is answered and played, and how long what is left will take: by what was seen of it so far."""

from collections.abc import Sequence

from parley.play.pace import KEPT_SECONDS, Pace, TimeLeft, together
from parley.progress.state import Cell, Playing
from parley.study.condition import SCRIPTED


class Estimate:
    """Counts the replies and the finished simulations of a study's conditions; times are seconds since the epoch."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._cells = cells
        self.replies = Pace()
        self.finishes = Pace()
        self._by_kind: dict[str, tuple[Pace, Pace]] = {}  # replies, simulations; by the kind of engine

    def reply(
        self, cell: Cell, asked: float, came: float, count: int = 1, prompt: int = 0, completion: int = 0
    ) -> None:
        """Count replies of a condition, with the tokens that they read and wrote."""
        self.replies.add(came, count, (prompt, completion), asked)
        self._of(cell)[0].add(came, count, began=asked)

    def finish(self, cell: Cell, at: float) -> None:
        """Count a simulation that ended."""
        self.finishes.add(at)
        self._of(cell)[1].add(at)

    def forget_before_gap(self, seconds: float) -> None:
        """Forget what was before the last pause of so many seconds or more: it was another run."""
        for pace in (self.replies, self.finishes, *(pace for pair in self._by_kind.values() for pace in pair)):
            pace.forget_before_gap(seconds)

    def finishing(self, now: float) -> float | None:
        """Return how many simulations end per second, of those engines that have any left; None if unknown."""
        kinds = {cell.kind for cell in self._cells if cell.left}
        rates = [self._by_kind[kind][1].rates(now) for kind in kinds if kind in self._by_kind]
        known = [rate[0] for rate in rates if rate is not None]
        return sum(known) if known else None

    def left(self, now: float) -> TimeLeft | None:
        """Return how long what is left will take; None if nothing is known of it."""
        kinds: dict[str, list[Cell]] = {}
        for cell in self._cells:
            if cell.left:
                kinds.setdefault(cell.kind, []).append(cell)
        parts = {kind: self._left_of(kind, cells, now) for kind, cells in kinds.items()}
        if parts.get(SCRIPTED) is None and len(parts) > 1:  # those that ask nobody take next to no time
            parts.pop(SCRIPTED, None)
        return together(list(parts.values()))

    def _of(self, cell: Cell) -> tuple[Pace, Pace]:
        return self._by_kind.setdefault(cell.kind, (Pace(), Pace()))

    def _left_of(self, kind: str, cells: list[Cell], now: float) -> TimeLeft | None:
        """Return how long the simulations of one engine will take, by their replies if it is a model's."""
        replies, simulations = self._by_kind.get(kind, (Pace(), Pace()))
        pace = replies.rates(now, KEPT_SECONDS)
        if kind == SCRIPTED or pace is None:
            each = simulations.rates(now, KEPT_SECONDS)
            return None if each is None else TimeLeft(sum(cell.left for cell in cells) / each[0])
        mine = [cell for cell in self._cells if cell.kind == kind]
        counted = sum(cell.counted for cell in mine)
        usual = sum(cell.replies for cell in mine) / counted if counted else None
        longest = [value for cell in mine for value in _longest(cell)] if usual is None else []
        if usual is None and not longest:
            return None
        left = 0.0
        for cell in cells:
            own = _longest(cell) if not counted else []
            expected = cell.replies / cell.counted if cell.counted else usual or max(own or longest)
            seen = cell.unfinished
            left += sum(_replies_left(cell, one, expected) for one in seen) + expected * (cell.left - len(seen))
        return TimeLeft(left / pace[0], "about" if counted else "at most")


def _longest(cell: Cell) -> list[float]:
    """Return the replies that each simulation being played would have after its last possible round."""
    rounds = cell.condition.parameters.longest
    if rounds is None:
        return []
    whole = [list(one.journal.by_round.values()) for one in cell.playing.values() if one.journal.by_round]
    return [max(counts) * rounds for counts in whole]


def _replies_left(cell: Cell, one: Playing, expected: float) -> float:
    """Return how many replies a simulation will still have, if such have `expected` ones in all.

    One that went on for longer may end now, or after its last possible round: halfway between. Those that end first
    are the short ones, so that all others would seem to be about to end.
    """
    replies, rounds = one.journal.replies, cell.condition.parameters.longest
    if replies < expected or rounds is None or not one.journal.by_round:
        return max(expected - replies, 1.0)
    return max((max(one.journal.by_round.values()) * rounds - replies) / 2, 1.0)
