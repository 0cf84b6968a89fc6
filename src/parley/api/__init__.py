"""What `import parley` offers: studies, played games and results, as objects and data frames."""

import asyncio
import os
from collections.abc import Coroutine
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from parley import paths
from parley.api.games import Played, Record
from parley.api.results import Results
from parley.api.studies import Study, load_to_read
from parley.errors import UsageError

__all__ = ["Played", "Record", "Results", "Study", "load", "run"]

_T = TypeVar("_T")


def load(
    study: str | PathLike[str], root: str | PathLike[str] | None = None, models: str | PathLike[str] | None = None
) -> Study:
    """Return a study, checked; neither weights nor an engine are needed.

    `study` is the name of a file under config/, or the path of a YAML file. `root` is the folder that holds its
    results/, by default that in which a run puts them. `models` is the file with the model entries, by default
    models.yaml beside the study. For a model that is no entry any more, the records of the study tell what it was.
    Raises UsageError for a file with a mistake.

    >>> import parley
    >>> study = parley.load("demo")
    >>> study
    Study demo: A majority among adversaries
      consensus: 2 conditions, 6 simulations
      axes: model 1, n 2, b 2, prompt 1
    """
    name = os.fspath(study)
    if root is None:
        file = paths.study_file(name)
        name, folder = str(file.absolute()), paths.home(file).absolute()
    else:
        folder = Path(root).absolute()
    models_file = None if models is None else Path(models).absolute()
    return Study(load_to_read(name, folder, models_file), folder)


def run(playing: Coroutine[Any, Any, _T]) -> _T:
    """Play what `study.play(...)` returns, and return the played game; for scripts, where no event loop runs.

    In a notebook write `await study.play(...)` instead: a loop runs there, and a UsageError says so.

    >>> import parley
    >>> game = parley.run(parley.load("demo").play(b=1, seed=2))
    >>> game.outcome.name
    'invalid_consensus'
    """
    if not asyncio.iscoroutine(playing):
        raise UsageError("parley.run: give it what play(...) returns: parley.run(study.play(...))")
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(playing)
    playing.close()
    raise UsageError("parley.run: an event loop runs already, as in a notebook; write `await study.play(...)` instead")
