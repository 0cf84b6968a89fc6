"""`parley fork` and `parley scan`: forks of one recorded game by hand, in this process; nothing is recorded."""

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from parley import paths
from parley.errors import RecordError, UsageError
from parley.games.base import Outcome
from parley.play.forks import check_parents
from parley.play.live import engines_for, outcome_line, transcript_lines
from parley.play.matrix import decided
from parley.play.record import read_record
from parley.play.replay import play_recorded, rebuild_game
from parley.play.runner import Exchange, Play
from parley.play.simulate import budget_for, play_simulation
from parley.policies import GIVEN
from parley.study import Study, load_study
from parley.study.condition import Simulation
from parley.text import counted, one_line

_METRICS_SHOWN = 6


def study_of_record(
    record: Path, at: Sequence[str], changes: Sequence[str], repeats: int, models: Path | None, anew: bool = True
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
    with TemporaryDirectory() as folder:
        file = Path(folder) / "fork.yaml"
        file.write_text(json.dumps(wanted), encoding="utf-8")  # JSON is YAML
        try:
            study = load_study(file, models or paths.models_file(Path("study.yaml")))
        except (UsageError, RecordError) as error:
            text = str(error).removeprefix(f"{file}: ").removeprefix("fork").lstrip(".: ")
            raise type(error)(text) from None
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


@dataclass(frozen=True)
class Ends:
    """The recorded game, played again from its record, and its forks."""

    study: Study
    recorded: Play
    simulations: Sequence[Simulation]

    def line(self) -> str:
        """Return what there is to ask for, before it is."""
        most = sum(each.parent.left for each in self.simulations if each.parent)
        replies = len({x.entry.key[:3] for x in self.recorded.exchanges})
        return (
            f"{counted(len(self.simulations), 'fork')} of a game of {replies} replies: about {most:,} replies to ask "
            "for, as many as it had from there on"
        )


def ends_of(study: Study) -> Ends:
    """Return the recorded game of a study of its forks."""
    simulations = list(study.simulations())
    parent = simulations[0].parent
    assert parent is not None
    summary, entries = read_record(parent.record)
    return Ends(study, play_recorded(summary, rebuild_game(parent.record, summary), entries), simulations)


def play_forks(
    ends: Ends,
    endpoints: Sequence[Path],
    engine_timeout: float,
    on_phase: Callable[[Simulation, list[Exchange]], object],
) -> Iterator[tuple[Simulation, Play]]:
    """Yield each fork as it was played, with engines that are started once."""
    models = max((each.condition for each in ends.simulations), key=lambda condition: len(condition.models))
    with engines_for(ends.study, models, endpoints) as places:
        for simulation in ends.simulations:
            needed = {name: place for name, place in places.items() if name in simulation.condition.models}
            budget = budget_for(ends.study, simulation)

            def tell(exchanges: list[Exchange], simulation: Simulation = simulation) -> None:
                on_phase(simulation, exchanges)

            playing = play_simulation(simulation, needed, engine_timeout, None, tell, budget)
            yield simulation, asyncio.run(playing)[0]


def new_lines(simulation: Simulation, exchanges: list[Exchange], reasoning: bool) -> Iterator[str]:
    """Yield the replies of a phase that are not the recorded game's, as lines."""
    new = [x for x in exchanges if x.entry.given != GIVEN]
    yield from transcript_lines(new, reasoning, simulation.condition.game.read_texts)


def end_lines(ends: Ends, played: Sequence[tuple[Simulation, Play]]) -> Iterator[str]:
    """Yield how the recorded game ended, how each fork did, and what differs."""
    game = ends.study.game
    yield f"recorded: {outcome_line(game, ends.recorded.outcome)}"
    for number, (simulation, play) in enumerate(played, 1):
        label = f"fork {number}" + (
            f", {simulation.condition.axes['change']}" if len(ends.study.conditions) > 1 else ""
        )
        yield f"{label}: {outcome_line(game, play.outcome)}"
        if play.digest == ends.recorded.digest:
            yield "  the same, byte for byte"
            continue
        for line in _differences(ends.recorded, play, game.read_texts):
            yield f"  {line}"
    same = sum(_class(ends, play.outcome) == _class(ends, ends.recorded.outcome) for _, play in played)
    yield f"{same} of {len(played)} forks end as the recorded game did"


def _class(ends: Ends, outcome: Outcome) -> str:
    return ends.study.game.class_of(outcome.name, outcome.detail)


def ends_alike(ends: Ends, play: Play) -> bool:
    """Whether a fork has the outcome of the recorded game."""
    return _class(ends, play.outcome) == _class(ends, ends.recorded.outcome)


def _differences(recorded: Play, forked: Play, decisive: frozenset[str]) -> Iterator[str]:
    said, now = ({x.entry.key[:3]: x for x in play.exchanges} for play in (recorded, forked))

    def words(exchange: Exchange | None) -> str:
        if exchange is None:
            return "not asked"
        if exchange.reply.value is None:
            return "nothing"
        return one_line(", ".join(str(value) for value in decided(exchange, decisive)[0]), 60)

    keys = list(dict.fromkeys([*said, *now]))
    other = [key for key in keys if words(said.get(key)) != words(now.get(key))]
    if not other:
        yield "no decision differs" + (
            "; texts do" if any(now[k].entry.text != said[k].entry.text for k in keys) else ""
        )
        return
    number, phase, agent = other[0]
    first = f"{agent} in round {number}, {phase}: {words(said.get(other[0]))} -> {words(now.get(other[0]))}"
    yield f"{counted(len(other), 'decision')} differ, first {first}"
    metrics = recorded.outcome.metrics
    changed = [
        f"{name}: {metrics.get(name)} -> {value}"
        for name, value in forked.outcome.metrics.items()
        if not isinstance(value, list | dict) and metrics.get(name) != value
    ]
    if changed:
        yield one_line("; ".join(changed[:_METRICS_SHOWN]))
