"""What a discussion is held against (`compare_with`): conditions of their own, on the same seeds."""

from functools import partial
from typing import Any

import pytest

from parley.errors import UsageError
from parley.play.record import read_record
from parley.play.simulate import simulate
from parley.study import Study
from parley.study.recorded import rebuilt
from support.studies import StudyFactory, refused

SOLVERS = {"model": "solver", "n": 3, "prompt": "improve"}
ARMS = ["independent", "self_correction", "placebo"]


def talking(
    make: StudyFactory, *grids: dict[str, Any], parameters: dict[str, Any] | None = None, **content: Any
) -> Study:
    each = [{**SOLVERS, **grid} for grid in grids or ({},)]
    return make(*each, game="deliberation", seeds=2, parameters=parameters or {}, **content)


@pytest.mark.promise(
    "Arms are conditions of their own on the same seeds; what is compared with them keeps its identity."
)
def test_each_condition_that_talks_gets_its_arms(study_factory: StudyFactory) -> None:
    grids = ({"vary": {"turns": [0, 1, 2]}}, {"b": 1, "byzantine": ["stubborn"], "vary": {"turns": [2]}})
    parameters = {"topology": "ring"}
    plain = talking(study_factory, *grids, parameters=parameters)
    study = talking(study_factory, *grids, parameters=parameters, compare_with=ARMS)
    kept = [each for each in study.conditions if each.axes["arm"] in ("talk", "none")]
    assert [each.identity for each in kept] == [each.identity for each in plain.conditions]
    assert "arm" not in plain.axes
    assert [each.axes["arm"] for each in kept] == ["none", "talk", "talk", "none"]
    arms = {(c.axes["turns"], c.axes["arm"]): c for c in study.conditions if c not in kept}
    assert set(arms) == {(turns, arm) for turns in (1, 2) for arm in ARMS}
    numbers = {key: sum(group.count for group in c.groups) for key, c in arms.items()}
    assert numbers == {(t, arm): 3 * 3 * (t + 1) if arm == "independent" else 3 for t in (1, 2) for arm in ARMS}
    heard = {arm: (c.parameters.turns, c.parameters.hears) for (t, arm), c in arms.items() if t == 2}  # type: ignore[attr-defined]
    assert list(heard.values()) == [(0, "nobody"), (2, "nobody"), (2, "another_problem")]
    assert len({simulation.id for simulation in study.simulations()}) == 2 * len(study.conditions)


def test_who_is_alone_does_not_talk(study_factory: StudyFactory) -> None:
    study = talking(study_factory, {"n": [1, 2]}, compare_with=["placebo"])
    assert [(c.axes["n"], c.axes["arm"]) for c in study.conditions] == [(1, "none"), (2, "talk"), (2, "placebo")]
    grid = {"n": 4, "vary": {"panel_size": [1, 2]}}
    study = talking(study_factory, grid, compare_with=["placebo"])
    assert [c.axes["arm"] for c in study.conditions] == ["none", "talk", "placebo"]


def test_how_arms_are_written(study_factory: StudyFactory) -> None:
    study = talking(study_factory, compare_with=["placebo", {"independent": 7}])
    numbers = {c.axes["arm"]: c.groups[0].count for c in study.conditions}
    assert numbers == {"talk": 3, "placebo": 3, "independent": 7}
    assert [c.axes["arm"] for c in talking(study_factory, compare_with="placebo").conditions] == ["talk", "placebo"]


@pytest.mark.parametrize(
    ("grid", "content", "named"),
    [
        ({}, {"compare_with": ["placbo"]}, "did you mean 'placebo'"),
        ({}, {"compare_with": {"placebo": 3}}, "input should be 'independent'"),
        ({}, {"compare_with": [[1]]}, "compare_with"),
        ({}, {"compare_with": ["placebo", "placebo"]}, "duplicate"),
        ({"b": 1, "byzantine": "stubborn"}, {"compare_with": ["placebo"]}, "remove this key"),
        ({}, {"compare_with": ["placebo"], "parameters": {"problems": "policies"}}, "remove this key"),
        ({}, {"compare_with": ["placebo"], "parameters": {"talk": 1, "turns": 1}}, "without talk"),
        ({"vary": {"hears": ["all", "neighbor"]}}, {"compare_with": ["placebo"]}, "are the same games"),
        ({"n": [3, 5]}, {"compare_with": {"independent": 8}}, "are the same games"),
    ],
)
def test_arms_that_cannot_be_are_refused(
    grid: dict[str, Any], content: dict[str, Any], named: str, study_factory: StudyFactory
) -> None:
    refused(partial(talking, study_factory, grid, **content), r"small\.yaml: ", named)
    with pytest.raises(UsageError, match="remove this key"):
        study_factory(compare_with=["placebo"])


def test_the_record_of_an_arm_says_all_that_it_is(study_factory: StudyFactory) -> None:
    study = talking(study_factory, {"vary": {"turns": [1]}}, compare_with=ARMS)
    for simulation in study.simulations():
        record = simulation.record(study.name)
        simulate(study, record, [], 5.0)
        assert rebuilt(record, read_record(record)[0].simulation).id == simulation.id
