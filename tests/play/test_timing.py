import dataclasses
from pathlib import Path

import pytest

from parley.play.journal import Entry
from parley.play.record import read_summary, write_record
from parley.play.record_content import times
from parley.play.runner import play
from support.playing import scripted_policies
from support.studies import StudyFactory


def entry(number: int, phase: str, agent: str, started: float, seconds: float, attempt: int = 0) -> Entry:
    return Entry(number, phase, agent, attempt, 1, "ask", "text", "stop", 1, 1, 0, started, seconds)


def test_a_phase_takes_as_long_as_its_slowest_agent_in_each_round() -> None:
    found = times(
        [
            entry(1, "speak", "a", 0.0, 2.0),
            entry(1, "speak", "b", 0.5, 1.0),
            entry(1, "speak", "b", 1.5, 1.75, attempt=1),  # the attempts of an agent add up: 2.75
            entry(2, "speak", "a", 4.0, 0.5),
            entry(2, "judge", "a", 5.0, 0.25),
            entry(2, "judge", "b", 7.0, 0.125),
        ]
    )
    assert found["phase_seconds"] == {"speak": 3.25, "judge": 0.25}
    # From 0 to 3.25, from 4 to 4.5, from 5 to 7.125.
    assert found["wall_seconds"] == 5.875


def test_times_are_whole_milliseconds() -> None:
    assert times([entry(1, "speak", "a", 0.0, 0.00049), entry(2, "speak", "a", 0.0, 0.0014)]) == {
        "phase_seconds": {"speak": 0.001},
        "wall_seconds": 0.001,
    }


@pytest.mark.parametrize("seconds", [float("inf"), float("nan")])
def test_times_that_are_none_count_as_nothing(seconds: float) -> None:
    assert times([entry(1, "speak", "a", 0.0, seconds)]) == {"phase_seconds": {"speak": 0.0}, "wall_seconds": 0.0}


def test_a_clock_that_was_set_back_makes_no_negative_times() -> None:
    assert times([entry(1, "speak", "a", 9.0, -3.0)])["wall_seconds"] == 0.0


def test_no_replies_take_no_time() -> None:
    assert times([]) == {"phase_seconds": {}, "wall_seconds": 0}


def test_times_are_in_the_record_and_outside_of_the_digest(study_factory: StudyFactory) -> None:
    simulation = next(study_factory(parameters={"max_rounds": 2}).simulations())
    game = simulation.game()
    played = play(simulation.id, game, scripted_policies(simulation, game))
    exchanges = [
        dataclasses.replace(x, entry=dataclasses.replace(x.entry, seconds=4.0 + place))
        for place, x in enumerate(played.exchanges)
    ]
    slow = dataclasses.replace(played, exchanges=tuple(exchanges))
    write_record(Path("quick.parquet"), simulation, played, {})
    write_record(Path("slow.parquet"), simulation, slow, {})
    quick_summary, slow_summary = read_summary(Path("quick.parquet")), read_summary(Path("slow.parquet"))
    assert slow_summary.telemetry["phase_seconds"] == {"propose": 6.0 + 12.0, "vote": 9.0 + 15.0}
    assert slow_summary.telemetry["wall_seconds"] == pytest.approx(42, abs=1)
    assert quick_summary.telemetry["wall_seconds"] < 42
    assert quick_summary.digest == slow_summary.digest
