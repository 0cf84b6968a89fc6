"""Facts about hardware, from text: no GPU was at hand when these were written."""

import subprocess
import sys
from pathlib import Path

import pytest

from parley.engine import hardware
from parley.engine.hardware import Gpu, determinism, load_warning, parse_cpu_model, parse_cuda_version, parse_gpus

HOPPER = Gpu("NVIDIA H100 80GB HBM3", "550.54.15", (9, 0))
AMPERE = Gpu("NVIDIA A100-SXM4-40GB", "550.54.15", (8, 0))
TURING = Gpu("Tesla T4", "535.1", (7, 5))
UNKNOWN = Gpu("Tesla T4", "450.80.02", None)


def test_gpus_are_read_from_the_lines_of_nvidia_smi() -> None:
    text = "NVIDIA H100 80GB HBM3, 550.54.15, 9.0\nTesla T4, 535.1, 7.5\n"
    assert parse_gpus(text) == (HOPPER, TURING)


@pytest.mark.parametrize("line", ["Tesla T4, 450.80.02", "Tesla T4, 450.80.02, [N/A]", "Tesla T4, 450.80.02, x"])
def test_a_driver_that_knows_no_compute_capability_leaves_it_open(line: str) -> None:
    assert parse_gpus(line) == (UNKNOWN,)


@pytest.mark.parametrize("text", ["", "\n", "No devices were found\n", "NVIDIA-SMI has failed\n"])
def test_what_is_no_list_of_gpus_has_none(text: str) -> None:
    assert parse_gpus(text) == ()


def test_compute_capability_is_compared_as_numbers() -> None:
    assert parse_gpus("Future, 1.0, 12.0")[0].capability == (12, 0)
    assert determinism(True, False, parse_gpus("Future, 1.0, 12.0")).by == "VLLM_BATCH_INVARIANT=1"


def test_nothing_is_done_unless_it_is_asked_for() -> None:
    for cpu_build in (True, False):
        found = determinism(False, cpu_build, (HOPPER,))
        assert (found.asked, found.by, found.warning, dict(found.environment)) == (False, None, None, {})


def test_a_cpu_computes_in_float32_which_is_evidence_and_no_proof() -> None:
    found = determinism(True, True, ())
    assert (found.asked, found.by, dict(found.environment)) == (True, "float32", {})
    assert "no proof" in (found.warning or "")


def test_gpus_that_can_are_told_to_be_batch_invariant() -> None:
    found = determinism(True, False, (HOPPER, AMPERE))
    assert (found.asked, found.by) == (True, "VLLM_BATCH_INVARIANT=1")
    assert found.environment == {"VLLM_BATCH_INVARIANT": "1"}


def test_no_gpu_is_said_to_be_proven_and_hopper_is_known_to_fail() -> None:
    alone = determinism(True, False, (AMPERE,)).warning or ""
    assert "beta" in alone
    assert "47069" not in alone
    for gpus in ((HOPPER,), (AMPERE, HOPPER)):
        warning = determinism(True, False, gpus).warning or ""
        assert "compute capability 9" in warning
        assert "vLLM issue 47069" in warning


def test_many_requests_at_once_are_a_warning_where_kernels_are_batch_invariant() -> None:
    assert "up to 64 requests at once" in (load_warning("VLLM_BATCH_INVARIANT=1", 64) or "")
    for by, requests in (("VLLM_BATCH_INVARIANT=1", 1), ("float32", 64), (None, 64), ("VLLM_BATCH_INVARIANT=1", "64")):
        assert load_warning(by, requests) is None


@pytest.mark.parametrize(
    ("gpus", "words"),
    [
        ((TURING,), "Tesla T4 has compute capability 7.5, and 8.0 is needed"),
        ((HOPPER, TURING), "Tesla T4 has compute capability 7.5"),
        ((UNKNOWN, HOPPER), "the compute capability of Tesla T4 is unknown"),
        ((), "no GPU was found"),
    ],
)
def test_gpus_that_cannot_are_a_warning(gpus: tuple[Gpu, ...], words: str) -> None:
    found = determinism(True, False, gpus)
    assert (found.asked, found.by, dict(found.environment)) == (True, None, {})
    assert words in (found.warning or "")


