"""`parley fork`: forks of one recorded game by hand, in this process; nothing is recorded."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from parley.errors import UsageError
from parley.games.base import Game
from parley.play.forks import check_parents
from parley.play.live import Transcript, answering_for
from parley.play.matrix import decided
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
    record: Path,
    at: Sequence[str],
    changes: Sequence[str],
    repeats: int,
    models: Path | None,
    anew: bool = True,
) -> Study:
    """Return the study of forks of one record; raises UsageError or RecordError before anything is played.

    `at` and `changes` are as a study file has them. Without `anew` forks have the sampling seeds of the record.
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
    if not anew:
        study = replace(
            study, conditions=tuple(replace(c, fork=replace(c.fork, anew=False)) for c in study.conditions if c.fork)
        )
    return study


def _written(text: str) -> Any:
    with suppress(yaml.YAMLError):
        return yaml.safe_load(text)
    raise UsageError(f"--change {one_line(text, 60)}: write none, or KEY: VALUE as in 'silence: byzantine'")


def recorded_play(study: Study) -> Play:
    """Return the recorded game that all simulations of a study are forks of, played again from its record."""
    played = replay(next(iter(study.parents))).play
    assert played is not None, "a game that cannot be replayed was refused"
    return played


def play_forks(
    study: Study,
    endpoints: Sequence[Path],
    engine_timeout: float,
    first: Sequence[Watcher] = (),
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
        if new := [exchange for exchange in exchanges if exchange.entry.given != GIVEN]:
            super().phase_over(new)


def end_lines(game: type[Game], recorded: Play, played: Sequence[tuple[Simulation, Play]]) -> Iterator[str]:
    """Yield how the recorded game ended, how each fork did, and what differs."""
    yield f"recorded: {outcome_line(game, recorded.outcome)}"
    said = _decisions(recorded, game.read_texts)
    for number, (simulation, play) in enumerate(played, 1):
        yield f"fork {number}, {simulation.condition.axes['change']}: {outcome_line(game, play.outcome)}"
        if play.digest == recorded.digest:
            yield "  the same, byte for byte"
            continue
        now = _decisions(play, game.read_texts)
        other = [key for key in dict.fromkeys([*said, *now]) if said.get(key) != now.get(key)]
        first = ""
        if other:
            in_round, phase, agent = other[0]
            before, after = (words.get(other[0], "not asked") for words in (said, now))
            first = f", first {agent} in round {in_round}, {phase}: {before} -> {after}"
        yield f"  other decisions: {len(other)}{first}"
    same = sum(ends_alike(game, recorded, play) for _, play in played)
    yield f"{same} of {len(played)} forks end as the recorded game did"


def ends_alike(game: type[Game], recorded: Play, forked: Play) -> bool:
    """Whether a fork has the outcome of the recorded game."""
    then, now = (game.class_of(each.name, each.detail) for each in (recorded.outcome, forked.outcome))
    return then == now


def _decisions(play: Play, decisive: frozenset[str]) -> dict[tuple[int, str, str], str]:
    """Return what was decided, in words, by round, phase and agent."""
    return {
        x.entry.key[:3]: one_line(", ".join(map(str, decided(x, decisive)[0])), 60) or "nothing"
        for x in play.exchanges
    }
