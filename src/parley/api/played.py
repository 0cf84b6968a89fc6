"""Games that were played just now, and are in memory alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from parley.api.chosen import is_seed
from parley.api.frames import attempts_of
from parley.api.shown import Shown
from parley.engine.models import load_models
from parley.engine.weights import check_source
from parley.errors import UsageError
from parley.games.base import Outcome
from parley.play.live import outcome_line, play_once, transcript_lines
from parley.play.record_content import attempt_rows
from parley.play.runner import Play
from parley.study import Study
from parley.study.condition import Condition, Simulation
from parley.text import counted, one_line


async def play(
    study: Study, condition: Condition, seed: int, endpoints: Sequence[Path], engine_timeout: float
) -> "Played":
    """Play one game, as `parley play` does. Raises UsageError if it cannot be played here."""
    if not is_seed(seed):
        raise UsageError(f"seed={one_line(str(seed), 40)}: give a whole number from 0")
    if type(engine_timeout) not in (int, float) or not engine_timeout > 0:
        raise UsageError(f"engine_timeout={one_line(repr(engine_timeout), 40)}: give a number of seconds above 0")
    if not endpoints:
        _check_models(study, condition)
    simulation = Simulation(condition, int(seed))
    played = await play_once(study, simulation, endpoints, engine_timeout, lambda exchanges: None)
    return Played(study.name, simulation, played)


def _check_models(study: Study, condition: Condition) -> None:
    """Raise UsageError for a model that only the records of the study describe, or whose weights are not here."""
    entries = load_models(study.models_file) if condition.entries and study.models_file.exists() else {}
    for name, entry in condition.entries.items():
        if name not in entries:
            raise UsageError(f"{study.models_file}: no entry {name!r}; add it to play, or give endpoint=")
        check_source(name, entry, study.models_file)


class Played(Shown):
    """A game that was played just now. `Study.play` returns it; nothing of it is on the disk.

    >>> import parley
    >>> game = parley.run(parley.load("demo").play(b=1, seed=2))
    >>> game.outcome.name, game.outcome.rounds
    ('invalid_consensus', 7)
    """

    def __init__(self, study: str, simulation: Simulation, play: Play) -> None:
        self._study = study
        self._simulation = simulation
        self._play = play

    @property
    def axes(self) -> dict[str, str | int | float]:
        """The value of every axis of its condition.

        >>> import parley
        >>> parley.run(parley.load("demo").play(b=1)).axes["model"]
        'majority'
        """
        return dict(self._simulation.condition.axes)

    @property
    def seed(self) -> int:
        """The seed of its simulation.

        >>> import parley
        >>> parley.run(parley.load("demo").play(b=1, seed=2)).seed
        2
        """
        return self._simulation.seed

    @property
    def digest(self) -> str:
        """SHA-256 of what the game saw and decided, as records have it: equal for games that went alike.

        >>> import parley
        >>> study = parley.load("demo")
        >>> game = parley.run(study.play(b=1, seed=2))
        >>> game.digest == study.results().records.where(b=1, seed=2)[0].digest
        True
        """
        return self._play.digest

    @property
    def outcome(self) -> Outcome:
        """How it ended: `name`, `detail`, `diagnosis`, `rounds`, `finished_early` and the game's `metrics`.

        >>> import parley
        >>> parley.run(parley.load("demo").play(b=1, seed=2)).outcome.finished_early
        True
        """
        return self._play.outcome

    @property
    def trace(self) -> list[dict[str, Any]]:
        """What the game noted of each round; its keys are the game's own.

        >>> import parley
        >>> game = parley.run(parley.load("demo").play(b=1, seed=2))
        >>> len(game.trace), game.trace[0]["round"]
        (7, 1)
        """
        return list(self._play.outcome.as_json()["trace"])

    @property
    def transcript(self) -> pd.DataFrame:
        """Every question and reply, a row per attempt, with the columns of `Results.attempts`.

        >>> import parley
        >>> game = parley.run(parley.load("demo").play(b=0, seed=2))
        >>> game.transcript[["round", "phase", "agent", "role"]].head(2)
           round    phase    agent    role
        0      1  propose  agent_1  honest
        1      1  propose  agent_2  honest
        """
        players = self._simulation.players(self._simulation.game())
        return attempts_of([(self._simulation, attempt_rows(self._simulation, self._play, players))], None)

    def text(self, reasoning: bool = False) -> str:
        """Return what `parley play` prints: a line per reply; with `reasoning` the texts too, private notes included.

        >>> import parley
        >>> game = parley.run(parley.load("demo").play(b=0, seed=2))
        >>> print(game.text().splitlines()[0])
        Round 1, propose
        """
        decisive = self._simulation.condition.game.read_texts
        lines = transcript_lines(self._play.exchanges, reasoning, decisive)
        return "\n".join([*lines, outcome_line(self._simulation.condition.game, self.outcome)])

    def _facts(self) -> dict[str, str]:
        outcome, exchanges = self.outcome, self._play.exchanges
        ending = self._simulation.condition.game.class_of(outcome.name, outcome.detail)
        detail = f" ({outcome.detail})" if outcome.detail not in (None, ending) else ""
        unusable = sum(exchange.reply.failure is not None for exchange in exchanges)
        path = self._simulation.condition.path.replace("/", ", ")
        return {
            "Played": f"{self._study}: {path}, seed={self.seed}",
            "outcome": f"{ending}{detail}, after {counted(outcome.rounds, 'round')}",
            "replies": f"{len(exchanges):,}, {unusable:,} of them unusable",
        }
