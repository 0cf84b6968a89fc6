"""Figures of noise: what they show and leave out."""

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from parley.analysis.tables import read_table
from support.figures import pages_of, panels_of, played, study_of, text_of

# Noise: seeds that were played again


def pale_bars(figure: list[Figure]) -> list[float]:
    lines = [c for ax in panels_of(figure) for c in ax.collections if isinstance(c, LineCollection)]
    pale = [line for line in lines if line.get_alpha() == pytest.approx(0.2)]
    return [float(np.ptp([y for _, y in segment])) for line in pale for segment in line.get_segments()]


@pytest.mark.slow
def test_a_pale_bar_is_as_high_as_the_band() -> None:
    grid = {"model": "random", "n": [5, 6]}
    study = study_of(grid, seeds=8, repeats=2, parameters={"max_rounds": 6}, name="noise")
    figure = pages_of(played(study).shown, "outcome_rates")
    assert "Pale bars: how far from the point the same seeds come" in text_of(figure)
    conditions, noise = read_table(study.name, "conditions"), read_table(study.name, "noise")
    expected = []
    for outcome in ("valid_consensus", "invalid_consensus", "premature_stop", "no_consensus"):
        rows = conditions.merge(noise[noise["what"] == outcome], on="n")
        for rate, band in zip(rows[f"{outcome}_rate"], rows["band"], strict=True):
            if band > 0:
                expected.append(min(1, rate + band) - max(0, rate - band))
    assert expected
    assert sorted(pale_bars(figure)) == pytest.approx(sorted(expected))
