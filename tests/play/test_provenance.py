"""What made a result: complete, and without a word about who or where."""

import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import parley
from parley import __version__
from parley.engine import hardware
from parley.play import provenance


def test_provenance_names_versions_machine_and_times() -> None:
    started = datetime.now(UTC) - timedelta(minutes=1)
    found = provenance.provenance(started, {"tiny": {"engine": "vllm"}})
    assert found["parley"] == __version__
    assert set(found["packages"]) == {
        *("numpy", "pandas", "pyarrow", "pydantic", "scipy", "networkx", "httpx", "snakemake", "dvc"),
    }
    assert hardware.cpu() in found["machine"]
    assert found["engines"] == {"tiny": {"engine": "vllm"}}
    assert datetime.fromisoformat(found["started"]) == started.replace(microsecond=0)
    assert started < datetime.fromisoformat(found["ended"]) + timedelta(seconds=1)


def test_packages_that_are_not_installed_are_left_out(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(provenance, "_PACKAGES", ("numpy", "no-such-package"))
    provenance._versions.cache_clear()
    try:
        assert set(provenance.provenance(datetime.now(UTC), {})["packages"]) == {"numpy"}
    finally:
        provenance._versions.cache_clear()


@pytest.mark.slow
def test_a_source_archive_has_no_commit_though_it_lies_in_another_repository(tmp_path: Path) -> None:
    shutil.copytree(Path(parley.__file__).parent, tmp_path / "parley", ignore=shutil.ignore_patterns("__pycache__"))
    code = "from parley.play.provenance import git_state; print(git_state())"
    environment = {"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    command = [sys.executable, "-c", code]

    def told() -> str:
        ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        return ran.stdout.strip()

    assert told() == "None"
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    for git in (["init", "-q"], [*identity, "commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run(["git", *git], cwd=tmp_path, check=True)
    assert told() == "None"


def test_readers_are_warned_of_each_engine_and_of_its_load() -> None:
    invariant = {"by": hardware.determinism(True, False, (hardware.Gpu("A100", "1", (8, 0)),)).by, "warning": "a beta"}
    engines = {
        "b": {"deterministic": invariant, "requests_at_once": 64},
        "a": {"deterministic": {"by": "float32", "warning": "no proof"}, "requests_at_once": 64},
        "c": {"deterministic": None},
        "d": {},
    }
    found = provenance.warnings({"engines": engines})
    assert found[:2] == ["a: no proof", "b: a beta"]
    assert found[2].startswith("b: up to 64 requests at once")
    assert len(found) == 3
