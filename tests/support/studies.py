"""Small scripted studies in a folder of their own."""

import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import scipy
import yaml

from parley import paths
from parley.analysis.summarize import summarize
from parley.errors import UsageError
from parley.games.registry import GAMES
from parley.play import live, record
from parley.play.simulate import simulate, simulate_shard
from parley.statistics.stats import Floats
from parley.study import Study, load_study
from parley.study import load as parley_study
from parley.study.condition import SCRIPTED
from support import REPOSITORY
from support.answering import record_with_model
from support.playing import CouncilGame

MODELS = {
    "models": {
        "tiny": {"source": {"repo": "owner/tiny", "revision": "a" * 40}},
        "other": {"source": {"repo": "owner/other", "revision": "b" * 40}, "dtype": "float16"},
    }
}


GRID = {"model": "majority", "n": 3, "prompt": "may_exist"}


def refused(made: Callable[[], object], start: str, *names: str) -> None:
    """Check that something is refused in one line that starts so and names these."""
    with pytest.raises(UsageError) as caught:
        made()
    line = str(caught.value)
    assert re.match(start, line), line
    assert "\n" not in line
    assert all(name in line for name in names), (line, names)


StudyFactory = Callable[..., Study]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory with a models file."""
    monkeypatch.chdir(tmp_path)
    Path("models.yaml").write_text(yaml.safe_dump(MODELS), encoding="utf-8")
    return tmp_path


def bring(place: Path) -> None:
    """Put a file, or all that is in a folder, beside the studies of the working directory."""
    if place.is_dir():
        shutil.copytree(place, Path(), dirs_exist_ok=True)
    else:
        shutil.copy(place, Path())


OWN_GAME = REPOSITORY / "examples" / "own_game"
OWN_POLICIES = Path(__file__).parent / "own_policies.py"


@pytest.fixture
def study_factory(folder: Path) -> StudyFactory:
    """Write a study file into the working directory and load it.

    `grids` are merged into a grid of three `majority` agents; other keywords are keys of the file.
    """

    def make(
        *grids: dict[str, Any], name: str = "small", models: dict[str, Any] | None = None, **content: Any
    ) -> Study:
        if models is not None:
            Path("models.yaml").write_text(yaml.safe_dump({"models": models}), encoding="utf-8")
        return study_of(*grids, name=name, **content)

    return make


def study_of(*grids: dict[str, Any], name: str = "small", **content: Any) -> Study:
    """Write a study file into the working directory and load it; one with a `fork` has no grids."""
    # A grid that says how many honest agents there are has no use for the default n.
    merged = [{**{k: v for k, v in GRID.items() if k != "n" or "honest" not in g}, **g} for g in grids or ({},)]
    merged = [{k: v for k, v in grid.items() if v is not None} for grid in merged]  # None: without this key
    body = {"game": "consensus", **content, **({} if "fork" in content else {"grids": merged})}
    file = Path(f"{name}.yaml")
    file.write_text(yaml.safe_dump(body), encoding="utf-8")
    return parley_study.load_study(file)


def play_all(study: Study) -> list[Path]:
    """Play all simulations of a study that needs no engine; return their records."""
    files = records_of(study)
    for file in files:
        simulate(study, file, [], 1.0)
    return files


def summarized(study: Study) -> Study:
    """Play all simulations of a study that needs no engine, and make its tables."""
    play_all(study)
    summarize(study)
    return study


GRIDS = """
  - {model: [majority, random], n: [4, 6], b: 0, prompt: [may_exist, none_exist], seeds: 3}
  - {model: majority, honest: 4, b: [1, 3], prompt: may_exist, byzantine: random}
"""


def make_study(
    grids: str = GRIDS, title: str = "A study", name: str = "tiny", play: bool = True, extra: str = ""
) -> Study:
    file = Path("config") / f"{name}.yaml"
    file.parent.mkdir(exist_ok=True)
    (file.parent / "models.yaml").write_text(yaml.safe_dump(MODELS), encoding="utf-8")
    file.write_text(
        f"game: consensus\ntitle: {json.dumps(title)}\nseeds: 2\nparameters: {{max_rounds: 3}}\n"
        f"grids: {grids}\n{extra}"
    )
    study = load_study(file)
    return summarized(study) if play else study


@pytest.fixture
def council(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the game of `council.py` one that studies may name."""
    monkeypatch.setitem(GAMES, CouncilGame.name, CouncilGame)


Installer = Callable[..., None]


@pytest.fixture
def install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Installer:
    """Install a distribution that has the given entry points of a group, by name; each call installs another."""

    def make(group: str = "parley.policies", **points: str) -> None:
        site = folder / f"site{len(list(folder.glob('site*')))}"
        info = site / f"{site.name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {site.name}\nVersion: 1.0\n")
        lines = [f"{name} = {value}\n" for name, value in points.items()]
        (info / "entry_points.txt").write_text("".join([f"[{group}]\n", *lines]))
        monkeypatch.syspath_prepend(str(site))

    return make


