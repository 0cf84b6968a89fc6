"""How each kind of figure looks: pictures of small scripted studies beside those in `baseline/`.

Letters are drawn as bars whose heights tell them apart: no version of FreeType makes them otherwise. Look at what
changed (.pytest_cache/pictures), then make them anew:

    pytest tests/figures/test_looks.py --mpl-generate-path=$PWD/tests/figures/baseline

This makes those with letters anew, too: docs/images/figures, which docs/reference/figures.md asks five questions each.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.figure import Figure
from matplotlib.path import Path as Outline
from matplotlib.transforms import Affine2D
from PIL import Image

from parley import paths
from parley.analysis.tables import read_table
from parley.figures.make import draw
from parley.figures.style import _STYLE, own_style
from parley.study import Study, load_study
from support.figures import played, text_of
from support.playing import HUNTERS

pytestmark = [pytest.mark.promise("Each kind of figure looks as before."), pytest.mark.slow]
# Root mean square of the difference in levels of 256: one mark that is missing makes 1 or more.
TOLERANCE = 0.5
DOCS = Path(__file__).parents[2] / "docs"

ASKED = {"name": "asked", "outcome": "valid_consensus", "compare": "prompt", "over": ["model", "n"], "smallest": 0.2}
STUDIES: dict[str, dict[str, Any]] = {
    "consensus": {
        **{"game": "consensus", "title": "Consensus", "seeds": 12, "parameters": {"max_rounds": 4}},
        "questions": [ASKED],
        "grids": [
            {"model": ["majority", "random"], "n": [4, 6], "prompt": ["may_exist", "none_exist"]},
            {"model": "majority", "n": 6, "b": [1, 2], "byzantine": ["random", "stubborn"], "prompt": "may_exist"},
        ],
    },
    "networks": {
        **{"game": "consensus", "title": "Networks", "seeds": 12, "parameters": {"max_rounds": 6}},
        "grids": [
            {"model": "majority", "n": 6, "b": [0, 1], "byzantine": "random", "prompt": "none_exist"}
            | {"vary": {"topology": ["complete", "ring", "star"]}}
        ],
    },
    "hunt": {
        **{"game": "stag_hunt", "title": "Hunt", "seeds": 6, "parameters": {"rounds": 4}},
        "grids": [
            {**HUNTERS, "n": [3, 4], "byzantine": {"name": "betray", "probability": 0.3}}
            | {"vary": {"topology": ["star"], "disclosure": ["silent"]}}
        ],
    },
}
FIGURES = {
    "consensus": "outcome_rates paper_figure_2 outcomes_by_byzantine paper_figure_3 valid_by_adversary trajectories",
    "networks": "agreement_by_round",
    "hunt": "cooperation_by_round cooperation_and_recovery payoffs defection_by_group_size",
}
DRAWN = [(study, name) for study, names in FIGURES.items() for name in names.split()]


def _em(renderer: RendererAgg, font: Any) -> float:
    return float(font.get_size_in_points()) * renderer.dpi / 72


def _size(renderer: RendererAgg, text: str, font: Any, ismath: Any) -> tuple[float, float, float]:
    em = _em(renderer, font)
    return 0.6 * em * len(text), em, 0.2 * em


def _bars(
    renderer: RendererAgg, gc: Any, x: float, y: float, text: str, font: Any, angle: float, *_: Any, **__: Any
) -> None:
    bars = Affine2D().scale(_em(renderer, font)).rotate_deg(angle).translate(x, renderer.height - y)
    for place, letter in enumerate(text):
        bar = Affine2D().scale(0.4, 0.2 + ord(letter) % 16 / 20).translate(0.6 * place, 0)
        if letter != " ":
            renderer.draw_path(gc, Outline.unit_rectangle(), bar + bars, gc.get_rgb())


@pytest.fixture(autouse=True)
def letters_as_bars(monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config) -> None:
    assert pytestconfig.getoption("mpl"), "nothing is compared without --mpl, which pyproject.toml gives"
    monkeypatch.setattr(RendererAgg, "get_text_width_height_descent", _size)
    monkeypatch.setattr(RendererAgg, "draw_text", _bars)


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Study]:
    """The studies, played, with their tables."""
    folder = tmp_path_factory.mktemp("looks")
    (folder / "config").mkdir()
    (folder / "config/models.yaml").write_text("models: {m: {source: {repo: a/b, revision: '" + "0" * 40 + "'}}}\n")
    found = {}
    with paths.rooted(folder):
        for name, content in STUDIES.items():
            file = folder / f"config/{name}.yaml"
            file.write_text(yaml.safe_dump(content))
            found[name] = played(load_study(file))
    return found


def picture(study: Study, name: str) -> Figure:
    """The first page of a figure."""
    [spec] = [spec for spec in study.figures if spec.name == name]
    with paths.rooted(study.file.parent.parent), own_style():
        return draw(study, spec, lambda table: read_table(study.name, table))[0]


@pytest.mark.mpl_image_compare(style=_STYLE, savefig_kwargs={"dpi": 40}, tolerance=TOLERANCE, deterministic=True)
@pytest.mark.parametrize(("study", "name"), DRAWN, ids=[name for _, name in DRAWN])
def test_look(studies: dict[str, Study], study: str, name: str) -> Figure:
    return picture(studies[study], name)


def test_pictures_of_the_docs_are_these(
    studies: dict[str, Study], monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    """The same pictures with letters, which docs/reference/figures.md is about: their words are in their files."""
    monkeypatch.undo()  # letters are letters
    drawn = {name: picture(studies[study], name) for study, name in DRAWN}
    page = (DOCS / "reference/figures.md").read_text()
    shown = [name for name in drawn if f"](../images/figures/{name}.png)" in page]
    assert len(shown) == page.count("](../images/figures/") > 6
    for name in shown:
        file, words = DOCS / f"images/figures/{name}.png", text_of(drawn[name])
        if pytestconfig.getoption("mpl_generate_path"):
            drawn[name].savefig(file, dpi=100, metadata={"Software": None, "Description": words})
        with Image.open(file) as drawn_before:
            assert drawn_before.info["Description"] == words, "make it anew with the command at the top of this file"
