"""The one pass over the traces of a study: each is read once, and all that is made of traces takes what it needs."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from parley.analysis.averages import Averages, Rounds, rounds_of
from parley.analysis.reactions import Behaviors, Judged, Reacted, Reactions
from parley.analysis.simulations import PlayedGame
from parley.analysis.turns import Recorded
from parley.forked import forked_map
from parley.play.record import read_trace
from parley.study import Study

_PIECE = 200  # games that a process reads at once
Found = tuple[Rounds, list[Reacted], Judged]
Made = TypeVar("Made")


def recorded(study: Study, games: Iterable[PlayedGame]) -> Iterator[Recorded]:
    """Yield each game with its trace; nothing is read for a game that makes nothing of traces."""
    evidence = study.game.evidence
    if evidence.measures or evidence.columns.turns or evidence.reactions or evidence.behaviors:
        for game in games:
            yield game, read_trace(game.simulation.record(study.name))


class FromTraces:
    """What the tables `rounds`, `reactions` and `behaviors` are made of, once all traces were read."""

    def __init__(self, study: Study, games: Sequence[PlayedGame]) -> None:
        self._study, self._games = study, games
        self.rounds = Averages(study)
        self.reactions = Reactions(study, games)
        self.behaviors = Behaviors(study)

    def read(self, make: Callable[[Sequence[Recorded]], Made], processes: int = 1) -> Iterator[Made]:
        """Take what is needed of all traces, and yield what `make` makes of some at once, in order.

        So many processes read them, and make.
        """

        def read_piece(games: Sequence[PlayedGame]) -> tuple[list[Found], Made]:
            those = list(recorded(self._study, games))
            found = [
                (
                    rounds_of(self._study, game.summary.outcome, trace),
                    self.reactions.found(game, trace),
                    self.behaviors.found(game, trace),
                )
                for game, trace in those
            ]
            return found, make(those)

        pieces = [self._games[at : at + _PIECE] for at in range(0, len(self._games), _PIECE)]
        for games, (found, made) in zip(pieces, forked_map(read_piece, pieces, processes), strict=True):
            for game, (rounds, reactions, behaviors) in zip(games, found, strict=False):  # none without traces
                self.rounds.add_rounds(game.simulation.condition.name, rounds)
                self.reactions.add(game, reactions)
                self.behaviors.add(game, behaviors)
            yield made
