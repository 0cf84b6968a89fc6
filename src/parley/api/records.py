"""The records of a study, one for each simulation that was played to its end."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import pandas as pd

from parley import paths
from parley.api.chosen import selection
from parley.api.frames import attempt_frame
from parley.api.shown import Shown
from parley.play.record import Summary, read_trace
from parley.play.replay import Replayed, replay
from parley.play.usable import read_own
from parley.study import Study
from parley.study.condition import Simulation
from parley.text import counted


class Record(Shown):
    """The record of one simulation. It is read when something of it is asked for.

    What is asked of a damaged record raises RecordError.

    >>> import parley
    >>> parley.load("demo").results().records[0]
    Record of demo: model=majority, n=4, b=0, prompt=may_exist, seed=0
      outcome: valid_consensus, after 2 rounds
      path: results/demo/simulations/model=majority/n=4/b=0/prompt=may_exist/spec=.../seed=0.parquet
    """

    def __init__(self, study: Study, simulation: Simulation, root: Path) -> None:
        self._study = study
        self._simulation = simulation
        self._root = root

    @property
    def path(self) -> Path:
        """Where it is.

        >>> import parley
        >>> parley.load("demo").results().records[0].path.name
        'seed=0.parquet'
        """
        with paths.rooted(self._root):
            return self._simulation.record(self._study.name)

    @property
    def axes(self) -> dict[str, str | int | float]:
        """The value of every axis of its condition.

        >>> import parley
        >>> parley.load("demo").results().records[0].axes["b"]
        0
        """
        return dict(self._simulation.condition.axes)

    @property
    def seed(self) -> int:
        """The seed of its simulation.

        >>> import parley
        >>> parley.load("demo").results().records[0].seed
        0
        """
        return self._simulation.seed

    @property
    def id(self) -> str:
        """SHA-256 that names its simulation, in whatever study it is.

        >>> import parley
        >>> len(parley.load("demo").results().records[0].id)
        64
        """
        return self._simulation.id

    @property
    def digest(self) -> str:
        """SHA-256 of what the game saw and decided.

        >>> import parley
        >>> results = parley.load("demo").results()
        >>> results.records[0].digest == results.simulations["digest"][0]
        True
        """
        return self._summary.digest

    @property
    def outcome(self) -> dict[str, Any]:
        """How it ended: `name`, `detail`, `diagnosis`, `rounds`, `finished_early` and the game's `metrics`.

        >>> import parley
        >>> parley.load("demo").results().records[0].outcome["name"]
        'valid_consensus'
        """
        return dict(self._summary.outcome)

    @property
    def provenance(self) -> dict[str, Any]:
        """What made it, but cannot change it: versions, machine, start and end, the engines that answered.

        >>> import parley
        >>> sorted(parley.load("demo").results().records[0].provenance)[:3]
        ['ended', 'engines', 'git']
        """
        return dict(self._summary.provenance)

    @property
    def trace(self) -> list[dict[str, Any]]:
        """What the game noted of each round; its keys are the game's own.

        >>> import parley
        >>> parley.load("demo").results().records[0].trace[0]["round"]
        1
        """
        return read_trace(self.path)

    @property
    def transcript(self) -> pd.DataFrame:
        """Every question and reply, a row per attempt: what `Results.attempts` has of this simulation.

        >>> import parley
        >>> record = parley.load("demo").results().records[0]
        >>> record.transcript[["round", "phase", "agent"]].head(2)
           round    phase    agent
        0      1  propose  agent_1
        1      1  propose  agent_2
        """
        return attempt_frame([(self._simulation, self.path)], None)

    def replay(self) -> Replayed:
        """Play it again from what was recorded, with no engine; `identical` says whether the same came of it.

        What differs stands in `difference`. Raises RecordError for a record that this version of Parley cannot play.

        >>> import parley
        >>> parley.load("demo").results().records[0].replay().identical
        True
        """
        return replay(self.path)

    @cached_property
    def _summary(self) -> Summary:
        return read_own(self.path, self._simulation)

    def _facts(self) -> dict[str, str]:
        outcome = self.outcome
        ending = self._simulation.condition.game.class_of(outcome["name"], outcome["detail"])
        detail = f" ({outcome['detail']})" if outcome["detail"] not in (None, ending) else ""
        path = self.path
        rounds = f"{outcome['rounds']} round{'' if outcome['rounds'] == 1 else 's'}"  # which a record may forge
        return {
            "Record of": f"{self._study.name}: {self._simulation.condition.path.replace('/', ', ')}, seed={self.seed}",
            "outcome": f"{ending}{detail}, after {rounds}",
            "path": str(path.relative_to(self._root)),
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
        try:
            return Record(self._study, self._simulations[place], self._root)
        except IndexError:
            raise IndexError(f"{self._study.name}: {counted(len(self), 'record')} here; none at [{place}]") from None

    def __iter__(self) -> Iterator[Record]:
        return (Record(self._study, simulation, self._root) for simulation in self._simulations)

    def where(self, **chosen: Any) -> "Records":
        """Return those with these values of axes, and of `seed`; a list means any of its values.

        There may be none yet. Raises UsageError for an axis or a value that the study does not have.

        >>> import parley
        >>> records = parley.load("demo").results().records
        >>> len(records.where(b=1)), len(records.where(b=[0, 1], seed=2))
        (3, 2)
        """
        fits = selection(self._study, chosen)
        kept = [simulation for simulation in self._simulations if fits(simulation.condition, simulation.seed)]
        return Records(self._study, kept, self._root)

    def _facts(self) -> dict[str, str]:
        conditions = len({simulation.condition.path for simulation in self._simulations})
        return {"Records of": f"{self._study.name}: {len(self):,} in {counted(conditions, 'condition')}"}
