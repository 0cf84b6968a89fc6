"""GGUF files in `models.yaml`: only the file's hash is identity, and what is wrong is one line."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from parley import paths
from parley.engine.models import ModelEntry, load_models, recorded_entry
from parley.engine.sources import GgufSource, PackagesPlace
from parley.errors import UsageError
from parley.identity import digest
from support import REPOSITORY

SHA256 = "c" * 64
PATH = {"path": "some/file.gguf"}
PACKAGES = {"packages": "tiny-part{}", "parts": 3, "version": "0.2.0", "file": "part{:02}.bin"}
HUB = {"repo": "owner/tiny", "revision": "a" * 40, "file": "tiny.gguf"}


def entry(*places: dict[str, Any], **keys: Any) -> ModelEntry:
    source = {"sha256": SHA256, "from": list(places) or [PATH]}
    return ModelEntry.model_validate({"source": source, **keys})


def refused(folder: Path, **content: Any) -> str:
    file = folder / "wrong.yaml"
    file.write_text(yaml.safe_dump({"models": {"m": content}}), encoding="utf-8")
    with pytest.raises(UsageError) as error:
        load_models(file)
    assert "\n" not in str(error.value)
    return str(error.value).removeprefix(f"{file}: models.m")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("smollm2-135m", "975126429a5a5e9b543428ff1bd5eec0b02ab3c66375c488a293475cacec4ad8"),
        ("gemma3-270m", "823a925946acf49b78e04a48851e5ab76c6e9b437b429546ab44869dd9d999d7"),
        ("local-service", "bce2fc468480d502be24ca2200095450053b2f9189333846d0725ccf66c2d4b5"),
        ("qwen3-8b", "dc1e48463c5e965a81a59c5629c5c71804d332be983bc5547aaad34b6166bd4f"),
        ("qwen3-14b", "ece98cedf24770d8e61ee23b193e5ba79793b3114870255e43c3da9afdade0b2"),
        ("qwen2.5-coder-1.5b", "9ea9c267d819f5b1505606116b29a2309c9d126d1a6cd4884af73522fa97352b"),
        ("qwen2.5-coder-0.5b", "e884b4d4789f8c540511ab07c91ae77b5316d03027bc7557c4b19b6868887aae"),
    ],
)
def test_the_identities_of_the_shipped_entries_stay(name: str, expected: str) -> None:
    """Paths of results depend on them. Those of the first five were taken before GGUF files had hashes."""
    assert digest(load_models(REPOSITORY / "config" / "models.yaml")[name].identity()) == expected


def test_where_a_file_is_had_is_no_identity() -> None:
    assert entry(PATH).identity()["source"] == {"sha256": SHA256}
    first = entry(PATH, license="MIT", download_bytes=7).identity()
    assert first == entry(PACKAGES, HUB).identity()
    assert "quantization" not in first


def test_quantization_is_identity() -> None:
    assert entry(quantization="int8").identity() == {**entry().identity(), "quantization": "int8"}


@pytest.mark.parametrize("keys", [{}, {"quantization": "int8", "dtype": "float32"}])
def test_a_recorded_identity_gives_the_same_identity(keys: dict[str, Any]) -> None:
    found = entry(HUB, **keys).identity()
    assert recorded_entry(found).identity() == found


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [("tiny-part1", "part01.bin"), ("tiny-part2", "part02.bin"), ("tiny-part3", "part03.bin")]),
        ({"first": 0, "parts": 2}, [("tiny-part0", "part00.bin"), ("tiny-part1", "part01.bin")]),
        ({"packages": ["b", "a"], "parts": None, "file": "x{}"}, [("b", "x1"), ("a", "x2")]),
        ({"packages": "whole", "parts": None, "file": "tiny.gguf"}, [("whole", "tiny.gguf")]),
    ],
)
def test_names_of_parts_follow_their_pattern(changes: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    [place] = entry(PACKAGES | changes).source.places  # type: ignore[union-attr]
    assert isinstance(place, PackagesPlace)
    assert place.files() == expected


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (PACKAGES | {"packages": "tiny"}, "all packages have the same name"),
        (PACKAGES | {"packages": ["a", "a"], "parts": None}, "all packages have the same name"),
        (PACKAGES | {"packages": ["a", "b"]}, "parts goes with a pattern"),
        (PACKAGES | {"packages": "tiny{0.__class__}"}, "packages"),
        (PACKAGES | {"file": "../x{}"}, "file"),
        (PACKAGES | {"version": ">1"}, "version"),
        (PACKAGES | {"version": 1.0}, 'must be in quotes, since YAML takes it for a number: "1.0"'),
        ({key: value for key, value in PACKAGES.items() if key != "version"}, "version: missing; add it"),
        (HUB | {"revision": "main"}, "revision"),
        (HUB | {"file": "/etc/x"}, "file"),
        (HUB | {"file": "a/../../x.gguf"}, "must be a path inside the repository"),
        ({"url": "http://x"}, "give packages, version and file, or repo, revision and file, or path"),
        (PATH | {"sha": 1}, "unknown key"),
    ],
)
def test_a_place_that_is_none_is_refused(folder: Path, place: dict[str, Any], expected: str) -> None:
    said = refused(folder, source={"sha256": SHA256, "from": [place]})
    assert re.match(r"\.source\.from\[0\]", said)
    assert expected in said


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"sha256": "x", "from": [PATH]}, ".source.sha256: 'x'"),
        ({"sha256": SHA256, "from": []}, ".source.from: []"),
        ({"sha256": SHA256}, ".source.from: missing; add it"),
    ],
)
def test_a_file_needs_its_hash_and_a_place(folder: Path, source: dict[str, Any], expected: str) -> None:
    assert expected in refused(folder, source=source)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"url": "http://127.0.0.1:1/v1", "served": "x"}, "not for a service; remove it"),
        ({"repo": "owner/tiny", "revision": "a" * 40}, "made from GGUF files only"),
        ({"folder": "x"}, "made from GGUF files only"),
    ],
)
def test_quantization_of_what_is_not_converted_is_refused(folder: Path, source: dict[str, Any], expected: str) -> None:
    assert expected in refused(folder, source=source, quantization="int8")


def test_only_int8_is_known(folder: Path) -> None:
    assert ".quantization: 'int4'" in refused(folder, source={"sha256": SHA256, "from": [PATH]}, quantization="int4")


@pytest.mark.parametrize("name", ["qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b"])
def test_the_list_of_packages_is_that_of_the_entry(name: str) -> None:
    found = load_models(REPOSITORY / "config" / "models.yaml")[name]
    assert isinstance(found.source, GgufSource)
    [place] = [place for place in found.source.places if isinstance(place, PackagesPlace)]
    text = (REPOSITORY / paths.model_packages(name)).read_text(encoding="utf-8")
    pins = [line.split()[0] for line in text.splitlines() if not line.startswith("#")]
    assert pins == [f"{package}=={place.version}" for package, _ in place.files()]
    assert found.license == "Apache-2.0"
