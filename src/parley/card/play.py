"""Playing a card: the studies of one model, written into a folder that stands by itself, run one after the other."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

import parley
from parley import paths
from parley.analysis.made_by import Cost, Costs, played
from parley.analysis.planning import total_cost
from parley.card.content import FOLDER, definition
from parley.engine.models import ModelEntry
from parley.errors import UsageError
from parley.files import write_atomically
from parley.study import Study
from parley.study.study_file import SAME
from parley.text import choose, duration, without_folders
from parley.text.yamlfile import load_yaml, yaml_text

_PLACES = ("path", "folder")  # keys of an entry
_ONLY_RECORDS = ("--until", "simulate", "simulate_shard")


def write_studies(folder: Path, name: str, entry: ModelEntry | None, models_file: Path, quick: bool) -> list[Path]:
    """Write what is played of a model, or without an entry of a scripted reference; return the study files.

    Raises UsageError for a name that is neither.
    """
    references = definition().references
    if entry is None and name not in references:
        raise UsageError(f"card: {name}: no entry of the models file, and no reference; {choose(name, references)}")
    if entry is not None and name in references:
        raise UsageError(f"{models_file}: models.{name}: a reference of cards has this name; rename the entry")
    config = folder / paths.CONFIG
    config.mkdir(parents=True, exist_ok=True)
    if entry is not None:
        # Not model_dump(), which leaves out what does not belong to a model's identity: prices, GPUs, a dialect, ...
        given = to_jsonable_python({field: getattr(entry, field) for field in sorted(entry.model_fields_set)})
        # Paths have to hold in another folder, too.
        at = models_file.parent.absolute()
        held = _texts(given, lambda key, text: str(at / Path(text).expanduser()) if key in _PLACES else text)
        _write(config / "models.yaml", yaml_text({"models": {name: held}}))
    written = []
    for file in sorted((FOLDER / "studies").glob("*.yaml")):
        if entry is None and file.stem not in references[name]:
            continue
        content = load_yaml(file)
        content["grids"] = list(_grids(content, file.stem, name, entry is not None, quick))
        written.append(config / f"card-{file.stem}.yaml")
        _write(written[-1], f"# Card {definition().card}, written anew by: parley card {name}\n{yaml_text(content)}")
    return written


def hide_places(folder: Path) -> None:
    """Leave of all paths in the models file of a card only the last part: the folder may be published."""
    file = folder / paths.CONFIG / "models.yaml"
    if file.is_file():
        _write(file, yaml_text(_texts(load_yaml(file), lambda _, text: without_folders(text))))


def _texts(content: Any, change: Callable[[str, str], str]) -> Any:
    """Return content with each text of a mapping changed, by the key that it stands under."""
    if isinstance(content, dict):
        return {
            key: change(key, each) if isinstance(each, str) else _texts(each, change) for key, each in content.items()
        }
    return [_texts(each, change) for each in content] if isinstance(content, list) else content


def _write(path: Path, text: str) -> None:
    write_atomically(path, lambda file: file.write(text.encode()))


def _grids(content: dict[str, Any], study: str, name: str, is_model: bool, quick: bool) -> Iterator[dict[str, Any]]:
    """Yield each grid for the model, with few seeds if it is to be quick, and for all references of the study."""
    asked = definition()
    policies = {each: by_study[study] for each, by_study in asked.references.items() if study in by_study}
    played = name if is_model else policies[name]
    others = [policy for policy in policies.values() if is_model or policy != played]
    sides = [(played, quick, SAME if is_model else asked.adversary), (others, False, asked.adversary)]
    for grid in content["grids"]:
        seeds = grid.get("seeds", content["seeds"])
        for model, few, adversary in sides if others else sides[:1]:
            by = {"byzantine": adversary} if grid.get("byzantine") == "ADVERSARY" else {}
            yield {**grid, "model": model, **by, "seeds": min(seeds, asked.quick) if few else seeds}


def estimate_line(studies: Sequence[Study], name: str) -> str:
    """Return how many games a card takes, and how many tokens; what that costs and how long, where it is known."""
    cost, games = Cost(), 0
    for study in studies:
        conditions = [each for each in study.conditions if name in each.models]
        games += sum(len(each.seeds) for each in conditions)
        cost += total_cost(conditions, Costs(played(study)))[0]
    if not games:
        return f"{name}: scripted players, a minute or two"
    money = f", {cost.money:.2f} by its price" if cost.money > 0 else ""
    time = f"; {duration(3600 * cost.hours)} or more at the pace of its records" if cost.hours > 0 else ""
    return f"{name}: {games:,} games, some {cost.tokens / 1e6:.1f} million tokens{money}{time}"


def play(files: Sequence[Path], options: Sequence[str]) -> None:
    """Play what is missing of the studies, as `parley run` does; raises ParleyError if one fails."""
    for file in files:
        parley.load(file).run(*options, *_ONLY_RECORDS)
