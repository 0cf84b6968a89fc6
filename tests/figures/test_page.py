"""Pages of figures: their size, what comes first, what is left out and how to get it; colors, links, and print."""

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence

import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parley import paths
from parley.figures.common import alike
from parley.figures.make import figures
from parley.figures.page import Panel, pages, text_about
from parley.figures.style import Look, own_style
from parley.games.evidence import FigureSpec
from parley.study import Study
from support.figures import pages_of, panels_of, played, study_of, text_of

pytestmark = pytest.mark.promise(
    "No page outgrows paper, no panel is chosen by its result, colors hold for the color-blind and in gray."
)

SPEC = FigureSpec("many", "curves", "Many panels", "A caption with 5 % of {it}.")


@pytest.fixture(scope="module")
def study() -> Study:
    return study_of({"n": [3, 4]}, title="A study")


def numbered(number: int, rows: int = 1) -> list[Panel]:
    """Panels with their numbers as titles."""

    def draw(number: int, row: int) -> Callable[[Axes], None]:
        def drawn(ax: Axes) -> None:
            ax.plot([0, 1], [0, 1])
            ax.set_title(f"{number}" if row == 0 else "")

        return drawn

    return [Panel([draw(at, row) for row in range(rows)]) for at in range(number)]


def paged(
    study: Study, panels: list[Panel], size: float = 1.3, look: Look | None = None, notes: Sequence[str] = ()
) -> list[Figure]:
    with own_style(look):
        return pages(study, SPEC, panels, (size, 1.1), [*notes], [])


def titles(drawn: Sequence[Axes]) -> list[int]:
    return [int(ax.get_title()) for ax in drawn if ax.get_title()]


@pytest.mark.slow
def test_no_page_is_larger_than_paper_and_no_panel_is_squeezed(study: Study) -> None:
    for number, rows, size in ((9, 2, 1.3), (2, 12, 6.0)):
        drawn = paged(study, numbered(number, rows=rows), size, notes=["A note."])
        assert len(drawn) <= 4
        for page in drawn:
            wide, high = page.get_size_inches()
            assert (wide, high <= 9) == (4.5, True)
            assert min(ax.get_position().height * high for ax in panels_of(page)) > 0.85


@pytest.mark.slow
def test_the_first_panels_are_shown_and_it_is_said_how_many_there_are(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parley.figures.page.MAX_PAGES", 2)
    first, second = paged(study, numbered(56))
    shown = titles([*panels_of(first), *panels_of(second)])
    assert shown == list(range(len(shown)))
    for text in (text_of(first), text_about(first)):
        assert f"The first {len(shown)} of 56 panels are shown." in text


@pytest.mark.promise("What a question compares stands side by side.")
def test_conditions_stand_in_the_order_of_numbers_and_beside_what_they_are_compared_with() -> None:
    question = {"name": "q", "outcome": "valid_consensus", "compare": "model", "over": ["n"], "smallest": 0.1}
    study = study_of(
        *({"model": model, "n": n, "prompt": "may_exist"} for n in (12, 4) for model in ("random", "majority")),
        name="asked",
        questions=[question],
    )
    table = pd.DataFrame([condition.axes for condition in study.conditions])
    keys = [key for key, _ in alike(study, table, ["model", "n"])]
    assert keys == [("random", 4), ("majority", 4), ("random", 12), ("majority", 12)]


# For a paper, and on a screen


@pytest.mark.slow
def test_for_paper_words_stand_beside_the_picture_and_nothing_else_changes() -> None:
    study = played(study_of({"n": 3}, title="A study", seeds=2, name="paper"))
    first = figures(study)
    before = {path: path.stat().st_mtime_ns for path in first}
    printed = figures(study, look=Look("column", for_paper=True))
    assert {path: path.stat().st_mtime_ns for path in first} == before
    listed = paths.figure_list(study.name, printed=True)
    assert {path.parent for path in printed} == {listed.parent}
    for name in [figure["name"] for figure in json.loads(listed.read_text())]:
        [picture] = [path for path in printed if path.name == f"{name}.svg"]
        root = ElementTree.parse(picture).getroot()
        assert float(root.attrib["width"].removesuffix("pt")) <= 3.4 * 72 + 0.01
        assert "A study" not in picture.read_text()
        assert "href" not in re.sub(r'href="#', "", picture.read_text())
        spec = next(spec for spec in study.figures if spec.name == name)
        assert picture.with_suffix(".txt").read_text().startswith(f"{spec.title}. {spec.caption}")


@pytest.mark.slow
def test_marks_lead_to_the_simulations_behind_them() -> None:
    study = played(study_of({"n": 4, "b": [0, 1], "byzantine": ["silent", "random"]}, seeds=2, name="links"))

    def links(name: str) -> set[str]:
        with own_style():
            pages_of(study, name)[0].savefig(f"{name}.svg")
        nodes = ElementTree.parse(f"{name}.svg").iter()
        found = {node.attrib.get("{http://www.w3.org/1999/xlink}href", "#") for node in nodes}
        return {link for link in found if not link.startswith("#")}

    page = "../view/index.html#/"
    bars = links("outcomes_by_byzantine")
    # The one bar without adversaries is that of games without any.
    assert {link for link in bars if "axis.b=0&" in link} == {
        f"{page}?axis.b=0&axis.byzantine=none&outcome=valid_consensus"
    }
    assert any(link.startswith(f"{page}?axis.b=1&axis.byzantine=silent&outcome=") for link in bars)
    assert links("trajectories") == {f"{page}game/{simulation.id}" for simulation in study.simulations()}
    assert f"{page}?axis.b=0&axis.byzantine=none" in links("valid_by_adversary")
