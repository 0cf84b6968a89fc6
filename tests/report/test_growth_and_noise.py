"""The report of a study whose seeds grew, or were played again, says so."""

import re

from parley import paths
from parley.analysis.precision import anytime_interval
from parley.analysis.summarize import summarize
from parley.figures.make import figures
from parley.play.simulate import simulate
from parley.report.page import report
from parley.study import Study
from support.studies import StudyFactory

GROWING = {"from": 6, "by": 2, "to": 9, "until": {"outcome": "premature_stop", "width": 0.5}}


def page(study: Study) -> str:
    for simulation in study.simulations():
        simulate(study, simulation.record(study.name), [], 1.0)
    summarize(study)
    figures(study)
    report(study)
    page = re.sub(r"<(style|script)>.*?</\1>", "", paths.report(study.name).read_text(), flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", " ", page).split())


def test_growth_is_said_with_limits_that_hold_for_it(study_factory: StudyFactory) -> None:
    text = page(study_factory({"model": "random", "n": 5}, seeds=GROWING, parameters={"max_rounds": 6}))
    assert (
        "Seeds grew from 6 by 2 to at most 9, until the 95% Wilson interval of premature_stop was at most 0.5" in text
    )
    assert "WARNING: seeds that grew" in text
    low, high = anytime_interval(0, 6)
    assert f"0 of 6; at any time [{low:.0%}, {high:.0%}]" in text  # no valid consensus among random agents


def test_repeats_are_said_and_shown(study_factory: StudyFactory) -> None:
    text = page(study_factory({"model": "random", "n": 5}, seeds=8, repeats=2, parameters={"max_rounds": 6}))
    assert "0 to 7 (1 condition); each played 2 times: tables and figures show the first" in text
    assert re.search(
        r"In all rows: model=random, n=5, b=0, prompt=may_exist outcome pairs again less first noise premature stop 8 "
        r"[+-]\d+ ±\d+",
        text,
    )
    assert "8 simulations of the game consensus" in text
    assert "Each was played 2 times with other sampling seeds" in text


def test_without_either_there_is_no_word_of_them(study_factory: StudyFactory) -> None:
    text = page(study_factory({"model": "random", "n": 5}, seeds=3, parameters={"max_rounds": 2}))
    assert not re.search("at any time|Seeds grew|Noise|again", text)
