"""Where seeds were played again, rates are drawn with how far a condition differs from itself."""

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from parley.analysis.tables import read_table
from support.figures import pages_of, panels_of, played, study_of, text_of


def pale_bars(figure: list[Figure]) -> list[float]:
    lines = [c for ax in panels_of(figure) for c in ax.collections if isinstance(c, LineCollection)]
    pale = [line for line in lines if line.get_alpha() == pytest.approx(0.2)]
    return [float(np.ptp([y for _, y in segment])) for line in pale for segment in line.get_segments()]


def test_a_pale_bar_is_as_high_as_the_band_and_there_is_none_without_repeats() -> None:
    grid = {"model": "random", "n": [5, 6], "prompt": ["may_exist", "none_exist"]}
    study = study_of(grid, seeds=8, repeats=2, parameters={"max_rounds": 6})
    figure = pages_of(played(study).first_repeat, "outcome_rates")
    assert "Pale bars: how far from the point the same seeds come" in text_of(figure)
    conditions, noise = read_table(study.name, "conditions"), read_table(study.name, "noise")
    expected = []
    for outcome in ("valid_consensus", "invalid_consensus", "premature_stop", "no_consensus"):
        rows = conditions.merge(noise[noise["what"] == outcome], on=["n", "prompt"])
        for rate, band in zip(rows[f"{outcome}_rate"], rows["band"], strict=True):
            if band > 0:
                expected.append(min(1, rate + band) - max(0, rate - band))
    assert expected
    assert sorted(pale_bars(figure)) == pytest.approx(sorted(expected))
    once = pages_of(played(study_of(grid, seeds=1, parameters={"max_rounds": 1}, name="once")), "outcome_rates")
    assert (pale_bars(once), "Pale bars" in text_of(once)) == ([], False)
