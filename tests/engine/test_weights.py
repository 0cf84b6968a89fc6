"""How weights get onto this machine: GGUF files from packages, a path, a repository; errors are one line, in time."""

import fcntl
import hashlib
import json
import os
import shutil
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parley import paths
from parley.engine import weights
from parley.engine.models import ModelEntry
from parley.errors import EngineError, UsageError

MODELS_FILE = Path("models.yaml")
CONTENT = b"GGUF first, second and third part"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
CUT = (CONTENT[:11], CONTENT[11:19], CONTENT[19:])
PACKAGES = {"packages": "tiny-part{}", "parts": 3, "version": "0.2.0", "file": "part{:02}.bin"}
HUB = {"repo": "owner/tiny", "revision": "a" * 40, "file": "tiny.gguf"}
PATH = {"path": "files/tiny.bin"}

Install = Callable[..., Path]
Converted = list[tuple[bytes, str | None]]

pytestmark = [
    pytest.mark.promise("Weights are checked by hash, converted once, and an interrupted preparation goes on."),
    pytest.mark.usefixtures("folder"),
]


@pytest.fixture
def install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a package of one file beside some code, as pip leaves it behind."""
    site = folder / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))

    def make(package: str, file: str, content: bytes, version: str = "0.2.0") -> Path:
        module = site / package.replace("-", "_")
        (module / "data").mkdir(parents=True)
        (module / "__init__.py").write_text("raise SystemExit('code of a package of weights was run')\n")
        (module / "data" / file).write_bytes(content)
        info = site / f"{module.name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        record = f"{module.name}/__init__.py,,\n{module.name}/data/{file},sha256=x,{len(content)}\n"
        (info / "RECORD").write_text(record)
        return module / "data" / file

    return make


@pytest.fixture
def parts(install: Install) -> list[Path]:
    return [install(f"tiny-part{n}", f"part{n:02}.bin", part) for n, part in enumerate(CUT, 1)]


@pytest.fixture
def converted(monkeypatch: pytest.MonkeyPatch) -> Converted:
    """What was given to be converted; the real thing needs torch and a real model."""
    seen: Converted = []

    def copy(file: Path, target: Path, quantization: str | None) -> None:
        seen.append((file.read_bytes(), quantization))
        assert file.suffix == ".gguf"  # transformers takes no other
        target.mkdir()
        shutil.copy(file, target / "model.safetensors")

    monkeypatch.setattr(weights, "convert", copy)
    return seen


@pytest.fixture
def here(folder: Path) -> Path:
    """The file on this machine."""
    path = folder / PATH["path"]
    path.parent.mkdir()
    path.write_bytes(CONTENT)
    return path


def listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a list of packages, from which `make model` installs."""
    monkeypatch.setattr(paths, "CHECKOUT", Path())
    path = paths.model_packages("tiny")
    path.parent.mkdir(parents=True)
    path.write_text("")


def entry(*places: dict[str, Any], content: bytes = CONTENT, **keys: Any) -> ModelEntry:
    source = {"sha256": hashlib.sha256(content).hexdigest(), "from": list(places) or [PACKAGES]}
    return ModelEntry.model_validate({"source": source, **keys})


def fetch(found: ModelEntry) -> Path:
    return weights.fetch("tiny", found, MODELS_FILE)


def files() -> set[str]:
    """Names of all files of prepared models, but the lock."""
    return {path.name for path in Path("models").rglob("*") if path.is_file()} - {".lock"}


def failure(found: ModelEntry) -> str:
    with pytest.raises(EngineError) as error:
        fetch(found)
    assert "\n" not in str(error.value)
    assert files() == set(), "something half made stayed"
    return str(error.value)


def test_parts_are_joined_and_converted_once_for_each_quantization(parts: list[Path], converted: Converted) -> None:
    marker = fetch(entry(quantization="int8"))
    assert files() == {marker.name, "model.safetensors"}  # the joined file does not stay
    assert json.loads(marker.read_text())["weights_sha256"] == {"model.safetensors": SHA256}
    assert fetch(entry(PATH, quantization="int8")) == marker
    assert fetch(entry()) != marker
    assert converted == [(CONTENT, "int8"), (CONTENT, None)]
    for part in parts:  # what is prepared needs its packages no more
        shutil.rmtree(part.parents[1])
    weights.check_source("tiny", entry(), MODELS_FILE)
    assert fetch(entry(quantization="int8")) == marker
    assert weights.plan("tiny", entry(), MODELS_FILE) == []
    assert len(converted) == 2


