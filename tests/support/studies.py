"""Small scripted studies in a folder of their own."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from parley.analysis.summarize import summarize
from parley.games.registry import GAMES
from parley.play.simulate import simulate
from parley.study import Study, load_study
from parley.study import study as parley_study
from support.council import CouncilGame

MODELS = {
    "models": {
        "tiny": {"source": {"repo": "owner/tiny", "revision": "a" * 40}},
        "other": {"source": {"repo": "owner/other", "revision": "b" * 40}, "dtype": "float16"},
    }
}


GRID = {"model": "majority", "n": 3, "prompt": "may_exist"}


StudyFactory = Callable[..., Study]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory with a models file."""
    monkeypatch.chdir(tmp_path)
    Path("models.yaml").write_text(yaml.safe_dump(MODELS), encoding="utf-8")
    return tmp_path


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
        # A grid that says how many honest agents there are has no use for the default n.
        merged = [{**{k: v for k, v in GRID.items() if k != "n" or "honest" not in g}, **g} for g in grids or ({},)]
        merged = [{k: v for k, v in grid.items() if v is not None} for grid in merged]  # None: without this key
        body = {"game": "consensus", **content, "grids": merged}
        file = Path(f"{name}.yaml")
        file.write_text(yaml.safe_dump(body), encoding="utf-8")
        return parley_study.load_study(file)

    return make


_PLAIN_MODELS = "models: {m: {source: {repo: a/b, revision: '" + "0" * 40 + "'}}}\n"


GRIDS = """
  - {model: [majority, random], n: [4, 6], b: 0, prompt: [may_exist, none_exist], seeds: 3}
  - {model: majority, honest: 4, b: [1, 3], prompt: may_exist, byzantine: random}
"""


def make_study(
    grids: str = GRIDS, title: str = "A study", name: str = "tiny", play: bool = True, extra: str = ""
) -> Study:
    file = Path("config") / f"{name}.yaml"
    file.parent.mkdir(exist_ok=True)
    (file.parent / "models.yaml").write_text(_PLAIN_MODELS)
    file.write_text(
        f"game: consensus\ntitle: {json.dumps(title)}\nseeds: 2\nparameters: {{max_rounds: 3}}\n"
        f"grids: {grids}\n{extra}"
    )
    study = load_study(file)
    if play:
        for simulation in study.simulations():
            simulate(study, simulation.record(study.name), [], 1.0)
        summarize(study)
    return study


@pytest.fixture
def council(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the game of `council.py` one that studies may name."""
    monkeypatch.setitem(GAMES, CouncilGame.name, CouncilGame)


# Groups of a study, and the study of one grid of them
HONEST = {"role": "honest", "count": 3, "model": "tiny"}
OTHERS = {"role": "honest", "count": 2, "model": "other"}
RANDOM = {"role": "byzantine", "count": 1, "policy": "random"}


def grouped(make: StudyFactory, *groups: dict[str, Any], **content: Any) -> Study:
    """Return the study of one grid of groups."""
    return make({"groups": list(groups), "model": None, "n": None}, **content)
