import dataclasses
from pathlib import Path

import pytest

from parley.play.journal import Entry
from parley.play.record import read_summary, write_record
from parley.play.record_content import times
from support.playing import play_of
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
    # From 0 to 3.25, from 4 to 4.5, from 5 to 7.125.
    assert found == {"phase_seconds": {"speak": 3.25, "judge": 0.25}, "wall_seconds": 5.875}


def test_odd_times_are_whole_milliseconds_and_never_less_than_nothing() -> None:
    for seconds, counted in [
        ([0.00049, 0.0014], 0.001),
        ([float("inf")], 0.0),
        ([float("nan")], 0.0),
        ([-3.0], 0.0),  # a clock that was set back
    ]:
        found = times([entry(number, "speak", "a", 0.0, each) for number, each in enumerate(seconds)])
        assert found["wall_seconds"] == counted
        assert found["phase_seconds"]["speak"] == counted or seconds == [-3.0]
    assert times([]) == {"phase_seconds": {}, "wall_seconds": 0}


def test_times_are_in_the_record_and_outside_of_the_digest(study_factory: StudyFactory) -> None:
    simulation = next(study_factory(parameters={"max_rounds": 2}).simulations())
    played = play_of(simulation)
    exchanges = [
        dataclasses.replace(x, entry=dataclasses.replace(x.entry, seconds=4.0 + place))
        for place, x in enumerate(played.exchanges)
    ]
    write_record(Path("quick.parquet"), simulation, played, {})
    write_record(Path("slow.parquet"), simulation, dataclasses.replace(played, exchanges=tuple(exchanges)), {})
    quick, slow = read_summary(Path("quick.parquet")), read_summary(Path("slow.parquet"))
    assert slow.telemetry["phase_seconds"] == {"propose": 6.0 + 12.0, "vote": 9.0 + 15.0}
    assert slow.telemetry["wall_seconds"] == pytest.approx(42, abs=1)
    assert quick.telemetry["wall_seconds"] < 42
    assert quick.digest == slow.digest
