"""A study and its conditions, as `import parley` offers them; reading results needs no model weights."""

import os
import subprocess
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import ValidationError

from parley import paths
from parley.api.frames import one_condition
from parley.api.games import Played, Shown, play
from parley.api.results import Results
from parley.engine.models import ModelEntry, recorded_entry
from parley.errors import ParleyError, RecordError, UsageError
from parley.play.record import peek_summary
from parley.play.stale_records import simulation_files
from parley.study import Study as CheckedStudy
from parley.study import load_study
from parley.text import counted
from parley.workflow.command import snakemake_command

Endpoints = str | PathLike[str] | Sequence[str | PathLike[str]]
ENGINE_TIMEOUT = 900.0


class Study(Shown):
    """A study: what is played, in which conditions, and how often. `parley.load` returns it.

    `name` is that of its file and of its folder under results/, `title` stands in figures and reports, `game` is the
    name of its game.

    >>> import parley
    >>> study = parley.load("demo")
    >>> study.name, study.title, study.game
    ('demo', 'A majority among adversaries', 'consensus')
    """

    def __init__(self, study: CheckedStudy, root: Path) -> None:
        self._whole, self._study = study, study.shown
        self._root = root
        self.name, self.title, self.game = study.name, study.title, study.game.name

    @property
    def conditions(self) -> pd.DataFrame:
        """The conditions, a row each: the value of every axis, `threat_model`, the number of `seeds`, `spec`.

        >>> parley.load("demo").conditions[["model", "n", "b", "seeds"]]
              model  n  b  seeds
        0  majority  4  0      3
        1  majority  5  1      3
        """
        rows = [
            {**c.axes, "threat_model": c.threat_model, "seeds": len(c.seeds), "spec": c.spec}
            for c in self._study.conditions
        ]
        return pd.DataFrame(rows)

    async def play(
        self, *, seed: int = 0, endpoint: Endpoints = (), engine_timeout: float = ENGINE_TIMEOUT, **axes: Any
    ) -> Played:
        """Play one game of the one condition with these values of axes; nothing is written to results/.

        Scripted policies need no engine. For a model one is started, which takes half a minute or more, and stopped at
        the end, unless `endpoint` names the endpoint file of a running one (`parley serve`), or several such files.
        `engine_timeout` is how many seconds to wait for it.

        Axes are written as in a study file or a path, and those that are the same in all conditions need not be given.
        The seed may be one that the study does not have. Raises UsageError for an axis or a value that the study does
        not have, and if several conditions fit: it says which axes tell them apart. Raises EngineError.

        In a notebook write `game = await study.play(b=1)`, in a script:

        >>> study = parley.load("demo")
        >>> game = parley.run(study.play(b=1, seed=2))
        >>> game
        Played demo: model=majority, n=5, b=1, prompt=may_exist, seed=2
          outcome: invalid_consensus, foreign_value, after 7 rounds
          replies: 70, 0 of them unusable
        """
        condition = one_condition(self._study, axes)
        files = [endpoint] if isinstance(endpoint, str | PathLike) else endpoint
        endpoints = [Path(file).absolute() for file in files]
        with paths.rooted(self._root):
            return await play(self._study, condition, seed, endpoints, engine_timeout)

    def run(self, *options: str) -> None:
        """Play what is missing of the study, and make its tables, figures, report and explorer, as `parley run` does.

        `options` are Snakemake's. It returns when all is there, maybe after hours. Raises ParleyError if Snakemake
        fails, whose lines say why.

        >>> parley.load("demo").run("--dry-run")
        """
        with paths.rooted(self._root):
            if self._study.models_file.resolve() != (own := paths.models_file(self._study.file)).resolve():
                raise UsageError(f"run: takes the models of {own}; load the study without models=, and run it again")
        command = snakemake_command(os.path.relpath(self._study.file, self._root), options)
        process = subprocess.Popen(command, cwd=self._root)
        try:
            status = process.wait()
        except KeyboardInterrupt:  # which Snakemake has heard, too: it ends its jobs before itself
            process.wait()
            raise
        if status:
            raise ParleyError(f"{self.name}: the run ended with status {status}; what it printed says why")

    def results(self) -> Results:
        """Return what is on the disk of this study; it may be unfinished.

        Raises RecordError if nothing is there yet.

        >>> parley.load("demo").results()
        Results of demo: 6 of 6 simulations
          figures: outcome_rates, outcomes_by_byzantine, trajectories
        """
        with paths.rooted(self._root):
            return Results(self._whole, self._root)

    def _facts(self) -> dict[str, str]:
        study = self._study
        values = {axis: {condition.axes[axis] for condition in study.conditions} for axis in study.axes}
        simulations = sum(len(condition.seeds) for condition in study.conditions)
        return {
            "Study": f"{study.name}: {study.title}",
            study.game.name: f"{counted(len(study.conditions), 'condition')}, {counted(simulations, 'simulation')}",
            "axes": ", ".join(f"{axis} {len(found)}" for axis, found in values.items()),
        }


def load_to_read(study: str, root: Path, models_file: Path | None) -> CheckedStudy:
    """Return a study in the folder `root`; what its models were is taken from its records where no entry tells it.

    Raises UsageError for a mistake in a file, or for a model that neither an entry nor a record describes.
    """
    with paths.rooted(root):
        file = paths.study_file(study)
        try:
            loaded = load_study(file, models_file, needs_weights=False)
        except UsageError:
            if not (recorded := _recorded_entries(file.stem)):
                raise
            loaded = load_study(file, models_file, recorded, needs_weights=False)
        for condition in loaded.conditions:
            condition.identity, condition.spec  # noqa: B018  # kept from here on: files that they hash lie in `root`
        return loaded


def _recorded_entries(study: str) -> Mapping[str, ModelEntry]:
    """Return the models of a study's records by name, as the newest record of each that can be read describes them."""
    found: dict[str, list[tuple[str, ModelEntry]]] = defaultdict(list)
    # A record of each condition, those of former configurations too.
    for record in {file.place: file.path for file in simulation_files(study) if not file.is_journal}.values():
        with suppress(RecordError, ValidationError, LookupError, TypeError, AttributeError):  # it may hold anything
            summary = peek_summary(record)
            groups: Any = summary.simulation["groups"]
            for group in (group for group in groups if "model" in group):
                entry = recorded_entry(group["model"], group.get("grammar"))
                found[str(group["model_name"])].append((str(summary.provenance.get("ended", "")), entry))
    return {name: max(entries, key=itemgetter(0))[1] for name, entries in found.items()}
