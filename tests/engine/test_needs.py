"""What a machine lacks is said before anybody waits for it, with what installs it."""

import ctypes
from pathlib import Path

import pytest

from parley.engine import needs, server


@pytest.mark.promise("What an engine needs of a machine and cannot have is one line with its remedy.")
def test_a_library_that_is_not_there_and_a_missing_lscpu_are_a_line_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(server, "is_cpu_build", lambda: True)
    monkeypatch.setattr(ctypes, "CDLL", load)
    monkeypatch.setenv("PATH", str(tmp_path))
    library, lscpu = needs.missing_of_engine()
    assert library.endswith("as root: apt-get install libnuma1 (Debian, Ubuntu) or dnf install numactl-libs (Fedora)")
    assert "without lscpu; as root: apt-get install util-linux" in lscpu
    monkeypatch.setattr(server, "is_cpu_build", lambda: False)
    assert needs.missing_of_engine() == []
