"""What a machine lacks is said before anybody waits for it, with what installs it."""

from pathlib import Path

import pytest

from parley.engine import needs, server

pytestmark = pytest.mark.promise("What an engine needs of a machine and cannot have is one line with its remedy.")


def test_the_library_is_that_which_vllm_takes_on_the_cpu() -> None:
    flags = {"avx2": "_C_AVX2", "avx2 avx512f": "_C_AVX512", "avx2 avx512f avx512_bf16": "_C"}
    for text, name in flags.items():
        assert needs.vllm_library(f"flags : sse {text}\n", "x86_64") == f"{name}.abi3.so"
    assert needs.vllm_library("Features : asimd bf16\n", "aarch64") == "_C.abi3.so"


@pytest.mark.slow
def test_a_library_that_is_not_there_and_a_failing_lscpu_are_a_line_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "is_cpu_build", lambda: True)
    monkeypatch.setattr(needs, "_folder", lambda package: str(tmp_path))
    monkeypatch.setattr(needs, "vllm_library", lambda *cpu: "libnuma.so.1")  # as the loader names it
    monkeypatch.setenv("PATH", str(tmp_path))
    library, lscpu = needs.missing_of_engine()
    assert "libnuma.so.1: cannot open shared object file" in library
    assert library.endswith("as root: apt-get install libnuma1 (Debian, Ubuntu) or dnf install numactl-libs (Fedora)")
    assert "lscpu: No such file or directory; as root: apt-get install util-linux" in lscpu

    (program := tmp_path / "lscpu").write_text("#!/bin/sh\necho 'cannot open /sys' >&2\nexit 1\n")
    program.chmod(0o755)
    assert "cannot open /sys" in needs.missing_of_engine()[1]
    program.write_text("#!/bin/sh\n")
    assert "no output" in needs.missing_of_engine()[1]

    monkeypatch.setattr(server, "is_cpu_build", lambda: False)
    assert needs.missing_of_engine() == []


@pytest.mark.slow
def test_nothing_is_missing_where_the_tests_run() -> None:
    assert needs.missing() == []
    if needs._folder("torch"):
        assert needs.missing_of_engine() == []
