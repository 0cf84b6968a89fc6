"""The loop behind a display, where nothing can be shown any more."""

import io

import pytest

from parley.progress.follow import Progress
from parley.progress.screen import Screen
from parley.progress.status import watch
from support.studies import StudyFactory


class Closed(io.StringIO):
    """A pipe whose reader is gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_reader_that_is_gone_ends_a_watch_without_a_trace(study_factory: StudyFactory) -> None:
    with pytest.raises(BrokenPipeError):
        watch(study_factory(), Closed())


def test_a_display_that_cannot_write_ends_no_run(study_factory: StudyFactory) -> None:
    screen = Screen(Progress(study_factory(), since=0.0), Closed())
    screen.start()
    screen.wait(lambda snapshot: False)
    screen.stop()
    assert isinstance(screen.failure, BrokenPipeError)


def test_a_display_that_is_ended_before_it_began_never_begins(study_factory: StudyFactory) -> None:
    """Snakemake begins it in a thread of its own, while the main thread may already end the run."""
    shown = io.StringIO()
    screen = Screen(Progress(study_factory(), since=0.0), shown)
    screen.stop()
    screen.start()
    screen.stop()
    assert (shown.getvalue(), screen.snapshot) == ("", None)
