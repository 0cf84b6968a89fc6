"""The figure of `parley plan`."""

from typing import Any

import pytest
from matplotlib.figure import Figure

from parley.analysis.costs import Costs
from parley.analysis.planning import plan_table, planned, width_table
from parley.analysis.power import Rates, power_of_rates
from parley.figures.power import _power, _widths
from support.figures import data, panels_of, study_of, text_of

ASKED = {"name": "prompt", "outcome": "valid_consensus", "compare": "prompt", "over": ["n"], "smallest": 0.2}
GRID = {"n": [4, 6, 8], "prompt": ["may_exist", "none_exist"], "seeds": 20}


def power_of(grid: dict[str, Any], *questions: dict[str, Any], **content: Any) -> list[Figure]:
    study = study_of(grid, questions=list(questions), **content)
    plans = planned(study, [])
    return _power(study, plans, plan_table(study, plans, Costs([])))


def test_lines_are_the_power_of_all_strata_and_of_one() -> None:
    figure = power_of(GRID, ASKED, {**ASKED, "name": "other", "outcome": "no_consensus"})
    panel, _ = panels_of(figure)
    for (seeds, powers), (strata, alpha) in zip(data(panel), [(3, 0.025), (3, 0.05), (1, 0.05)], strict=True):
        assert max(seeds) >= 20
        assert powers == pytest.approx([power_of_rates(int(n) * strata, Rates(0.4, 0.6), alpha) for n in seeds])
    assert "corrected for 2 comparisons" in text_of(figure)
    assert "Pairs are taken to be independent" in text_of(figure)
    assert 20 in [line.get_xdata()[0] for line in panel.lines]  # where the study stands


def test_each_question_has_its_name_over_its_panel() -> None:
    sides = {
        "first": {"outcome": "premature_stop", "where": {"n": 4, "prompt": "may_exist"}},
        "second": {"outcome": "valid_consensus", "where": {"n": 6, "prompt": "none_exist"}},
    }
    within = {"name": "within", "outcomes": ["no_consensus", "valid_consensus"], "over": ["n", "prompt"]}
    figure = power_of(GRID, {**within, "smallest": 0.2}, {"name": "between", "compare": sides, "smallest": 0.2})
    assert [" ".join(panel.get_title().split()) for panel in panels_of(figure)] == [
        "within: no_consensus -> valid_consensus; 40% -> 60%",
        "between; 40% -> 60%",  # a long one has its name alone
    ]


def test_growing_seeds_stand_at_the_least_and_at_the_most() -> None:
    growing = {"from": 20, "by": 5, "to": 900, "until": {"outcome": "valid_consensus", "width": 0.05}}
    figure = power_of({**GRID, "seeds": growing}, ASKED)
    [panel] = panels_of(figure)
    assert {20, 900} <= {line.get_xdata()[0] for line in panel.lines}
    assert panel.get_xlim()[1] > 900
    assert "at the least and at the most" in text_of(figure)


def test_what_is_unknown_is_said_and_without_questions_it_shows_widths() -> None:
    grid = {"model": "grim_trigger", "n": 4, "prompt": "plain", "vary": {"cheap_talk": [False, True]}, "seeds": 6}
    asked = {"name": "talk", "outcome": "stag_share", "compare": "cheap_talk", "smallest": 0.1}
    assert "spread unknown: needs 20 pairs" in text_of(power_of(grid, asked, game="stag_hunt"))
    study = study_of(seeds=37)
    table = width_table(study)
    [panel] = panels_of(_widths(study, table))
    (seeds, widths), _ = data(panel)
    assert widths == table["width_at_50"].tolist()
    assert 37 in seeds
