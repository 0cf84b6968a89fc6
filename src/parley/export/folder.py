"""A study as one folder that stands by itself: a data hub takes it as it is, and Parley replays and reports in it.

It is laid out as the folder that a study is played in, with config/ and results/. Own code lies beside the study file,
wherever it was found, and models.yaml has the entries of the models that played, without places of this machine.
"""

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from modulefinder import ModuleFinder
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml

import parley
from parley import paths
from parley.analysis.tables import declared
from parley.columns import table_names
from parley.engine.models import UNKNOWN_PATH, UNKNOWN_URL, ModelEntry
from parley.engine.sources import FolderSource, GgufSource, PathPlace, ServiceSource
from parley.errors import UsageError
from parley.export.data_card import data_card
from parley.files import open_regular, read_regular
from parley.play.record_store import UsableRecords
from parley.policies.own_code import source_of
from parley.study import Study
from parley.text import one_line, with_progress, without_folders
from parley.trust import names_own_code

_log = logging.getLogger(__name__)
_MADE = ("tables", "figures", "report", "ledger", "view")  # of the records, in folders of these names
_TEXTS = {".py", ".txt", ".md", ".j2", ".jinja", ".jinja2", ".json", ".yaml", ".yml", ".toml", ".csv"}
_PUBLIC = ("dialect", "price", "license", "download_bytes", "note", "grammar")  # of an entry, besides its identity


def write_folder(records: UsableRecords, whole: Study, license_note: str, folder: Path) -> None:
    """Write the folder of a study (`whole`) whose tables are made of these records.

    Damaged records come along, as the report names them. Raises UsageError if the study does not load there.
    """
    _write_study(whole, folder)
    _write_models(whole, folder)
    played = [simulation.record(whole.name) for simulation in whole.simulations()]
    for record in with_progress([*played, *whole.parents], len(played) + len(whole.parents), "record"):
        _copy(record, folder / _place(record))
    results = paths.results(whole.name)
    made = [path for name in _MADE for path in sorted((results / name).rglob("*")) if not path.name.startswith(".")]
    for path in [paths.conditions(whole.name), *filter(Path.is_file, made)]:
        _copy(path, folder / _place(path))
    tables = {name: declared(name).row for name in table_names() if _has_rows(folder, whole.name, name)}
    (folder / "README.md").write_text(data_card(records, license_note, tables), encoding="utf-8")
    _check(whole, folder)


def _place(path: Path) -> Path:
    return path.relative_to(paths.root())


def _copy(source: Path, target: Path) -> None:
    """Copy a file, unless it is there; pages and marks may name the folder that the study was played in."""
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    root = paths.root()
    if source.suffix in (".html", ".json") and root != Path():
        target.write_bytes(read_regular(source).replace(f"{root}/".encode(), b""))
    else:
        with open_regular(source) as file, target.open("xb") as copy:
            shutil.copyfileobj(file, copy)


# What was played: config/


def _write_study(study: Study, folder: Path) -> None:
    """Write a study file and its preregistration, without folders of this machine; its prompts, code and problems."""
    config = folder / paths.CONFIG
    for file in filter(Path.exists, (study.file, paths.frozen(study.file))):
        text = file.read_text(encoding="utf-8")
        cut = "".join(map(without_folders, text.splitlines(keepends=True)))
        if cut != text:
            _log.warning("%s: paths of this machine stand in it; the copy has their last parts", file)
        config.mkdir(exist_ok=True)
        (config / file.name).write_text(cut, encoding="utf-8")
    for prompts in study.content.prompts.values():
        for path in sorted((study.file.parent / prompts).glob("*.txt")) if isinstance(prompts, str) else ():
            _copy(path, config / path.relative_to(study.file.parent))
    for base, path in _own_code(study):
        _copy(path, config / path.relative_to(base))
    for path in _problems(study):
        for file in filter(Path.is_file, sorted(path.rglob("*")) if path.is_dir() else [path]):
            _copy(file, folder / _place(file))


def _own_code(study: Study) -> Iterator[tuple[Path, Path]]:
    """Yield the files of the user's own code, each after the folder in which it lies.

    They are those that the study names, what these import from that folder, and the templates of its game.
    """
    players = {group.player.policy.kind for condition in study.conditions for group in condition.groups}
    names = {kind.name for kind in players if kind.is_plugin}
    own_game = names_own_code(study.game.name)
    for name in sorted(names | ({study.game.name} if own_game else set())):
        base = source_of(name, study.file.parent).folder
        if base is None:
            _log.warning("%s: is installed, and not in the folder; say in its README.md what to install", name)
            continue
        yield from ((base, path) for path in _imported(base, name.partition(":")[0]))
        variants = study.game.prompts.variants.values() if name == study.game.name else ()
        for template in {each for templates in variants for each in templates.values() if isinstance(each, Path)}:
            if template.is_relative_to(base):
                yield base, template
            else:
                _log.warning("%s: lies elsewhere than the code of its game, and is not in the folder", template)


