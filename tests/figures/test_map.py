"""The map: which rows and cells it has, and what it says of those that it leaves out."""

from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

from parley.figures.map import maps, near
from parley.figures.style import own_style
from support.figures import pages_of, played, study_of, text_of, ticks

pytestmark = pytest.mark.promise("Maps leave empty what was not run and say what cannot be compared.")

SHORT = {"max_rounds": 2}


def drawn(*grids: dict[str, Any]) -> Figure:
    """Draw one of the maps of a study of which all games end well, 5 simulations in each condition."""
    study = study_of(*grids, name="map", parameters=SHORT)
    [spec] = [spec for spec in study.figures if spec.name == "valid_by_adversary"]
    table = pd.DataFrame([condition.axes for condition in study.conditions]).assign(simulations=5)
    table = table.assign(valid_consensus_rate=1.0, valid_consensus_low=0.566, valid_consensus_high=1.0)
    with own_style():
        return maps(study, spec, table)[0]


def cells(figure: Figure) -> list[list[str]]:
    """Return the rates as they stand, row by row; "" where no cell is."""
    [ax] = figure.axes
    shown = [[""] * len(ax.get_xticks()) for _ in ax.get_yticks()]
    for text in ax.texts:
        x, y = text.get_position()
        if text.get_text().endswith("%"):
            shown[round(y)][round(x)] = text.get_text()
    return shown


def names(figure: Figure) -> tuple[list[str], list[str]]:
    columns, rows = ticks(figure.axes[0])
    return rows, columns


def words_of(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


@pytest.mark.slow
def test_undisturbed_conditions_begin_every_row() -> None:
    grid = {"n": 4, "b": [0, 1, 2], "byzantine": ["silent", "opposite"]}
    study = played(study_of(grid, parameters={**SHORT, "stop_threshold": 0.5}, seeds=2, name="undisturbed"))
    [figure] = pages_of(study, "valid_by_adversary")
    assert names(figure) == (["silent", "opposite"], ["0", "1", "2"])
    # Majority agents alone agree in round 2; two silent ones of four do not keep half of all from stopping.
    assert cells(figure)[0] == ["100%", "100%", "100%"]
    assert cells(figure)[1][0] == "100%"
    assert words_of(figure)[:2] == ["100%", "[34, 100]"]  # Wilson's for 2 of 2


def test_what_was_not_run_is_empty_and_what_cannot_be_compared_is_told() -> None:
    figure = drawn(
        {"n": 4, "b": [1, 2], "byzantine": ["silent"]},
        {"n": 4, "b": [1, 3], "byzantine": ["random"]},
        {"n": 4, "b": 1, "byzantine": ["stubborn"]},
        {"n": 4, "b": 1, "byzantine": ["silent"], "prompt": "none_exist"},
    )
    assert names(figure) == (["silent", "random"], ["1", "2", "3"])  # named by what varies among them
    assert [[bool(cell) for cell in row] for row in cells(figure)] == [[True, True, False], [True, False, True]]
    assert "Not shown: 2 of 4 groups of conditions, run with one b only." in text_of(figure)
    alone = drawn({"n": 3, "b": 1, "byzantine": ["silent"]}, {"n": 5, "b": 2, "byzantine": ["random"]})
    assert "Nothing to compare: no two conditions differ in b alone." in " ".join(" ".join(words_of(alone)).split())


def test_limits_near_the_ends_have_a_decimal() -> None:
    rates = [0.0, 0.004, 0.996, 1.0, 0.12, 0.345, 1e-17, 1 - 1e-12]
    assert list(map(near, rates)) == ["0", "0.4", "99.6", "100", "12", "34", "0", "100"]
