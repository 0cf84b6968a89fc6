"""`parley fork`: forks of one recorded game by hand, in this process; nothing is recorded."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from parley.errors import UsageError
from parley.play.forks import check_parents
from parley.play.live import Transcript, answering_for
from parley.play.matrix_text import outcome_line
from parley.play.record import read_record
from parley.play.replay import replay
from parley.play.runner import Exchange, Play, Watcher
from parley.play.simulate import play_simulation
from parley.policies import GIVEN
from parley.study import Study
from parley.study.condition import Simulation
from parley.study.load import study_of
from parley.text import one_line


def study_of_record(
    record: Path, at: Sequence[str], changes: Sequence[str], repeats: int, models: Path | None
) -> Study:
    """Return the study of forks of one record; raises UsageError or RecordError before anything is played.

    `at` and `changes` are as a study file has them.
    """
    summary, _ = read_record(record)
    wanted = {
        "game": summary.simulation.get("game"),
        "fork": {
            "of": str(record.absolute()),
            "at": [int(each) if each.isdecimal() else each for each in at],
            "change": [_written(text) for text in changes],
            "repeats": repeats,
        },
    }
    study = study_of("fork", wanted, models)
    check_parents(study)
    return study


def _written(text: str) -> Any:
    with suppress(yaml.YAMLError):
        return yaml.safe_load(text)
    raise UsageError(f"--change {one_line(text, 60)}: write none, or KEY: VALUE as in 'silence: byzantine'")


def play_forks(
    study: Study, endpoints: Sequence[Path], engine_timeout: float, first: Sequence[Watcher] = ()
) -> Iterator[tuple[Simulation, Play]]:
    """Yield each fork as it was played, with engines that are started once; `first` watch the first of them."""
    simulations = list(study.simulations())
    with answering_for(study, simulations, endpoints, engine_timeout) as answering:
        for simulation in simulations:
            yield simulation, asyncio.run(play_simulation(simulation, answering, watchers=first))[0]
            first = ()


class ForkTranscript(Transcript):
    """Shows the replies of a fork that are not its recorded game's."""

    def phase_over(self, exchanges: Sequence[Exchange]) -> None:
        """Show those of a phase."""
        super().phase_over([exchange for exchange in exchanges if exchange.entry.given != GIVEN])


def show_forks(
    study: Study, endpoints: Sequence[Path], engine_timeout: float, reasoning: bool, show: Callable[[str], None]
) -> None:
    """Play the forks of one recorded game, show the first as it is played, then how the game and each fork ended."""
    game = study.game
    recorded = replay(next(iter(study.parents))).play
    assert recorded is not None, "a game that cannot be replayed was refused"
    transcript = ForkTranscript(show, reasoning, game.read_texts)
    played = list(play_forks(study, endpoints, engine_timeout, [transcript]))
    show(f"recorded: {outcome_line(game, recorded.outcome)}")
    ends = game.class_of(recorded.outcome.name, recorded.outcome.detail)
    for number, (simulation, play) in enumerate(played, 1):
        show(f"fork {number}, {simulation.condition.axes['change']}: {outcome_line(game, play.outcome)}")
    same = sum(game.class_of(play.outcome.name, play.outcome.detail) == ends for _, play in played)
    show(f"{same} of {len(played)} forks end as the recorded game did")
