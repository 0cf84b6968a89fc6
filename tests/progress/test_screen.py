"""The loop behind a display, where nothing can be shown any more; what `parley status` tells."""

import io
import time
from pathlib import Path

import pytest

from parley import paths
from parley.play.simulate import simulate
from parley.progress.follow import Progress
from parley.progress.screen import Screen, status, watch
from parley.progress.state import PLAY, RUN
from support.records import write_events
from support.studies import StudyFactory, play_all


class Closed(io.StringIO):
    """A pipe whose reader is gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.slow
def test_a_reader_that_is_gone_ends_a_watch_and_no_run(study_factory: StudyFactory) -> None:
    study = study_factory()
    with pytest.raises(BrokenPipeError):
        watch(study, Closed())
    screen = Screen(Progress(study), Closed())
    screen.start()
    screen.wait()
    screen.stop()
    assert isinstance(screen.failure, BrokenPipeError)


def test_a_display_that_is_ended_before_it_began_never_begins(study_factory: StudyFactory) -> None:
    """Snakemake begins it in a thread of its own, while the main thread may already end the run."""
    shown = io.StringIO()
    screen = Screen(Progress(study_factory()), shown)
    screen.stop()
    screen.start()
    screen.stop()
    assert (shown.getvalue(), screen.snapshot) == ("", None)


@pytest.mark.promise("`parley status` says what is done and what is to do.")
def test_status_tells_what_is_done_and_what_is_to_do(study_factory: StudyFactory) -> None:
    study = study_factory({"n": [3, 4]}, seeds=2, parameters={"max_rounds": 1})
    assert list(status(study)) == [
        "small: 0 of 4 simulations, 4 to do",
        "nothing is played now",
        "· playing   · tables   · figures   · report   · view",
    ]
    folder = paths.processes(paths.results("small"))
    note = {"event": "told", "note": "2 jobs sent, not playing yet", "always": False}
    run = write_events(folder, RUN, note, began=time.time() - 60)
    assert "2 jobs sent, not playing yet" in list(status(study))
    run.unlink()
    for simulation in list(study.simulations())[:2]:
        simulate(study, simulation.record("small"), [], 1.0)
    assert list(status(study))[1] == "nothing is played now"
    write_events(folder, PLAY)
    write_events(folder, "tables", {"event": "ended", "at": time.time(), "error": "no"})
    assert list(status(study)) == [
        "small: 2 of 4 simulations, 2 to do",
        "▶ playing   ✗ tables   · figures   · report   · view",
    ]
    assert not Path("results/small/tables").exists()


def test_status_counts_records_of_former_conditions_and_seeds(study_factory: StudyFactory) -> None:
    study = study_factory({"n": [3, 4]}, seeds=2)
    play_all(study)
    fewer = study_factory({"n": 3}, seeds=1)
    assert list(status(fewer))[1] == "3 records of former configurations; parley prune small.yaml lists them"
