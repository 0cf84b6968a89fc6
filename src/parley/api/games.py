"""Single games: the record of one that is on the disk, and one that was played just now; how objects show themselves.

Names and titles may come from anyone: they are cleaned, and escaped in HTML.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, overload

import pandas as pd

from parley import paths
from parley.api.frames import among, attempt_frame, attempts_of, is_seed, selection
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
from parley.text import counted, one_line

_WIDEST = 110  # characters


class Shown:
    """Something that shows up to three facts of itself, by their names: the first in the heading."""

    def _facts(self) -> Mapping[str, str]:
        raise NotImplementedError

    def _shown(self) -> list[tuple[str, str]]:
        return [(one_line(key, 100), one_line(value, 500)) for key, value in self._facts().items()]

    def __repr__(self) -> str:
        (kind, name), *others = self._shown()
        lines = [f"{kind} {name}", *(f"  {key}: {value}" if key else f"  {value}" for key, value in others)]
        return "\n".join(line if len(line) <= _WIDEST else f"{line[: _WIDEST - 3]}..." for line in lines)

    def _repr_html_(self) -> str:
        (kind, name), *others = self._shown()
        rows = "".join(f"<tr><th>{escape(key)}</th><td>{escape(value)}</td></tr>" for key, value in others)
        heading = f'<tr><th colspan="2">{escape(kind)} {escape(name)}</th></tr>'
        return f'<table class="parley">{heading}{rows}</table>'


class Record(Shown):
    """The record of one simulation. It is read when something of it is asked for.

    What is asked of a damaged record raises RecordError. `axes` has the value of every axis of its condition, `seed`
    is that of its simulation.

    >>> import parley
    >>> record = parley.load("demo").results().records[0]
    >>> record
    Record of demo: model=majority, n=4, b=0, prompt=may_exist, seed=0
      outcome: valid_consensus, after 2 rounds
      path: results/demo/simulations/model=majority/n=4/b=0/prompt=may_exist/spec=.../seed=0.parquet
    >>> record.axes["b"], record.seed
    (0, 0)
    """

    def __init__(self, study: Study, simulation: Simulation, root: Path) -> None:
        self._study = study
        self._simulation = simulation
        self._root = root
        self.axes: dict[str, str | int | float] = dict(simulation.condition.axes)
        self.seed = simulation.seed

    @property
    def path(self) -> Path:
        """Where it is.

        >>> parley.load("demo").results().records[0].path.name
        'seed=0.parquet'
        """
        with paths.rooted(self._root):
            return self._simulation.record(self._study.name)

    @property
    def id(self) -> str:
        """SHA-256 that names its simulation, in whatever study it is.

        >>> len(parley.load("demo").results().records[0].id)
        64
        """
        return self._simulation.id

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
        return attempt_frame([(self._simulation, self.path)], None, set())

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


class Records(Shown, Sequence[Record]):
    """The records of a study, in the order of its simulations. Nothing is read before a record is asked for something.

    >>> import parley
    >>> records = parley.load("demo").results().records
    >>> len(records), records[-1].seed
    (6, 2)
    """

    def __init__(self, study: Study, simulations: Sequence[Simulation], root: Path) -> None:
        self._study = study
        self._simulations = simulations
        self._root = root

    def __len__(self) -> int:
        return len(self._simulations)

    @overload
    def __getitem__(self, place: int) -> Record: ...
    @overload
    def __getitem__(self, place: slice) -> "Records": ...
    def __getitem__(self, place: int | slice) -> "Record | Records":
        if isinstance(place, slice):
            return Records(self._study, self._simulations[place], self._root)
        return Record(self._study, self._simulations[place], self._root)

    def where(self, **chosen: Any) -> "Records":
        """Return those with these values of axes, and of `seed`; a list means any of its values.

        There may be none yet. Raises UsageError for an axis or a value that the study does not have.

        >>> records = parley.load("demo").results().records
        >>> len(records.where(b=1)), len(records.where(b=[0, 1], seed=2))
        (3, 2)
        """
        return Records(self._study, among(self._simulations, selection(self._study, chosen)), self._root)

    def _facts(self) -> dict[str, str]:
        conditions = len({simulation.condition.name for simulation in self._simulations})
        return {"Records of": f"{self._study.name}: {len(self):,} in {counted(conditions, 'condition')}"}


async def play(
    study: Study, condition: Condition, seed: int, endpoints: Sequence[Path], engine_timeout: float
) -> "Played":
    """Play one game, as `parley play` does. Raises UsageError if it cannot be played here."""
    if not is_seed(seed):
        raise UsageError(f"seed={one_line(str(seed), 40)}: give a whole number from 0")
    if not endpoints:
        _check_models(study, condition)
    simulation = Simulation(condition, int(seed))
    played = await play_once(study, simulation, endpoints, engine_timeout)
    return Played(study.name, simulation, played)


def _check_models(study: Study, condition: Condition) -> None:
    entries = load_models(study.models_file) if condition.entries and study.models_file.exists() else {}
    for name, entry in condition.entries.items():
        if name not in entries:
            raise UsageError(f"{study.models_file}: no entry {name!r}; add it to play, or give endpoint=")
        check_source(name, entry, study.models_file)


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
    >>> game.digest == study.results().records.where(b=1, seed=2)[0].digest
    True
    """

    def __init__(self, study: str, simulation: Simulation, play: Play) -> None:
        self._study = study
        self._simulation = simulation
        self._play = play
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
        return attempts_of([(self._simulation, attempt_rows(self._simulation, self._play, players))], None)

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
