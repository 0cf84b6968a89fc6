"""The records of the findings in git: copied to and from results/, and games to be read."""

import io
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from parley.play.live import show_replies
from parley.study import Study, load_study
from parley.study.condition import Simulation

FINDINGS = Path("findings")
GAMES = FINDINGS / "games"
_GAME = re.compile(r"\(\.\./findings/games/([\w-]+-[0-9a-f]{8})\.txt\)")


def file_of(name: str) -> Path:
    """Return the file of a study of the findings: under config/findings, or a study that users find under config/."""
    own = Path(f"config/findings/findings-{name}.yaml")
    return own if own.exists() else Path(f"config/{name}.yaml")


def study_of(name: str) -> Study:
    """Return a study of the findings by its name, without `findings-` where it begins so."""
    return load_study(file_of(name).absolute(), needs_weights=False)


def kinds_of(name: str) -> list[str]:
    """Return the names of a study and, where it has one, of the study that measures its noise."""
    return [name, *(noise for noise in [f"{name}-noise"] if file_of(noise).exists())]


def sync(study: Study) -> None:
    """Copy records that one of findings/ and results/ has to the other.

    The first repeat of a seed is the simulation of the study without repeats, so it is copied from there.
    """
    for simulation in study.simulations():
        here = simulation.record(study.name)
        places = [here, FINDINGS / here]
        if simulation.condition.repeat == 0:
            once = replace(simulation, condition=replace(simulation.condition, repeat=None))
            unrepeated = once.record(study.name.removesuffix("-noise"))
            places += [unrepeated, FINDINGS / unrepeated]
        source = next((place for place in places if place.exists()), None)
        for place in places[:2]:
            if source is not None and not place.exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, place)


def played_of(study: Study) -> tuple[int, int]:
    """Return how many simulations of a study have a record, and how many it has; no first ones of a noise study."""
    twice = study.name.endswith("-noise")
    records = [s.record(study.name) for s in study.simulations() if not (twice and s.condition.repeat == 0)]
    return sum((FINDINGS / record).exists() for record in records), len(records)


def write_games(text: str, names: Iterable[str]) -> None:
    """Write the games that a text links to, by study and the beginning of the id, to be read from start to end.

    Raises ValueError if a link names no game.
    """
    found = {
        f"{name}-{simulation.id[:8]}": (study, simulation)
        for name in names
        for study in [study_of(name)]
        for simulation in study.simulations()
    }
    shutil.rmtree(GAMES, ignore_errors=True)
    GAMES.mkdir(parents=True)
    for game in sorted(set(_GAME.findall(text))):
        if game not in found:
            raise ValueError(f"the studies of the findings have no game {game}")
        study, simulation = found[game]
        lines = list(_head(study, simulation))
        show_replies(FINDINGS / simulation.record(study.name), lines.append, io.StringIO())
        (GAMES / f"{game}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _head(study: Study, simulation: Simulation) -> Iterator[str]:
    yield f"# {study.title}: {simulation.condition.name}, seed {simulation.seed}"
    yield f"# In the explorer: parley view {study.file.relative_to(Path.cwd())}, then #/game/{simulation.id}"
