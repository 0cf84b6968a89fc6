"""Facts about hardware, from text: no GPU was at hand when these were written."""

import importlib.metadata
import runpy
from pathlib import Path

import pytest

from parley.engine import hardware
from parley.engine.hardware import Gpu, determinism, load_warning, parse_cpu_model, parse_cuda_version, parse_gpus

HOPPER = Gpu("NVIDIA H100 80GB HBM3", "550.54.15", (9, 0))
AMPERE = Gpu("NVIDIA A100-SXM4-40GB", "550.54.15", (8, 0))
TURING = Gpu("Tesla T4", "535.1", (7, 5))
UNKNOWN = Gpu("Tesla T4", "450.80.02", None)
INVARIANT = "VLLM_BATCH_INVARIANT=1"


def test_gpus_are_read_from_the_lines_of_nvidia_smi() -> None:
    assert parse_gpus("NVIDIA H100 80GB HBM3, 550.54.15, 9.0\nTesla T4, 535.1, 7.5\n") == (HOPPER, TURING)
    assert parse_gpus("Future, 1.0, 12.0")[0].capability == (12, 0)
    for line in "Tesla T4, 450.80.02", "Tesla T4, 450.80.02, [N/A]":
        assert parse_gpus(line) == (UNKNOWN,)
    for text in "", "\n", "No devices were found\n":
        assert parse_gpus(text) == ()


def test_inference_is_deterministic_only_where_it_is_asked_for_and_known_how() -> None:
    future = Gpu("Future", "1.0", (12, 0))
    too_old = "Tesla T4 has compute capability 7.5, and 8.0 is needed"
    rows = [  # asked, CPU build, GPUs, by what it is had, what is warned of
        (False, True, (HOPPER,), None, None),
        (False, False, (HOPPER,), None, None),
        (True, True, (), "float32", "no proof"),
        (True, False, (HOPPER, AMPERE), INVARIANT, "compute capability 9"),
        (True, False, (AMPERE, HOPPER), INVARIANT, "vLLM issue 47069"),
        (True, False, (AMPERE,), INVARIANT, "beta"),
        (True, False, (future,), INVARIANT, "beta"),
        (True, False, (TURING,), None, too_old),
        (True, False, (HOPPER, TURING), None, too_old),
        (True, False, (UNKNOWN, HOPPER), None, "the compute capability of Tesla T4 is unknown"),
        (True, False, (), None, "no GPU was found"),
    ]
    for asked, cpu_build, gpus, by, warning in rows:
        found = determinism(asked, cpu_build, gpus)
        assert (found.asked, found.by) == (asked, by), gpus
        assert found.environment == ({"VLLM_BATCH_INVARIANT": "1"} if by == INVARIANT else {}), gpus
        assert (found.warning is None) == (warning is None), gpus
        assert (warning or "") in (found.warning or ""), gpus
    assert "47069" not in (determinism(True, False, (AMPERE,)).warning or "")


def test_many_requests_at_once_are_a_warning_where_kernels_are_batch_invariant() -> None:
    assert "up to 64 requests at once" in (load_warning(INVARIANT, 64) or "")
    for by, requests in ((INVARIANT, 1), ("float32", 64), (None, 64), (INVARIANT, "64")):
        assert load_warning(by, requests) is None


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in front of all other programs."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tmp_path / "nvidia-smi"


def install(program: Path, script: str) -> None:
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_nvidia_smi_is_asked_for_the_visible_gpus(smi: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(smi, 'echo "$@" >> "$0.asked"; echo "Tesla T4, 535.1, 7.5"')
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,GPU-8f6d")
    assert hardware.gpus.__wrapped__() == (TURING,)
    asked = "--query-gpu=name,driver_version,compute_cap --format=csv,noheader --id=1,GPU-8f6d\n"
    assert Path(f"{smi}.asked").read_text() == asked


def test_an_old_nvidia_smi_is_asked_again_without_compute_capability(
    smi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse = 'case "$1" in *compute_cap*) echo "Field is not valid"; exit 2;; esac'
    install(smi, f'{refuse}; echo "Tesla T4, 450.80.02"')
    assert hardware.gpus.__wrapped__() == (UNKNOWN,)
    smi.unlink()
    monkeypatch.setenv("PATH", str(smi.parent))
    assert hardware.gpus.__wrapped__() == ()


def test_devices_are_named_with_driver_and_capability(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "gpus", lambda: (HOPPER, UNKNOWN))
    assert hardware.device(cpu_build=False) == "NVIDIA H100 80GB HBM3, 550.54.15; Tesla T4, 450.80.02"
    assert hardware.capabilities() == ["9.0", "unknown"]
    assert hardware.device(cpu_build=True) == f"CPU, {hardware.cpu()}"


def test_a_cpu_is_told_by_its_name_and_the_instructions_that_decide_how_it_rounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows: list[tuple[str, bool, list[str]]] = [  # lacks bfloat16, instructions
        ("flags\t\t: fpu avx avx2 sse2\n", True, ["avx2"]),
        ("flags\t\t: avx2 avx512_vnni avx512f fpu\n", True, ["avx512f", "avx512_vnni"]),
        ("flags\t\t: avx512f avx512_bf16\n", False, ["avx512f", "avx512_bf16"]),
        ("flags\t\t: avx2 amx_bf16 amx_tile\n", False, ["avx2", "amx_bf16"]),
        ("Features\t: fp asimd bf16\n", False, ["asimd", "bf16"]),
        ("Features\t: fp asimd\n", True, ["asimd"]),
        ("flags\t\t: avx2x\n", True, []),
        ("processor\t: 0\n", False, []),  # says nothing about it
        ("", False, []),
    ]
    for text, lacks, instructions in rows:
        assert (hardware.lacks_bfloat16(text), hardware.instructions(text)) == (lacks, instructions), text
    text = "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Intel(R)  Xeon(R) Gold 6248 CPU @ 2.50GHz\nstepping\t: 7\n"
    assert parse_cpu_model(text) == "Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz"
    assert parse_cpu_model("CPU implementer\t: 0x41\n") == "unknown CPU"
    for flags, told in ("avx2", ", avx2"), ("avx2 avx512f", ", avx512f"), ("none", ""):
        monkeypatch.setattr(hardware, "cpuinfo", lambda flags=flags: f"{text}flags\t: {flags}\n")
        assert hardware.cpu().startswith("Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz, ")
        assert hardware.cpu().partition(" cores")[2] == told


def test_the_cuda_version_is_that_of_torch() -> None:
    text = "__all__ = ['cuda', 'git_version']\n__version__ = '2.13.0+cu130'\ncuda: Optional[str] = '13.0'\n"
    assert parse_cuda_version(text) == "13.0"
    assert parse_cuda_version(text.replace("'13.0'", "None")) is None
    installed = importlib.metadata.distribution("torch").locate_file("torch/version.py")
    assert hardware.cuda_version() == runpy.run_path(str(installed))["cuda"]
