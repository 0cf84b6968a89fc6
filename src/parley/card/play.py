"""Playing a card: the studies of one model, written into a folder that stands by itself, run one after the other."""

from collections.abc import Iterator, Sequence
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
from parley.text import choose, duration
from parley.text.yamlfile import load_yaml, yaml_text

_ONLY_RECORDS = ("--until", "simulate", "simulate_shard")


def write_studies(folder: Path, name: str, entry: ModelEntry | None, models_file: Path, quick: bool) -> list[Path]:
    """Write what is played of a model, or without an entry of a scripted reference; return the study files.

    Raises UsageError for a name that is neither.
    """
    references = definition().references
    if entry is None and name not in references:
        raise UsageError(f"card: {name}: no entry of the models file, and no reference; {choose(name, references)}")
    if entry is not None and name in references:
        raise UsageError(
            f"{models_file}: models.{name}: a scripted reference of cards has this name; rename the entry"
        )
    config = folder / paths.CONFIG
    config.mkdir(parents=True, exist_ok=True)
    if entry is not None:
        # Not model_dump(), which leaves out what does not belong to a model's identity: prices, GPUs, a dialect, ...
        given = to_jsonable_python({field: getattr(entry, field) for field in sorted(entry.model_fields_set)})
        written_entry = _absolute(given, models_file.parent)
        _write(config / "models.yaml", yaml_text({"models": {name: written_entry}}))
    written = []
    for file in sorted((FOLDER / "studies").glob("*.yaml")):
        if entry is None and file.stem not in references[name]:
            continue
        content = load_yaml(file)
        content["grids"] = list(_grids(content, file.stem, name, entry is not None, quick))
        written.append(config / f"card-{file.stem}.yaml")
        _write(written[-1], f"# Card {definition().card}, written anew by: parley card {name}\n{yaml_text(content)}")
    return written


def _absolute(content: Any, folder: Path) -> Any:
    """Return an entry whose paths, which are as seen from its models file, hold in another folder, too."""
    if isinstance(content, list):
        return [_absolute(each, folder) for each in content]
    if not isinstance(content, dict):
        return content
    made = {key: _absolute(value, folder) for key, value in content.items()}
    return made | ({"path": str(folder.absolute() / Path(made["path"]).expanduser())} if "path" in made else {})


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
    """Return how many games a card takes, and how long."""
    cost, games = Cost(), 0
    for study in studies:
        conditions = [each for each in study.conditions if name in each.models]
        games += sum(len(each.seeds) for each in conditions)
        cost += total_cost(conditions, Costs(played(study)))[0]
    if not games:
        return f"{name}: scripted players, a minute or two"
    known = cost.hours == cost.hours and cost.hours > 0
    hours = cost.hours if known else cost.tokens / 3.6e6
    pace = "at the pace of its records" if known else "if it reads and writes 1,000 tokens a second, as on two cores"
    money = f", {cost.money:.2f} by its price" if cost.money > 0 else ""
    return (
        f"{name}: {games:,} games, some {cost.tokens / 1e6:.1f} million tokens{money}; {duration(3600 * hours)} {pace}"
    )


def play(files: Sequence[Path], options: Sequence[str]) -> None:
    """Play what is missing of the studies, as `parley run` does; raises ParleyError if one fails."""
    for file in files:
        parley.load(file).run(*options, *_ONLY_RECORDS)