def test_what_is_not_here_is_said_with_the_command_that_gets_it(
    install: Install, converted: Converted, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("tiny-part2", "part02.bin", CUT[1])
    missing = "package tiny-part1 0.2.0 and 1 more not installed"
    assert failure(entry()).endswith(missing)  # `make model` has no list of them
    listed(monkeypatch)
    assert f"{missing}; run: make model NAME=tiny" in failure(entry())
    for found, words in (entry(PACKAGES, HUB), "or parley fetch-model tiny"), (entry(PATH), r"tiny\.bin: no such"):
        with pytest.raises(UsageError, match=words):
            weights.check_source("tiny", found, MODELS_FILE)
    weights.check_source("tiny", entry(HUB), MODELS_FILE)  # it is not asked
    assert converted == []


def test_a_package_of_another_version_or_with_a_damaged_part_is_named(
    install: Install, converted: Converted, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed(monkeypatch)
    install("tiny-part1", "part01.bin", CUT[0])
    install("tiny-part3", "part03.bin", CUT[2])
    second = install("tiny-part2", "part02.bin", CUT[1], "0.3.0")
    assert "tiny-part2 is installed in version 0.3.0, but version 0.2.0 is needed; run: make" in failure(entry())
    (folder / "site" / "tiny_part2-0.3.0.dist-info").rename(info := folder / "site" / "tiny_part2-0.2.0.dist-info")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-part2\nVersion: 0.2.0\n")
    second.write_bytes(CUT[1][:-1])
    assert "tiny-part2: part02.bin is incomplete: 7 of 8 bytes; run: make model" in failure(entry())
    assert converted == []


def test_a_wrong_hash_is_one_line_and_nothing_is_converted(parts: list[Path], converted: Converted) -> None:
    said = failure(entry(content=b"another file"))
    for words in SHA256, hashlib.sha256(b"another file").hexdigest(), "part01.bin to part03.bin in installed packages":
        assert words in said
    assert converted == []


def test_the_hub_is_asked_for_what_is_not_here(monkeypatch: pytest.MonkeyPatch, converted: Converted) -> None:
    asked: list[tuple[str, str]] = []
    sent = [b"cut", CONTENT]  # a wrong download is not taken again

    def download(place: Any, folder: Path) -> Path:
        asked.append((place.repo, place.file))
        folder.mkdir(parents=True)
        (folder / "tiny.gguf").write_bytes(sent.pop(0))
        return folder / "tiny.gguf"

    monkeypatch.setattr(weights, "_download_file", download)
    assert "the SHA-256 of the file is" in failure(entry(HUB))
    assert converted == []
    fetch(entry(PACKAGES, HUB))
    assert asked == [("owner/tiny", "tiny.gguf")] * 2
    assert converted == [(CONTENT, None)]
    assert "tiny.gguf" not in files(), "the download stayed"


def test_no_room_is_said_before_anything_is_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    found = entry(PACKAGES, HUB, download_bytes=1_000_000_000, quantization="int8")
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(weights, "_download_file", lambda *arguments: pytest.fail("downloaded"))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(9, 9, 3_900_000_000))
    for attempt in (lambda: weights.plan("tiny", found, MODELS_FILE), lambda: fetch(found)):
        with pytest.raises(EngineError, match=r"models: 4\.0 GB are needed, 3\.9 GB are free"):
            attempt()
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(9, 9, 4_100_000_000))
    assert weights.plan("tiny", found, MODELS_FILE)


def test_what_was_interrupted_goes_on(here: Path, monkeypatch: pytest.MonkeyPatch, converted: Converted) -> None:
    working = weights.convert

    def interrupted(file: Path, target: Path, quantization: str | None) -> None:
        target.mkdir()
        (target / "model.safetensors").write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(weights, "convert", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fetch(entry(PATH))
    assert files() == set()
    folder = weights.model_folder("tiny", entry(PATH), MODELS_FILE)
    killed = folder.with_name(".model.killed")
    for left in killed, folder:  # by a fetch that was killed, and by one that died before its marker
        left.mkdir()
    monkeypatch.setattr(weights, "convert", working)
    fetch(entry(PATH))
    assert converted == [(CONTENT, None)]
    assert (folder / "model.safetensors").read_bytes() == CONTENT
    assert not killed.exists()


def test_one_waits_while_another_prepares_the_model(
    here: Path, monkeypatch: pytest.MonkeyPatch, converted: Converted
) -> None:
    marker = fetch(entry(PATH))
    hidden = marker.rename("marker")
    seen: list[str] = []
    with (marker.parent / ".lock").open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)

        def said(title: str) -> None:
            seen.append(title)
            hidden.rename(marker)  # now it is prepared
            fcntl.flock(other, fcntl.LOCK_UN)

        monkeypatch.setattr(weights, "say_step", said)
        assert fetch(entry(PATH)) == marker
    assert seen == ["waiting for another process that prepares this model"]
    assert converted == [(CONTENT, None)]


def test_only_another_conversion_or_damaged_weights_prepare_anew(
    here: Path, converted: Converted, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = fetch(entry(PACKAGES, PATH))
    assert PATH["path"] not in marker.read_text()
    assert here.read_bytes() == CONTENT
    for keys in ({"dtype": "float32"}, {"max_model_len": 512}, {"deterministic": True}):
        assert fetch(entry(PATH, **keys)) == marker
    prepared = marker.parent / "model" / "model.safetensors"
    os.utime(prepared, ns=(1, 1))  # as of a copy
    fetch(entry(PATH))
    assert weights.is_ready("tiny", entry(PATH), MODELS_FILE)
    assert len(converted) == 1
    prepared.write_bytes(CONTENT[::-1])  # as long, but not the same
    fetch(entry(PATH))
    assert len(converted) == 2
    assert prepared.read_bytes() == CONTENT
    monkeypatch.setattr(weights, "CONVERSION", 2)
    fetch(entry(PATH))
    fetch(entry(PATH))
    assert len(converted) == 3