def _imported(base: Path, module: str) -> list[Path]:
    """Return the files of a module or package in a folder, and of all that they import which lies there."""
    finder = ModuleFinder([])  # what is named without a dot is installed
    vars(finder.add_module("own"))["__path__"] = [str(base)]
    with suppress(SyntaxError, AttributeError):  # whoever imports it is told; folders without `__init__.py` break it
        finder.import_hook(f"own.{module}")
    files = {Path(file) for each in finder.modules.values() if (file := getattr(each, "__file__", None))}
    packages = {base / path.relative_to(base).parts[0] for path in files if path.parent != base}
    return sorted(files.union(path for package in packages for path in package.rglob("*") if _is_text(path, base)))


def _is_text(path: Path, base: Path) -> bool:
    hidden = any(part.startswith(".") for part in path.relative_to(base).parts)
    return path.suffix in _TEXTS and not hidden and path.is_file()


def _problems(study: Study) -> Iterator[Path]:
    """Yield the files of problems without which the study cannot be loaded: those that it does not name by a hash."""
    sources = {id(value): value for condition in study.conditions for _, value in condition.parameters}
    for source in sources.values():
        if (written := getattr(source, "path", None)) and not getattr(source, "sha256", None):
            path = paths.root() / os.path.expanduser(written)
            if path.resolve().is_relative_to(paths.root().resolve()):
                yield path


def _write_models(study: Study, folder: Path) -> None:
    entries = {name: entry for condition in study.conditions for name, entry in condition.entries.items()}
    if entries:
        content = {"models": {name: public_entry(entry) for name, entry in sorted(entries.items())}}
        text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120)
        (folder / paths.CONFIG / "models.yaml").write_text(text, encoding="utf-8")


def public_entry(entry: ModelEntry) -> dict[str, Any]:
    """Return an entry of the same identity that names no place of this machine, and no host of a service."""
    content = entry.model_dump(mode="json", by_alias=True, exclude_unset=True)
    source = content["source"]
    if isinstance(entry.source, ServiceSource):
        source = {"url": UNKNOWN_URL, **entry.source.identity()}
    elif isinstance(entry.source, FolderSource):
        source = entry.source.identity()
    elif isinstance(entry.source, GgufSource):
        places = zip(source["from"], entry.source.places, strict=True)
        public = [written for written, place in places if not isinstance(place, PathPlace)]
        source["from"] = public or [{"path": UNKNOWN_PATH}]
    content["source"] = source
    if arguments := entry.identity()["engine_args"]:
        content["engine_args"] = arguments
    for key in entry.model_fields_set.intersection(_PUBLIC):
        value = getattr(entry, key)
        is_model = hasattr(value, "model_dump")
        content[key] = value.model_dump(mode="json", exclude_unset=True) if is_model else value
    return content


# What it says of itself


def _has_rows(folder: Path, study: str, name: str) -> bool:
    path = folder / _place(paths.table(study, name, ".parquet"))
    return path.is_file() and bool(pq.read_metadata(path).num_rows)


_LOAD = (
    "import sys; from pathlib import Path; from parley.study import load_study; "
    "print(load_study(Path(sys.argv[1]), needs_weights=False).plan)"
)


def _check(study: Study, folder: Path) -> None:
    """Raise UsageError unless a process that knows this folder alone finds the same study in it."""
    file = paths.CONFIG / study.file.name
    source = Path(parley.__file__).parent.parent
    env = {**os.environ, "PYTHONPATH": str(source)}
    command = [sys.executable, "-P", "-B", "-c", _LOAD, str(file)]
    ran = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    if ran.returncode:
        why = one_line(ran.stderr.strip().rpartition("\n")[2].partition("Error: ")[2], 300)
        raise UsageError(f"{study.file}: cannot be loaded from the folder alone: {why}")
    if ran.stdout.strip() != study.whole.plan:
        raise UsageError(
            f"{study.file}: is another study without the folders of this machine that it names; name them relative to "
            "the study file"
        )