# Groups of a study, and the study of one grid of them
HONEST = {"role": "honest", "count": 3, "model": "tiny"}
OTHERS = {"role": "honest", "count": 2, "model": "other"}
RANDOM = {"role": "byzantine", "count": 1, "policy": "random"}


def grouped(make: StudyFactory, *groups: dict[str, Any], **content: Any) -> Study:
    """Return the study of one grid of groups."""
    return make({"groups": list(groups), "model": None, "n": None}, **content)


# Simulations with known rates whose conditions share seeds, as rows of the table of simulations


VALID = "valid_consensus"
AXES = ["model", "n", "b", "prompt"]


def condition(letters: Iterable[str], first: int = 0, **axes: Any) -> list[dict[str, Any]]:
    """Return simulations of one condition, y for a valid consensus and n for none, of seeds from `first` on."""
    return [
        {"model": "a", "n": 4, "b": 0, "prompt": "p", **axes, "seed": seed}
        | {"outcome": VALID if letter == "y" else "no_consensus"}
        for seed, letter in enumerate(letters, first)
    ]


class Drawn:
    """Conditions that are drawn one after the other: simulations of a seed share a normal number.

    `alike` is the correlation between simulations of a seed, on the scale of normal numbers.
    """

    def __init__(self, random: np.random.Generator, seeds: int, alike: float) -> None:
        self._random, self._alike = random, alike
        self._shared: Floats = random.normal(size=seeds)
        self._rows: list[dict[str, Any]] = []

    def play(self, rate: float, seeds: int | None = None, **axes: Any) -> None:
        """Add a condition that ends well at this rate."""
        shared = self._shared[:seeds]
        level = np.sqrt(self._alike) * shared + np.sqrt(1 - self._alike) * self._random.normal(size=shared.size)
        well = level < scipy.stats.norm.ppf(rate)
        self._rows += condition(("y" if each else "n" for each in well), **axes)

    @property
    def rows(self) -> pd.DataFrame:
        """All simulations."""
        return pd.DataFrame(self._rows)


# A small scripted study with its results, in a folder as users have them


CONTENT: dict[str, Any] = {
    "game": "consensus",
    "title": "A majority among adversaries",
    "seeds": 3,
    "parameters": {"max_rounds": 8},
    "grids": [
        {"model": "majority", "honest": 4, "b": [0, 1], "byzantine": "random", "prompt": "may_exist"},
    ],
}


def write_study(root: Path, name: str = "demo", **changes: Any) -> Path:
    """Write a study file and a models file into config/ below `root`; return the study file."""
    file = root / "config" / f"{name}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(CONTENT | changes), encoding="utf-8")
    (file.parent / "models.yaml").write_text(yaml.safe_dump(MODELS), encoding="utf-8")
    return file


def play_study(root: Path) -> Study:
    """Play the study `demo`, of scripted policies, in `root` as the workflow does."""
    with chdir(root):
        study = load_study(paths.study_file("demo"))
        simulate_shard(study, SCRIPTED, 0)
    return study


def summarize_study(root: Path, study: Study) -> None:
    """Write the tables of a study."""
    with chdir(root):
        summarize(study)


def make_demo(root: Path, **changes: Any) -> None:
    """Write, play and summarize the study `demo` below `root`."""
    write_study(root, **changes)
    summarize_study(root, play_study(root))


MIXED: dict[str, Any] = {
    "grids": [
        {"model": ["majority", "stubborn"], "n": [3, 4], "b": 0, "prompt": "may_exist"},
        {"model": "majority", "n": 5, "b": 1, "byzantine": ["random", "silent"], "prompt": "may_exist"},
    ],
    "parameters": {"max_rounds": 2},
}


def files_in(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def with_model(folder: Path) -> Path:
    """Make a record that a model played, and return the models file."""
    grid = {"model": "tiny", "n": 3, "b": 0, "prompt": "may_exist"}
    write_study(folder, grids=[grid], seeds=1)
    with chdir(folder):
        study = load_study(paths.study_file("demo"))
        for simulation in study.simulations():
            record_with_model(simulation, simulation.record("demo"))
    return folder / "config" / "models.yaml"


def records_of(study: Study) -> list[Path]:
    """Return where the records of a study are, or will be."""
    return [simulation.record(study.name) for simulation in study.simulations()]


# All that a study keeps, as text


def everything(study: Study) -> Iterator[tuple[str, str]]:
    """Yield name and content of all results, decompressed."""
    for simulation in study.simulations():
        path = simulation.record(study.name)
        rows = pq.read_table(path, partitioning=None)
        metadata = {key.decode(): value.decode() for key, value in rows.schema.metadata.items()}
        yield f"{path} metadata", json.dumps(metadata)
        yield f"{path} rows", json.dumps(rows.to_pylist(), default=str)
        yield f"{path} as it is", path.read_bytes().decode("latin-1")
        summary = record.read_summary(path)
        yield f"{path} shown", live.summary_text(path, summary)
    for path in paths.results(study.name).rglob("*.*"):
        if path.suffix in (".csv", ".html", ".svg"):
            yield str(path), path.read_text()
