"""What follows a run of a study whose seeds grow."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from parley.workflow import hooks
from support.studies import StudyFactory


@pytest.mark.parametrize(
    ("grows", "is_played", "changed", "again"),
    [
        (True, True, None, True),
        (True, True, "small.yaml changed while it ran", False),  # it is another study: the command is given again
        (True, False, None, False),  # somebody asked for one record alone
        (False, True, None, False),
    ],
)
def test_a_run_begins_anew_if_all_is_played_and_the_study_is_the_same(
    study_factory: StudyFactory,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    grows: bool,
    is_played: bool,
    changed: str | None,
    again: bool,
) -> None:
    study = study_factory()
    record = next(study.simulations()).record(study.name)
    record.parent.mkdir(parents=True)
    if is_played:
        record.touch()
    begun = []
    monkeypatch.setattr(hooks, "restart", lambda: begun.append(True))
    monkeypatch.setattr(hooks, "changed_since", lambda *_: changed)
    run: Any = SimpleNamespace(
        is_main=True, study=study, grows=grows, unplayed=[], missing=[str(record)], plan="00000000"
    )
    with caplog.at_level(logging.ERROR):
        hooks.on_success(run)
    assert (bool(begun), caplog.messages) == (again, [changed] if changed else [])
