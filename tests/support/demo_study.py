"""A small scripted study with its results, in a folder as users have them."""

from contextlib import chdir
from pathlib import Path
from typing import Any

import yaml

from parley import paths
from parley.analysis.summarize import summarize
from parley.play.simulate import simulate_shard
from parley.study import Study, load_study
from parley.study.condition import SCRIPTED
from support.answering import record_with_model

CONTENT: dict[str, Any] = {
    "game": "consensus",
    "title": "A majority among adversaries",
    "seeds": 3,
    "parameters": {"max_rounds": 8},
    "grids": [
        {"model": "majority", "honest": 4, "b": [0, 1], "byzantine": "random", "prompt": "may_exist"},
    ],
}
MODELS = {"models": {"tiny": {"source": {"repo": "owner/tiny", "revision": "a" * 40}}}}


def write_study(root: Path, name: str = "demo", **changes: Any) -> Path:
    """Write a study file and a models file into config/ below `root`; return the study file."""
    file = root / "config" / f"{name}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(CONTENT | changes), encoding="utf-8")
    (file.parent / "models.yaml").write_text(yaml.safe_dump(MODELS), encoding="utf-8")
    return file


def play_study(root: Path, name: str = "demo") -> Study:
    """Play a study of scripted policies, in `root` as the workflow does."""
    with chdir(root):
        study = load_study(paths.study_file(name))
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
