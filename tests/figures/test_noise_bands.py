"""Where seeds were played again, rates are drawn with how far a condition differs from itself."""

import numpy as np
import pytest
from matplotlib.collections import LineCollection

import parley
from parley.analysis.summarize import summarize
from parley.play.simulate import simulate
from support.panels import panels_of, text_of
from support.studies import StudyFactory


def bands(repeats: int, study_factory: StudyFactory) -> tuple[str, list[float], parley.Study]:
    """Return the texts of the figure of rates, the heights of its pale bars, and the study."""
    grid = {"model": "random", "n": [5, 6], "prompt": ["may_exist", "none_exist"]}
    study = study_factory(grid, seeds=8, repeats=repeats, parameters={"max_rounds": 6})
    for simulation in study.simulations():
        simulate(study, simulation.record(study.name), [], 1.0)
    summarize(study)
    loaded = parley.load("small.yaml")
    figure = loaded.results().figure("outcome_rates")
    lines = [c for ax in panels_of(figure) for c in ax.collections if isinstance(c, LineCollection)]
    pale = [line for line in lines if line.get_alpha() == pytest.approx(0.2)]
    heights = [float(np.ptp([y for _, y in segment])) for line in pale for segment in line.get_segments()]
    return text_of(figure), heights, loaded


def test_a_pale_bar_is_as_high_as_the_band(study_factory: StudyFactory) -> None:
    text, heights, study = bands(2, study_factory)
    assert "Pale bars: how far from the point the same seeds come" in text
    conditions, noise = study.results().conditions, study.results().table("noise")
    expected = []
    for outcome in ("valid_consensus", "invalid_consensus", "premature_stop", "no_consensus"):
        rows = conditions.merge(noise[noise["what"] == outcome], on=["n", "prompt"])
        for rate, band in zip(rows[f"{outcome}_rate"], rows["band"], strict=True):
            if band > 0:
                expected.append(min(1, rate + band) - max(0, rate - band))
    assert expected
    assert sorted(heights) == pytest.approx(sorted(expected))


def test_without_repeats_there_is_none(study_factory: StudyFactory) -> None:
    text, heights, _ = bands(1, study_factory)
    assert (heights, "Pale bars" in text) == ([], False)
