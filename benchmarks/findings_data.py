"""The records of the findings in git: copied to and from results/, described for machines, and games to be read."""

import io
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from parley import paths
from parley.analysis.summarize import summarize
from parley.export.write import Terms, export
from parley.play.show import read_lines
from parley.study import Study, load_study
from parley.study.condition import Simulation

FINDINGS = Path("findings")
GAMES = FINDINGS / "games"
TERMS = Terms(license="CC-BY-4.0", author="The Parley authors")
_GAME = re.compile(r"\(\.\./findings/games/(\w+-[0-9a-f]{8})\.txt\)")


def study_of(name: str) -> Study:
    """Return a study of the findings by its name without `findings-`."""
    return load_study(Path(f"config/findings/findings-{name}.yaml").absolute(), needs_weights=False)


def home(study: Study) -> Path:
    """Return the folder in git that holds config/ and results/ of a study, as a working directory does.

    It is a Workflow Run RO-Crate once the study is finished. The study that measures its noise lies in it, too.
    """
    return FINDINGS / study.name.removeprefix("findings-").removesuffix("-noise")


def sync(study: Study) -> None:
    """Copy records that one of findings/ and results/ has to the other.

    The first repeat of a seed is the simulation of the study without repeats, so it is copied from there.
    """
    for simulation in study.simulations():
        here = simulation.record(study.name)
        places = [here, home(study) / here]
        if simulation.condition.repeat == 0:
            once = replace(simulation, condition=replace(simulation.condition, repeat=None))
            unrepeated = once.record(study.name.removesuffix("-noise"))
            places += [unrepeated, home(study) / unrepeated]
        source = next((place for place in places if place.exists()), None)
        for place in places[:2]:
            if source is not None and not place.exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, place)


def played_of(study: Study) -> tuple[int, int]:
    """Return how many simulations of a study have a record, and how many it has; no first ones of a noise study."""
    records = [s.record(study.name) for s in study.simulations() if s.condition.repeat != 0]
    return sum((home(study) / record).exists() for record in records), len(records)


def describe(study: Study) -> None:
    """Write what lies beside the records of a finished study: its tables, and the metadata of RO-Crate and Croissant.

    All follows from the records, the study file and the workflow.
    """
    folder = home(study)
    with tempfile.TemporaryDirectory() as scratch, paths.rooted(Path(scratch)):
        shutil.copytree(folder / paths.RESULTS / study.name / "simulations", paths.simulations(study.name))
        shutil.copy(paths.SNAKEFILE, paths.root())
        shutil.copytree(paths.WORKFLOW, paths.root() / paths.WORKFLOW, ignore=shutil.ignore_patterns("__pycache__"))
        summarize(study)
        for made in ("config", "workflow", "croissant", f"results/{study.name}/tables"):
            shutil.rmtree(folder / made, ignore_errors=True)
        crate, croissant = (export(study, form, paths.root() / form, TERMS) for form in ("ro-crate", "croissant"))
        shutil.copytree(crate, folder, dirs_exist_ok=True)
        shutil.copytree(croissant, folder / "croissant", dirs_exist_ok=True)


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
        lines = [*_head(study, simulation), *read_lines(home(study) / simulation.record(study.name), io.StringIO())]
        (GAMES / f"{game}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _head(study: Study, simulation: Simulation) -> Iterator[str]:
    yield f"# {study.title}: {simulation.condition.name}, seed {simulation.seed}"
    yield f"# In the explorer: parley view {study.file.relative_to(Path.cwd())}, then #/game/{simulation.id}"
