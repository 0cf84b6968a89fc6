"""How the weights of a model get onto this machine, once.

A repository is downloaded at its revision; a GGUF file (from installed Python packages, a repository or a path) is
dequantized into safetensors; a user's own folder is left where it is. No remote code, no pickled weights.
"""

import errno
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from parley import paths
from parley.engine import sources
from parley.engine.gguf_files import CONVERSION, convert, say_step, sha256_of, whole_file
from parley.engine.models import ModelEntry
from parley.errors import EngineError, UsageError
from parley.files import try_lock, write_atomically
from parley.identity import digest
from parley.text import one_line
from parley.text.yamlfile import shown

# How much larger than their GGUF file prepared weights are at most, if it has 4 bits or more per weight.
_GROWTH = {None: 4.0, "int8": 3.0}
# Measured: 3.1 GB for a file of 0.5 GB, 5.7 GB for one of 1.1 GB.
_MEMORY_BYTES, _MEMORY_GROWTH = 1e9, 4.3
_MAKE_ROOM = f"free some, or set {paths.MODELS} to a folder on another disk, and the same command goes on"


def check_source(name: str, entry: ModelEntry, models_file: Path) -> None:
    """Raise UsageError if the source cannot be had on this machine; Hub and services are not looked up."""
    where, source = f"{models_file}: models.{name}.source", entry.source
    if isinstance(source, sources.FolderSource):
        with suppress(OSError, ValueError):  # no path at all: NUL, too long
            if (_folder(source, models_file) / "config.json").is_file():
                return
        raise UsageError(f"{where}.folder: {shown(source.folder)}: no model is there (no config.json)")
    if any(not isinstance(place, sources.HubPlace) for place in sources.file_places(source)):
        try:
            if not model_marker(name, entry).is_file():
                sources.local_parts(source, models_file)
        except EngineError as error:
            raise UsageError(f"{where}: {one_line(str(error), 300)}{_remedy(name, source)}") from None


def _remedy(name: str, source: sources.Source) -> str:
    """Say which command gets a GGUF file that is not on this machine; "" if none does."""
    commands = []
    if paths.model_packages(name).is_file():
        commands.append(f"make model NAME={name}" if paths.IN_CLONE else f"parley fetch-model {name} --install uv")
    if hub := sources.hub_place(source):
        commands.append(f"parley fetch-model {name} (from {hub.repo})")
    return f"; run: {', or '.join(commands)}" if commands else ""


def plan(name: str, entry: ModelEntry, models_file: Path) -> list[str]:
    """Return what preparing a model means, in lines for a person; none if it is prepared.

    Raises UsageError for a service, and EngineError if the disk has no room.
    """
    refuse_service(name, entry)
    if is_ready(name, entry, models_file):
        return []
    source, size = entry.source, entry.download_bytes or 0
    lines = [f"{name}: {one_line(entry.note, 300)}"] if entry.note else []
    lines.append(f"  license: {one_line(entry.license) or 'models.yaml does not say; look where it comes from'}")
    is_hub = isinstance(source, sources.HubSource)
    places = (source,) if isinstance(source, sources.HubSource) else sources.file_places(source)
    lines.append(f"  from: {', or '.join(place.label for place in places) or 'a folder on this machine'}")
    if size and places:
        disk = f"{_preparing_bytes(entry, size) / 1e9:.1f} GB of disk"
        memory = "" if is_hub else f" and {(_MEMORY_BYTES + _MEMORY_GROWTH * size) / 1e9:.0f} GB of memory"
        lines.append(f"  size: {size / 1e9:.2f} GB; up to {disk}{memory}")
        _check_room(name, entry, size)
    return lines


def install_packages(name: str, entry: ModelEntry, models_file: Path, installer: str) -> None:
    """Install the packages that hold the weights, where they are missing; raises EngineError if that fails."""
    listed = paths.model_packages(name)
    if not (sources.file_places(entry.source) and listed.is_file()) or is_ready(name, entry, models_file):
        return
    with suppress(EngineError):
        sources.local_parts(entry.source, models_file)
        return
    command = [sys.executable, str(paths.installer()), str(listed), "--installer", installer]
    if subprocess.run(command).returncode != 0:
        raise EngineError(
            f"{name}: not all of its packages could be installed (the reason is above); run the same command again"
        )


