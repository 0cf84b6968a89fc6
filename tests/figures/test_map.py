"""The map: which rows and cells it has, and what it says of those that it leaves out."""

from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

from parley.figures.map import near, rate_map
from parley.figures.style import own_style
from support import playing
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
        return rate_map(study, spec, table)[0]


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


# Maps of a quantity


@pytest.mark.slow
def test_a_map_of_payoffs_has_means_and_wilson_intervals() -> None:
    content = {"game": "stag_hunt", "seeds": 2, "parameters": {"rounds": 4}}
    twice = played(study_of({**playing.HUNTERS, "n": 4, "b": [0, 1, 2]}, name="twice", **content))
    figure = pages_of(twice, "map", of=("honest_payoff",), x="b", by_player=False)[0]
    assert names(figure) == (["grim_trigger", "always_stag"], ["0", "1", "2"])
    # Betrayed from round 2 of 4: grim triggers get 10, 0, 3, 3 points, the loyal 10, 0, 0, 0.
    # Of 10 points; both simulations are equal. With z * z = 3.8415: 2 / 5.8415 of all 10, for p 0.4 and 0.25
    # (p + 0.9604 -+ 1.96 * sqrt(p * (1 - p) / 2 + 0.2401)) / 2.9207.
    grim, loyal = ["4", "[0.631, 8.68]"], ["2.5", "[0.267, 8.02]"]
    assert words_of(figure) == [*("10", "[3.42, 10]"), *grim * 2, *("10", "[3.42, 10]"), *loyal * 2]
    shades = [sum(patch.get_facecolor()[:3]) for patch in figure.axes[0].patches]
    assert shades[0] == shades[3] > shades[1] > shades[4]  # from the least to the greatest mean
    assert "with its 95% Wilson interval" in text_of(figure)
    rounds = pages_of(twice, "map", of=("first_betrayal_round",), x="model", by_player=False)
    assert "with its 95% t interval" in text_of(rounds)