def smi(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a program called nvidia-smi in front of all others."""
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


@pytest.mark.slow
def test_nvidia_smi_is_asked_for_the_visible_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi(tmp_path, monkeypatch, 'echo "$@" >> "$0.asked"; echo "Tesla T4, 535.1, 7.5"')
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,GPU-8f6d")
    assert hardware.gpus.__wrapped__() == (TURING,)
    asked = "--query-gpu=name,driver_version,compute_cap --format=csv,noheader --id=1,GPU-8f6d\n"
    assert (tmp_path / "nvidia-smi.asked").read_text() == asked


@pytest.mark.slow
def test_an_old_nvidia_smi_is_asked_again_without_compute_capability(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse = 'case "$1" in *compute_cap*) echo "Field is not valid"; exit 2;; esac'
    smi(tmp_path, monkeypatch, f'{refuse}; echo "Tesla T4, 450.80.02"')
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert hardware.gpus.__wrapped__() == (UNKNOWN,)


@pytest.mark.slow
def test_without_nvidia_smi_there_are_no_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert hardware.gpus.__wrapped__() == ()


def test_devices_are_named_with_driver_and_capability(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "gpus", lambda: (HOPPER, UNKNOWN))
    assert hardware.device(cpu_build=False) == "NVIDIA H100 80GB HBM3, 550.54.15; Tesla T4, 450.80.02"
    assert hardware.capabilities() == ["9.0", "unknown"]
    assert hardware.device(cpu_build=True) == f"CPU, {hardware.cpu()}"


@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        ("flags\t\t: fpu fma avx avx2\n", True),
        ("flags\t\t: fma avx2 avx512f avx512_vnni\n", True),
        ("flags\t\t: avx512f avx512_bf16\n", False),
        ("flags\t\t: avx2 amx_bf16 amx_tile\n", False),
        ("Features\t: fp asimd bf16\n", False),
        ("Features\t: fp asimd\n", True),
        ("processor\t: 0\n", False),  # says nothing about it
        ("", False),
    ],
)
def test_whether_a_cpu_has_instructions_for_bfloat16_is_read_from_its_flags(text: str, lacks: bool) -> None:
    assert hardware.lacks_bfloat16(text) is lacks


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("flags\t\t: fpu avx avx2 sse2\n", ["avx2"]),
        ("flags\t\t: avx2 avx512_bf16 avx512_vnni avx512f fpu\n", ["avx512f", "avx512_vnni", "avx512_bf16"]),
        ("Features\t: fp asimd bf16\n", ["asimd", "bf16"]),
        ("flags\t\t: avx2x\n", []),
        ("", []),
    ],
)
def test_the_instructions_of_a_cpu_that_decide_how_it_rounds(text: str, expected: list[str]) -> None:
    assert hardware.instructions(text) == expected


def test_two_cpus_of_one_name_are_told_apart_by_their_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "model name\t: Some\nflags\t\t: {}\n"
    named = []
    for flags in ("avx2", "avx2 avx512f", "none"):
        monkeypatch.setattr(hardware, "cpuinfo", lambda flags=flags: text.format(flags))
        named.append(hardware.cpu().partition(" cores")[2])
    assert named == [", avx2", ", avx512f", ""]


def test_the_cpu_is_named_as_the_kernel_names_it() -> None:
    text = "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Intel(R)  Xeon(R) Gold 6248 CPU @ 2.50GHz\nstepping\t: 7\n"
    assert parse_cpu_model(text) == "Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz"
    assert parse_cpu_model("CPU implementer\t: 0x41\n") == "unknown CPU"
    assert "cores" in hardware.cpu()


def test_the_cuda_version_is_that_of_torch() -> None:
    text = "__all__ = ['cuda', 'git_version']\n__version__ = '2.13.0+cu130'\ncuda: Optional[str] = '13.0'\n"
    assert parse_cuda_version(text) == "13.0"
    assert parse_cuda_version(text.replace("'13.0'", "None")) is None


@pytest.mark.slow
def test_the_cuda_version_is_the_one_that_torch_tells() -> None:
    code = "import torch; print(torch.version.cuda)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert str(hardware.cuda_version()) == told