def model_folder(name: str, entry: ModelEntry, models_file: Path) -> Path:
    """Return the folder that holds the prepared model: the user's own for a local one."""
    if isinstance(entry.source, sources.FolderSource):
        return _folder(entry.source, models_file)
    return paths.prepared_model(name, _source_hash(entry))


def model_marker(name: str, entry: ModelEntry) -> Path:
    """Return the file that says that a model is prepared, with the SHA-256 of its weights."""
    return paths.model_marker(name, _source_hash(entry))


def _source_hash(entry: ModelEntry) -> str:
    """Return what names all that prepared weights are made of: no other key, such as the dtype, makes them anew."""
    if isinstance(entry.source, sources.GgufSource) or entry.quantization is not None:
        return digest({"source": entry.identity()["source"], "quantization": entry.quantization})[:8]
    if isinstance(entry.source, sources.FolderSource):  # a relative one is another folder for another study's models
        return digest({"folder": entry.source.folder, "of": str(paths.root().resolve())})[:8]
    return digest(entry.source.model_dump(mode="json"))[:8]


def fetch(name: str, entry: ModelEntry, models_file: Path) -> Path:
    """Prepare a model once, and return the marker file (`parley-model.json`) that names its weights' SHA-256.

    A prepared model is left alone; weights in a user's own folder are hashed again if they changed. The folder
    appears by a rename, so that a killed fetch leaves nothing half done. Raises UsageError for a service, which has
    nothing to prepare, and EngineError if the weights cannot be had, converted or written.
    """
    refuse_service(name, entry)
    folder, marker = model_folder(name, entry, models_file), model_marker(name, entry)
    if is_ready(name, entry, models_file):
        return marker
    if isinstance(entry.source, sources.FolderSource):
        check_source(name, entry, models_file)
        _refuse_pickles(folder)
        _write_marker(marker, entry, folder)
        return marker
    try:
        with _alone(folder.parent):
            if not is_ready(name, entry, models_file):
                # Of a folder that was copied only the times are others.
                if _made(marker).get("weights_sha256") != _hashes(folder):
                    _prepare(name, entry, models_file, folder)
                _write_marker(marker, entry, folder)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise EngineError(f"{name}: no room on the disk of {paths.prepared_models()}; {_MAKE_ROOM}") from error
    return marker


def refuse_service(name: str, entry: ModelEntry) -> None:
    """Raise UsageError for a service."""
    if isinstance(entry.source, sources.ServiceSource):
        raise UsageError(f"{name}: a service that somebody else runs; there is nothing to fetch or to serve")


def is_ready(name: str, entry: ModelEntry, models_file: Path) -> bool:
    """Whether a model is prepared and its weights did not change since."""
    made = _made(model_marker(name, entry))
    return bool(made.get("files") == _file_states(model_folder(name, entry, models_file)))


def _made(marker: Path) -> Mapping[str, Any]:
    """Return what a marker says of weights that were made as they are made today."""
    made = json.loads(marker.read_bytes()) if marker.is_file() else {}
    return made if made.get("conversion") == CONVERSION else {}


def _prepare(name: str, entry: ModelEntry, models_file: Path, folder: Path) -> None:
    for leftover in folder.parent.glob(f".{folder.name}.*"):  # of a fetch that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as temporary:
        new = Path(temporary) / "model"
        if isinstance(entry.source, sources.HubSource):
            _download(entry.source, new)
        else:
            file = Path(temporary) / "whole.gguf"
            _gguf(name, entry, models_file, folder.parent / "download", file)
            try:
                convert(file, new, entry.quantization)
            except EngineError as error:
                raise EngineError(f"{name}: {error}") from error
        _refuse_pickles(new)
        if folder.exists():  # left by a fetch that died before its marker
            shutil.rmtree(folder)
        os.replace(new, folder)
    shutil.rmtree(folder.parent / "download", ignore_errors=True)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other process prepares this model."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = folder / ".lock"
    with lock.open("wb") as file:
        if not try_lock(file.fileno(), lock):
            say_step("waiting for another process that prepares this model")
            try_lock(file.fileno(), lock, math.inf)
        yield


