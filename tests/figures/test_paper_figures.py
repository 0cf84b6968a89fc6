"""The figures of the papers: which conditions and outcomes they have, in which order, and what marks lead to."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

from parley.analysis.tables import read_table
from parley.figures.make import draw
from parley.figures.map import by_player, quantity_map
from parley.figures.style import own_style
from parley.study import Study
from support.panels import panels_of, text_of
from support.studies import StudyFactory, make_study

GRIDS = """
  - {model: [majority, random], n: [4, 6], b: 0, prompt: [may_exist, none_exist]}
  - {model: majority, honest: 4, b: [1, 2], prompt: may_exist, byzantine: random}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def figure(study: Study, name: str) -> Figure:
    [spec] = [spec for spec in study.figures if spec.name == name]
    with own_style():
        return draw(study, spec, lambda table: read_table(study.name, table))[0]


def ticks(ax: Any) -> list[str]:
    return [label.get_text() for label in ax.get_xticklabels()]


@pytest.mark.usefixtures("here")
def test_figures_2_and_3_share_out_the_conditions_and_figure_4_has_a_row_per_prompt() -> None:
    study = make_study(GRIDS)
    second = panels_of(figure(study, "paper_figure_2"))
    assert [ax.get_title() for ax in second] == ["majority", "random"]
    assert [ticks(ax) for ax in second] == [["4", "6"], ["4", "6"]]
    assert second[0].get_ylabel() == "valid consensus"
    third = figure(study, "paper_figure_3")
    assert ticks(panels_of(third)[0]) == ["1", "2"]  # no bar for b = 0
    assert "premature" not in text_of(third)
    rows: dict[float, set[str]] = {}
    for ax in panels_of(figure(study, "trajectories")):
        rows.setdefault(round(ax.get_position().y0, 2), set()).add(ax.get_ylabel())
    assert [labels - {""} for labels in rows.values()] == [{"prompt=may_exist\nvalue"}, {"prompt=none_exist\nvalue"}]


@pytest.mark.parametrize(
    ("grid", "missing"),
    [
        ("[{model: random, n: [4, 6], prompt: may_exist}]", {"paper_figure_2", "paper_figure_3"}),
        ("[{model: random, n: [4, 6], b: [0, 1], prompt: [may_exist, none_exist]}]", {"paper_figure_3"}),
        ("[{model: random, n: 6, b: [1, 2], prompt: [may_exist, none_exist]}]", {"paper_figure_2"}),
    ],
)
@pytest.mark.usefixtures("here")
def test_what_a_study_cannot_show_it_has_not(grid: str, missing: set[str]) -> None:
    names = {spec.name for spec in make_study(grid, play=False).figures}
    assert {"paper_figure_2", "paper_figure_3"} - names == missing


def hunts(factory: StudyFactory) -> Study:
    players: Sequence[dict[str, Any]] = [
        {"role": "honest", "count": 1, "policy": name} for name in ("tit_for_tat", "always_stag", "grim_trigger")
    ]
    adversary = {"role": "byzantine", "count": 1, "policy": "betray"}
    grids = [{"groups": [*players[:k], adversary], "model": None, "n": None, "prompt": "plain"} for k in (1, 2, 3)]
    return factory(*grids, game="stag_hunt")


def test_the_heat_map_has_a_row_per_player_in_order_and_nothing_where_one_did_not_play(
    study_factory: StudyFactory,
) -> None:
    study = hunts(study_factory)
    [spec] = [spec for spec in study.figures if spec.name == "defection_by_group_size"]
    base = {"b": 1, "prompt": "plain", "byzantine": "betray", "quantity": "hare_for_good", "simulations": 5}
    base |= {"low": 0.1, "high": 0.9}
    mixed = [condition.axes["model"] for condition in study.conditions[1:]]
    players = [
        base | {"model": mixed[0], "n": 3, "player": "tit_for_tat", "mean": 0.25},
        base | {"model": mixed[0], "n": 3, "player": "always_stag", "mean": 0.0},
        base | {"model": mixed[1], "n": 4, "player": "grim_trigger", "mean": 1.0},
    ]
    alone = pd.DataFrame([base | {"model": "tit_for_tat", "n": 2, "mean": 0.75}])
    with own_style():
        [page] = quantity_map(study, spec, by_player(study, alone, pd.DataFrame(players)))
    [ax] = panels_of(page)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["always_stag", "grim_trigger", "tit_for_tat"]
    assert ticks(ax) == ["2", "3", "4"]
    cells = {text.get_position(): text.get_text() for text in ax.texts if text.get_text().endswith("%")}
    assert {(x, round(y)): text for (x, y), text in cells.items()} == {
        (1, 0): "0%",
        (2, 1): "100%",
        (0, 2): "75%",
        (1, 2): "25%",
    }


# What marks lead to, and what stands where


@pytest.mark.usefixtures("here")
def test_no_mark_leads_to_an_empty_list() -> None:
    study = make_study(GRIDS)
    for name in ("outcome_rates", "endings"):
        marks = [line for ax in panels_of(figure(study, name)) for line in ax.lines if line.get_url()]
        assert marks
        for line in marks:
            assert ("outcome=" in line.get_url()) == (max(line.get_ydata()) > 0)


@pytest.mark.usefixtures("here")
def test_games_without_adversaries_are_one_bar_however_few_groups_met_each_kind() -> None:
    grids = "[{model: [majority, random], n: 6, b: 0, prompt: may_exist},"
    grids += " {model: majority, n: 6, b: 1, byzantine: [random, silent, stubborn], prompt: may_exist},"
    grids += " {model: random, n: 6, b: 1, byzantine: silent, prompt: may_exist}]"
    panels = panels_of(figure(make_study(grids), "outcomes_by_byzantine"))
    assert [ticks(ax) for ax in panels] == [["0", "1", "1", "1"], ["0", "1"]]


@pytest.mark.usefixtures("here")
def test_lines_are_named_at_their_ends_where_they_are_apart() -> None:
    names = {"prompt=may_exist", "prompt=none_exist"}
    study = make_study(GRIDS)
    table = read_table(study.name, "conditions")
    [spec] = [spec for spec in study.figures if spec.name == "paper_figure_2"]
    for rates, legends in (({"may_exist": 0.2, "none_exist": 0.8}, 0), ({"may_exist": 0.5, "none_exist": 0.5}, 1)):
        told = table.assign(valid_consensus_rate=table["prompt"].map(rates))
        with own_style():
            page = draw(
                study, spec, lambda name, told=told: told if name == "conditions" else read_table("tiny", name)
            )[0]
        beside = {text.get_text() for ax in panels_of(page) for text in ax.texts}
        assert (len(page.legends), beside & names) == (legends, set() if legends else names)
