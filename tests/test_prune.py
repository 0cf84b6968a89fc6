"""Pruning removes what a study no longer has, and nothing that it has."""

from collections.abc import Callable

import pytest

from conftest import StudyFactory
from parley import paths
from parley.errors import JournalError
from parley.prune import former, prune
from parley.simulate import simulate
from parley.workflow import hold_lock


def test_former_records_go_and_current_ones_stay(study_factory: StudyFactory, quiet: Callable[[str], None]) -> None:
    old = study_factory(seeds=2, parameters={"max_rounds": 3})
    for simulation in old.simulations():
        simulate(old, simulation.record(old.name), [], 1.0, quiet)
    new = study_factory(seeds=1, parameters={"max_rounds": 4})
    (current,) = (simulation.record(new.name) for simulation in new.simulations())
    simulate(new, current, [], 1.0, quiet)
    stale = [simulation.record(old.name) for simulation in old.simulations()]
    assert former(new) == sorted([*stale, *map(paths.kept_record, stale)])

    assert prune(new) == 4
    assert list(paths.simulations(new.name).rglob("*.parquet")) == [current]
    assert paths.kept_record(current).exists()
    assert former(new) == []
    assert not stale[0].parent.exists()


def test_nothing_is_deleted_beside_a_run(study_factory: StudyFactory) -> None:
    study = study_factory()
    leftover = study.conditions[0]
    record = paths.simulation(study.name, leftover.path, "00000000", 0)
    record.parent.mkdir(parents=True)
    record.touch()
    hold_lock(paths.lock(study.name))
    with pytest.raises(JournalError, match="another run of this study holds it"):
        prune(study)
    assert record.exists()