def _gguf(name: str, entry: ModelEntry, models_file: Path, download: Path, target: Path) -> None:
    """Make `target` the whole and checked GGUF file of an entry; what a repository sends is kept in `download`."""
    hub = sources.hub_place(entry.source)
    try:
        parts = sources.local_parts(entry.source, models_file)
        size = sum(part.stat().st_size for part in parts)
    except EngineError as error:
        if hub is None:
            raise EngineError(f"{name}: {error}{_remedy(name, entry.source)}") from None
        parts, size = [], entry.download_bytes or 0
    _check_room(name, entry, size)
    if hub is not None and not parts:
        parts = [_download_file(hub, download)]
    try:
        whole_file(parts, getattr(entry.source, "sha256", None), target)
    except EngineError as error:
        shutil.rmtree(download, ignore_errors=True)  # it would be wrong the next time, too
        place = f"{parts[0].name} to {parts[-1].name} in installed packages" if len(parts) > 1 else str(parts[0])
        raise EngineError(
            f"{name}: {one_line(place, 200)}: {error}; remove it, and get it again or from another place"
        ) from None


def _check_room(name: str, entry: ModelEntry, size: int) -> None:
    """Raise EngineError unless the disk of prepared models has room for preparing weights of `size` bytes."""
    folder, needed = paths.prepared_models(), _preparing_bytes(entry, size)
    free = shutil.disk_usage(next(path for path in (folder, *folder.parents) if path.exists())).free
    if free < needed:
        raise EngineError(
            f"{name}: no room on the disk of {folder}: {needed / 1e9:.1f} GB are needed, {free / 1e9:.1f} GB are "
            f"free; {_MAKE_ROOM}"
        )


def _preparing_bytes(entry: ModelEntry, size: int) -> int:
    """Return what preparing weights of `size` bytes needs on the disk at most, in bytes."""
    return size if isinstance(entry.source, sources.HubSource) else int(size * (1 + _GROWTH[entry.quantization]))


def _folder(source: sources.FolderSource, models_file: Path) -> Path:
    try:
        return (models_file.parent / Path(source.folder).expanduser()).resolve()
    except RuntimeError:  # ~nobody
        raise UsageError(f"{models_file}: {shown(source.folder)}: there is no such user; correct the folder") from None


def _download(source: sources.HubSource, target: Path) -> None:
    from huggingface_hub import snapshot_download

    patterns = ["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja"]
    with _network_errors(source):
        snapshot_download(source.repo, revision=source.revision, local_dir=target, allow_patterns=patterns)
    shutil.rmtree(target / ".cache", ignore_errors=True)


def _download_file(place: sources.HubPlace, folder: Path) -> Path:
    """Download one file into `folder`, where an interrupted download goes on."""
    from huggingface_hub import hf_hub_download

    with _network_errors(place):
        return Path(hf_hub_download(place.repo, place.file, revision=place.revision, local_dir=folder))


@contextmanager
def _network_errors(source: sources.HubSource) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise EngineError(
            f"cannot fetch {source.repo} at {source.revision[:8]}: {reason}; check the network, or fetch it on a "
            f"machine that has one and name the folder as source"
        ) from error


def _refuse_pickles(folder: Path) -> None:
    if not _file_states(folder):
        raise EngineError(f"{folder}: no safetensors weights; convert the model to them: pickled ones can run code")


def _file_states(folder: Path) -> dict[str, list[int]]:
    """Return size and time of each weights file: if neither changed, its hash is taken to hold.

    The time is in whole seconds: layers of images keep no more.
    """
    weights = sorted(folder.glob("*.safetensors"))
    return {path.name: [path.stat().st_size, int(path.stat().st_mtime)] for path in weights}


def _write_marker(marker: Path, entry: ModelEntry, folder: Path) -> None:
    content = {
        "source": entry.identity()["source"],
        "conversion": CONVERSION,
        "weights_sha256": _hashes(folder),
        "files": _file_states(folder),
    }
    write_atomically(marker, lambda file: file.write(json.dumps(content, indent=2).encode() + b"\n"))


def _hashes(folder: Path) -> dict[str, str]:
    return {name: sha256_of([folder / name], f"SHA-256 of {name}") for name in _file_states(folder)}
