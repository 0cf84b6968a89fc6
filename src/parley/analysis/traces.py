"""The one pass over the traces of a study: each is read once, and all that is made of traces takes what it needs."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

from parley.analysis.averages import Averages, Rounds, Share, by_player, rounds_of
from parley.analysis.columns import describe
from parley.analysis.reactions import Behaviors, Judged, Reacted, Reactions
from parley.analysis.simulations import PlayedGame, simulation_row
from parley.analysis.turns import Recorded
from parley.errors import RecordError
from parley.forked import forked_map
from parley.games.evidence import Evidence
from parley.play.record import read_trace
from parley.study import Study
from parley.text import one_line

_PIECE = 200  # games that a process reads at once
Found = tuple[Rounds, list[Share], list[Reacted], Judged]
Made = TypeVar("Made")


def recorded(study: Study, games: Iterable[PlayedGame]) -> Iterator[Recorded]:
    """Yield each game with its trace; nothing is read for a game that makes nothing of traces.

    Raises RecordError as `read_trace`, and for a trace that has nothing of the game.
    """
    evidence = study.game.evidence
    by_agent = type(evidence).of_agents is not Evidence.of_agents
    if by_agent or evidence.measures or evidence.columns.turns or evidence.reactions or evidence.behaviors:
        for game in games:
            path = game.simulation.record(study.name)
            trace = read_trace(path)
            if not trace and game.summary.outcome["rounds"]:
                raise RecordError(f"{path}: its trace has no rounds; delete it and run the study again")
            yield game, trace


_NUMBER = (int, float)
_TYPES = {"int64": _NUMBER, "double": _NUMBER, "bool": (bool,), "string": (str, list, dict)}  # of metrics, as JSON
# What reading a trace or an outcome raises that no game makes, whatever its checksums say.
_IMPOSSIBLE = (RecordError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError)


class ImpossibleTracesError(Exception):
    """Some records have a trace that no game makes; `problems` says what is wrong with each."""

    def __init__(self, problems: dict[Path, str]) -> None:
        super().__init__(*problems.values())
        self.problems = problems


class FromTraces:
    """What the tables `rounds`, `players`, `reactions` and `behaviors` are made of, once all traces were read."""

    def __init__(self, study: Study, games: Sequence[PlayedGame]) -> None:
        self._study, self._games = study, games
        self._column = cache(lambda name: describe("simulations", name, study.axes, study.game))
        self._shares = {quantity.name for quantity in study.game.evidence.quantities if quantity.share}
        self.rounds = Averages(study)
        self.shares: list[Share] = []
        self.reactions = Reactions(study, games)
        self.behaviors = Behaviors(study)

    def read(self, make: Callable[[Sequence[Recorded]], Made], processes: int = 1) -> Iterator[Made]:
        """Take what is needed of all traces, and yield what `make` makes of some at once, in order.

        So many processes read them, and make. Raises ImpossibleTracesError once all were read.
        """

        def taken(games: Sequence[PlayedGame]) -> tuple[list[Found], Made]:
            for game in games:
                self._require_possible(game)
            those = list(recorded(self._study, games))
            found = [
                (
                    rounds_of(self._study, game.summary.outcome, trace),
                    by_player(game, trace),
                    self.reactions.found(game, trace),
                    self.behaviors.found(game, trace),
                )
                for game, trace in those
            ]
            return found, make(those)

        def read_piece(games: Sequence[PlayedGame]) -> tuple[list[Found], Made] | dict[Path, str]:
            try:
                return taken(games)
            except _IMPOSSIBLE:
                return {path: problem for game in games for path, problem in self._problem(taken, game)}

        pieces = [self._games[at : at + _PIECE] for at in range(0, len(self._games), _PIECE)]
        impossible: dict[Path, str] = {}
        for games, read in zip(pieces, forked_map(read_piece, pieces, processes), strict=True):
            if isinstance(read, dict):
                impossible |= read
                continue
            found, made = read
            for game, (rounds, shares, reactions, behaviors) in zip(games, found, strict=False):  # none without traces
                self.rounds.add_rounds(game.simulation.condition.name, rounds)
                self.shares += shares
                self.reactions.add(game, reactions)
                self.behaviors.add(game, behaviors)
            yield made
        if impossible:
            raise ImpossibleTracesError(impossible)

    def _require_possible(self, game: PlayedGame) -> None:
        """Raise one of _IMPOSSIBLE for a record whose metrics are not what they are declared to be."""
        simulation_row(game.simulation, game.summary)
        for name, value in game.summary.outcome["metrics"].items():
            column = self._column(name)
            types = _TYPES.get(column.kind, ()) if column is not None else ()
            least, most = (0, 1) if name in self._shares else (-(2**53), 2**53)
            is_wrong = bool(types) and value is not None and type(value) not in types
            if is_wrong or (types == _NUMBER and value is not None and (value < least or value > most)):
                raise ValueError(f"{name} is {one_line(repr(value), 60)}")

    def _problem(
        self, taken: Callable[[Sequence[PlayedGame]], object], game: PlayedGame
    ) -> Iterator[tuple[Path, str]]:
        """Yield the record of a game of which nothing can be taken, and why."""
        try:
            taken([game])
        except _IMPOSSIBLE as error:
            path, why = game.simulation.record(self._study.name), one_line(repr(error), 150)
            yield path, f"{path}: its outcome or trace is of no game ({why}); delete it and run the study again"
