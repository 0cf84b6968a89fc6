import fcntl
from pathlib import Path

from parley import paths
from parley.play.simulate import simulate
from parley.progress.status import status
from support.studies import StudyFactory


def test_status_tells_what_is_done_and_what_is_to_do(study_factory: StudyFactory) -> None:
    study = study_factory({"n": [3, 4]}, seeds=2, parameters={"max_rounds": 1})
    assert list(status(study)) == [
        "small: 0 of 4 simulations, 4 to do",
        "nothing is played now",
        "to do: tables, figures, report, view",
    ]
    for simulation in list(study.simulations())[:2]:
        simulate(study, simulation.record("small"), [], 1.0)
    # What was just played is no run's: nobody has the lock.
    assert list(status(study))[:2] == ["small: 2 of 4 simulations, 2 to do", "nothing is played now"]
    lock = paths.lock("small")
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        lines = list(status(study))
    assert lines[0] == "small: 2 of 4 simulations, 2 to do"
    assert "simulations/" in lines[1]
    assert "left" in lines[1]
    assert lines[2].startswith("running: playing")
    log = paths.log("small", "summarize")
    log.parent.mkdir(parents=True)
    log.write_text("parley: no\n")
    assert "failed: tables" in list(status(study))
    assert not Path("results/small/tables").exists()
