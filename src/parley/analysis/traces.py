"""The one pass over the traces of a study: each is read once, and all that is made of traces takes what it needs."""

from collections.abc import Iterable, Iterator, Sequence

from parley.analysis.averages import Averages
from parley.analysis.reactions import Behaviors, Reactions, Trace
from parley.analysis.simulations import PlayedGame
from parley.play.record import read_trace
from parley.study import Study

Recorded = tuple[PlayedGame, Trace]


def recorded(study: Study, games: Iterable[PlayedGame]) -> Iterator[Recorded]:
    """Yield each game with its trace; nothing is read for a game that makes nothing of traces."""
    evidence = study.game.evidence
    if evidence.measures or evidence.columns.turns or evidence.reactions or evidence.behaviors:
        for game in games:
            yield game, read_trace(game.simulation.record(study.name))


class FromTraces:
    """What the tables `rounds`, `reactions` and `behaviors` are made of, once all traces went by."""

    def __init__(self, study: Study, games: Sequence[PlayedGame]) -> None:
        self.rounds = Averages(study)
        self.reactions = Reactions(study, games)
        self.behaviors = Behaviors(study)

    def following(self, found: Iterable[Recorded]) -> Iterator[Recorded]:
        """Yield each game with its trace, after a look at it."""
        for game, trace in found:
            self.rounds.add_rounds(game.simulation.condition.name, game.summary.outcome, trace)
            self.reactions.add(game, trace)
            self.behaviors.add(game, trace)
            yield game, trace
