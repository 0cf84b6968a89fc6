"""Single games: the record of one that is on the disk, and one that was played just now; how objects show themselves.

Names and titles may come from anyone: they are cleaned, and escaped in HTML.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from html import escape
from numbers import Integral
from pathlib import Path
from typing import Any

import pandas as pd

from parley import paths
from parley.api.frames import attempt_frame, attempts_of
from parley.engine.models import load_models
from parley.engine.weights import check_source
from parley.errors import UsageError
from parley.play.live import Transcript, play_once
from parley.play.matrix_text import ending, outcome_line
from parley.play.record import Summary, read_trace
from parley.play.record_content import attempt_rows
from parley.play.record_store import read_own
from parley.play.replay import Replayed, replay
from parley.play.runner import Play
from parley.study import Study
from parley.study.condition import Condition, Simulation
from parley.text import one_line

_WIDEST = 108  # characters


class Shown:
    """Something that shows up to three facts of itself, by their names: the first in the heading."""

    def _facts(self) -> Mapping[str, str]:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        facts = [(escape(one_line(key)), escape(one_line(text, 500))) for key, text in self._facts().items()]
        rows = "".join(f"<tr><th>{key}</th><td>{text}</td></tr>" for key, text in facts)
        return f'<table class="parley">{rows}</table>'

    def __repr__(self) -> str:
        (kind, name), *others = self._facts().items()
        return "\n  ".join(one_line(text, _WIDEST) for text in [f"{kind} {name}", *(map(": ".join, others))])


class Record(Shown):
    """The record of one simulation. It is read when something of it is asked for.

    What is asked of a damaged record raises RecordError. `axes` has the value of every axis of its condition, `seed`
    is that of its simulation, `id` the SHA-256 that names this in whatever study it is, and `path` is where it lies.

    >>> import parley
    >>> record = parley.load("demo").results().records[0]
    >>> record
    Record of demo: model=majority, n=4, b=0, prompt=may_exist, seed=0
      outcome: valid_consensus, after 2 rounds
      path: results/demo/simulations/model=majority/n=4/b=0/prompt=may_exist/spec=.../seed=0.parquet
    >>> record.axes["b"], record.seed, record.path.name
    (0, 0, 'seed=0.parquet')
    """

    def __init__(self, study: Study, simulation: Simulation, root: Path) -> None:
        self._study, self._simulation, self._root = study, simulation, root
        self.axes: dict[str, str | int | float] = dict(simulation.condition.axes)
        self.seed, self.id = simulation.seed, simulation.id
        with paths.rooted(root):
            self.path = simulation.record(study.name)

    @property
    def digest(self) -> str:
        """SHA-256 of what the game saw and decided.

        >>> results = parley.load("demo").results()
        >>> results.records[0].digest == results.simulations["digest"][0]
        True
        """
        return self._summary.digest

    @property
    def outcome(self) -> dict[str, Any]:
        """How it ended: `name`, `detail`, `diagnosis`, `rounds`, `finished_early` and the game's `metrics`.

        >>> parley.load("demo").results().records[0].outcome["name"]
        'valid_consensus'
        """
        return dict(self._summary.outcome)

    @property
    def provenance(self) -> dict[str, Any]:
        """What made it, but cannot change it: versions, machine, start and end, the engines that answered.

        >>> sorted(parley.load("demo").results().records[0].provenance)[:3]
        ['ended', 'engines', 'git']
        """
        return dict(self._summary.provenance)

    @property
    def trace(self) -> list[dict[str, Any]]:
        """What the game noted of each round; its keys are the game's own.

        >>> parley.load("demo").results().records[0].trace[0]["round"]
        1
        """
        return read_trace(self.path)

    @property
    def transcript(self) -> pd.DataFrame:
        """Every question and reply, a row per attempt: what `Results.attempts` has of this simulation.

        >>> record = parley.load("demo").results().records[0]
        >>> record.transcript[["round", "phase", "agent"]].head(2)
           round    phase    agent
        0      1  propose  agent_1
        1      1  propose  agent_2
        """
        return attempt_frame([(self._simulation, self.path)])

    def replay(self) -> Replayed:
        """Play it again from what was recorded, with no engine; `identical` says whether the same came of it.

        What differs stands in `difference`. Raises RecordError for a record that this version of Parley cannot play.

        >>> parley.load("demo").results().records[0].replay().identical
        True
        """
        return replay(self.path)

    @cached_property
    def _summary(self) -> Summary:
        return read_own(self.path, self._simulation)

    def _facts(self) -> dict[str, str]:
        condition = self._simulation.condition
        return {
            "Record of": f"{self._study.name}: {condition.name.replace('/', ', ')}, seed={self.seed}",
            "outcome": ending(condition.game, self.outcome),
            "path": str(self.path.relative_to(self._root)),
        }


async def play(
    study: Study, condition: Condition, seed: int, endpoints: Sequence[Path], engine_timeout: float
) -> "Played":
    """Play one game, as `parley play` does. Raises UsageError if it cannot be played here."""
    if not isinstance(seed, Integral) or seed < 0:  # one of NumPy's will do, as data frames have
        raise UsageError(f"seed={one_line(str(seed), 40)}: give a whole number from 0")
    if not endpoints:
        entries = load_models(study.models_file) if condition.entries and study.models_file.exists() else {}
        for name, entry in condition.entries.items():
            if name not in entries:
                raise UsageError(f"{study.models_file}: no entry {name!r}; add it to play, or give endpoint=")
            check_source(name, entry, study.models_file)
    simulation = Simulation(condition, int(seed))
    return Played(study.name, simulation, await play_once(study, simulation, endpoints, engine_timeout))


class Played(Shown):
    """A game that was played just now. `Study.play` returns it; nothing of it is on the disk.

    `axes` has the value of every axis of its condition, `seed` is that of its simulation. `outcome` is how it ended:
    `name`, `detail`, `diagnosis`, `rounds`, `finished_early` and the game's `metrics`. `digest` is the SHA-256 of what
    the game saw and decided, as records have it: equal for games that went alike.

    >>> import parley
    >>> study = parley.load("demo")
    >>> game = parley.run(study.play(b=1, seed=2))
    >>> game.outcome.name, game.outcome.rounds, game.axes["model"], game.seed
    ('invalid_consensus', 7, 'majority', 2)
    >>> game.digest == study.results().records[5].digest
    True
    """

    def __init__(self, study: str, simulation: Simulation, play: Play) -> None:
        self._study, self._simulation, self._play = study, simulation, play
        self.axes: dict[str, str | int | float] = dict(simulation.condition.axes)
        self.seed, self.digest, self.outcome = simulation.seed, play.digest, play.outcome

    @property
    def trace(self) -> list[dict[str, Any]]:
        """What the game noted of each round; its keys are the game's own.

        >>> game = parley.run(parley.load("demo").play(b=1, seed=2))
        >>> len(game.trace), game.trace[0]["round"]
        (7, 1)
        """
        return list(self.outcome.as_json()["trace"])

    @property
    def transcript(self) -> pd.DataFrame:
        """Every question and reply, a row per attempt, with the columns of `Results.attempts`.

        >>> game = parley.run(parley.load("demo").play(b=0, seed=2))
        >>> game.transcript[["round", "phase", "agent", "role"]].head(2)
           round    phase    agent    role
        0      1  propose  agent_1  honest
        1      1  propose  agent_2  honest
        """
        players = self._simulation.players
        return attempts_of([(self._simulation, attempt_rows(self._simulation, self._play, players))])

    def text(self, reasoning: bool = False) -> str:
        """Return what `parley play` prints: a line per reply; with `reasoning` the texts too, private notes included.

        >>> game = parley.run(parley.load("demo").play(b=0, seed=2))
        >>> print(game.text().splitlines()[0])
        Round 1, propose
        """
        decisive = self._simulation.condition.game.read_texts
        lines: list[str] = []
        Transcript(lines.append, reasoning, decisive).phase_over(self._play.exchanges)
        return "\n".join([*lines, outcome_line(self._simulation.condition.game, self.outcome)])

    def _facts(self) -> dict[str, str]:
        condition, exchanges = self._simulation.condition, self._play.exchanges
        unusable = sum(exchange.reply.failure is not None for exchange in exchanges)
        return {
            "Played": f"{self._study}: {condition.name.replace('/', ', ')}, seed={self.seed}",
            "outcome": ending(condition.game, self.outcome.as_json()),
            "replies": f"{len(exchanges):,}, {unusable:,} of them unusable",
        }
