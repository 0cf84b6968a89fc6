"""The figures of the papers: which conditions and outcomes they have, in which order, and what marks lead to."""

from typing import Any

import pandas as pd
import pytest

from parley.figures.map import by_player, share_map
from parley.figures.style import own_style
from support.figures import pages_of, panels_of, study_of, ticks
from support.studies import make_study

pytestmark = pytest.mark.promise("The papers' figures have the conditions and outcomes of their texts.")


def test_what_a_study_cannot_show_it_has_not() -> None:
    both = {"paper_figure_2", "paper_figure_3"}
    for grid, missing in (
        ("[{model: random, n: [4, 6], prompt: may_exist}]", both),
        ("[{model: random, n: [4, 6], b: [0, 1], prompt: [may_exist, none_exist]}]", {"paper_figure_3"}),
        ("[{model: random, n: 6, b: [1, 2], prompt: [may_exist, none_exist]}]", {"paper_figure_2"}),
    ):
        names = {spec.name for spec in make_study(grid, play=False, name="cannot").figures}
        assert both - names == missing, grid


def test_the_heat_map_has_a_row_per_player_in_order_and_nothing_where_one_did_not_play() -> None:
    names = ("tit_for_tat", "always_stag", "grim_trigger")
    honest: list[dict[str, Any]] = [{"role": "honest", "count": 1, "policy": name} for name in names]
    adversary = {"role": "byzantine", "count": 1, "policy": "betray"}
    grids = [{"groups": [*honest[:k], adversary], "model": None, "n": None, "prompt": "plain"} for k in (1, 2, 3)]
    hunts = study_of(*grids, game="stag_hunt", name="hunts")
    [spec] = [spec for spec in hunts.figures if spec.name == "defection_by_group_size"]
    base = {"b": 1, "prompt": "plain", "byzantine": "betray", "quantity": "hare_for_good", "simulations": 5}
    base |= {"low": 0.1, "high": 0.9}
    mixed = [condition.axes["model"] for condition in hunts.conditions[1:]]
    players = [
        base | {"model": mixed[0], "n": 3, "player": "tit_for_tat", "mean": 0.25},
        base | {"model": mixed[0], "n": 3, "player": "always_stag", "mean": 0.0},
        base | {"model": mixed[1], "n": 4, "player": "grim_trigger", "mean": 1.0},
    ]
    alone = pd.DataFrame([base | {"model": "tit_for_tat", "n": 2, "mean": 0.75}])
    with own_style():
        [page] = share_map(hunts, spec, by_player(hunts, alone, pd.DataFrame(players)))
    [ax] = panels_of(page)
    assert ticks(ax) == (["2", "3", "4"], ["always_stag", "grim_trigger", "tit_for_tat"])
    cells = {text.get_position(): text.get_text() for text in ax.texts if text.get_text().endswith("%")}
    assert {(x, round(y)): text for (x, y), text in cells.items()} == {
        **{(1, 0): "0%", (2, 1): "100%", (0, 2): "75%", (1, 2): "25%"},
    }


# What marks lead to, and what stands where


@pytest.mark.slow
def test_no_mark_leads_to_an_empty_list() -> None:
    study = make_study("""
  - {model: [majority, random], n: [4, 6], b: 0, prompt: [may_exist, none_exist]}
  - {model: majority, honest: 4, b: [1, 2], prompt: may_exist, byzantine: random}
""")
    marks = [line for ax in panels_of(pages_of(study, "outcome_rates")) for line in ax.lines if line.get_url()]
    assert marks
    for line in marks:
        assert ("outcome=" in line.get_url()) == (max(line.get_ydata()) > 0)
