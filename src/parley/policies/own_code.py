"""Code of the user's own, `module:attribute`: where its source is, and its SHA-256. Nothing of it is run."""

import hashlib
import importlib.machinery
import importlib.metadata
import importlib.util
import re
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

from parley.errors import UsageError
from parley.files import read_regular
from parley.text import one_line

_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
_MAX_BYTES = 10_000_000  # of a source file
_MAX_FILES = 1_000  # of a package
# What a package's code is made of: Python, and the texts and data beside it.
_PARLEY = Path(__file__).parent.parent
_PYTHON = Path(traceback.__file__).parent
_SUFFIXES = frozenset({".py", ".txt", ".md", ".j2", ".jinja", ".jinja2", ".json", ".yaml", ".yml", ".toml", ".csv"})


def names_own_code(name: str) -> bool:
    """Whether a name is a module:attribute, of at most 200 characters."""
    return len(name) <= 200 and _NAME.fullmatch(name) is not None


def entry_points(group: str) -> dict[str, tuple[str, ...]]:
    """Return what is installed by name: what installed distributions mean by it, normally one module:attribute.

    Nothing of theirs is run. It reads the metadata of all that is installed: call it only where it is needed.
    """
    found: dict[str, set[str]] = {}
    for point in importlib.metadata.entry_points(group=group):
        value = point.value.partition("[")[0]  # extras, which nobody needs to import it
        found.setdefault(point.name, set()).add("".join(value.split()))
    return {name: tuple(sorted(values)) for name, values in sorted(found.items())}


def of_entry_point(name: str, values: tuple[str, ...], group: str) -> str:
    """Return what an installed name stands for, as module:attribute; raises UsageError if that is not one."""
    if len(values) > 1:
        told = one_line(" and ".join(values), 300)
        raise UsageError(f"{name!r}: installed more than once; name the one that you mean: {told}")
    if not names_own_code(values[0]):
        raise UsageError(
            f"{name!r}: installed as {one_line(values[0], 200)!r}; an entry point of {group} is a module:attribute, "
            "so mend the package that has it"
        )
    return values[0]


@dataclass(frozen=True)
class Source:
    """The source of a module: its files, and the SHA-256 over them."""

    files: tuple[Path, ...]
    sha256: str


def source_of(name: str, whole_package: bool = False) -> Source:
    """Return the source of what `module:attribute` names.

    That is the module's file, of a package its `__init__.py`; what a module imports is not followed. With
    `whole_package`, a module that lies in a package has all of the package's files: its folder and those below it.

    Raises UsageError, which begins with the name, if there is no such module on Python's path or it cannot be read.
    """
    module, _, _ = name.partition(":")
    file = _file_of(module)
    if file is None:
        raise UsageError(f"{name}: no module {module} on Python's path; install it or set PYTHONPATH")
    try:
        if not whole_package or not (file.parent / "__init__.py").is_file():
            return Source((file,), hashlib.sha256(read_regular(file, _MAX_BYTES)).hexdigest())
        return _package(name, file.parent)
    except OSError as error:
        told = error.filename or file
        raise UsageError(f"{name}: {told}: cannot be read: {error.strerror or error}") from None


def _package(name: str, folder: Path) -> Source:
    """Return all of a package's code and texts; hidden files and what Python makes of the sources are left out."""
    relative = {path.relative_to(folder): path for path in folder.rglob("*") if path.suffix in _SUFFIXES}
    files = {
        place.as_posix(): path
        for place, path in relative.items()
        if path.is_file() and not any(part.startswith(".") for part in place.parts)
    }
    if len(files) > _MAX_FILES:
        raise UsageError(f"{name}: {folder}: {len(files):,} files; a package may have {_MAX_FILES:,}, so move it out")
    sha256 = hashlib.sha256()
    for place in sorted(files):
        content = hashlib.sha256(read_regular(files[place], _MAX_BYTES)).hexdigest()
        sha256.update(f"{content}  {place}\n".encode())  # as sha256sum writes it
    return Source(tuple(files[place] for place in sorted(files)), sha256.hexdigest())


def _file_of(module: str) -> Path | None:
    """Return the source of a module; its packages are not imported to find it, as importlib would."""
    first, *others = module.split(".")
    try:
        spec = importlib.util.find_spec(first)
        for index in range(len(others)):
            if spec is None or spec.submodule_search_locations is None:
                return None
            full = ".".join([first, *others[: index + 1]])
            spec = importlib.machinery.PathFinder.find_spec(full, spec.submodule_search_locations)
    except (ImportError, ValueError):
        return None
    origin = Path(spec.origin) if spec is not None and spec.origin else None
    return origin if origin is not None and origin.suffix == ".py" and origin.is_file() else None


def raised_at(error: BaseException, name: str) -> str:
    """Return the user's file and line that raised an error, or called what did, as " (own.py, line 3)"; "" for none.

    That is the last one in the source of `name`, or in another file of theirs: not in Python or an installed package.
    """
    try:
        own = {str(file) for file in source_of(name, whole_package=True).files}
    except UsageError:  # gone since it was imported
        own = set()
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename in own or not _is_foreign(f.filename)]
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""


def _is_foreign(file: str) -> bool:
    """Whether a file is Parley's, Python's or an installed package's, or none at all, such as <frozen importlib>."""
    path = Path(file)
    installed = not {"site-packages", "dist-packages"}.isdisjoint(path.parts)
    return file.startswith("<") or installed or any(place in path.parents for place in (_PARLEY, _PYTHON))


def forget(name: str, source: Source) -> None:
    """Make Python import a module anew: it is another one than when it was imported before.

    What Python compiled goes too: it tells sources apart by their second and size alone.
    """
    module, _, _ = name.partition(":")
    package = module if len(source.files) == 1 else _package_of(module)
    for loaded in [each for each in sys.modules if each == package or each.startswith(f"{package}.")]:
        del sys.modules[loaded]
    for file in source.files:
        if file.suffix == ".py":
            Path(importlib.util.cache_from_source(str(file))).unlink(missing_ok=True)
    importlib.invalidate_caches()


def _package_of(module: str) -> str:
    file = _file_of(module)
    return module if file is not None and file.name == "__init__.py" else module.rpartition(".")[0]
