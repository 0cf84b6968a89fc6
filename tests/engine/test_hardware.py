"""Facts about hardware, from text: no GPU was at hand when these were written."""

import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from parley.engine import hardware
from parley.engine.hardware import Gpu, determinism, parse_cpu_model, parse_gpus
from parley.errors import EngineError
from support.commands import heard

pytestmark = pytest.mark.promise(
    "Deterministic inference and instructions of a CPU are told from what the machine says."
)

HOPPER = Gpu("NVIDIA H100 80GB HBM3", "550.54.15", (9, 0))
AMPERE = Gpu("NVIDIA A100-SXM4-40GB", "550.54.15", (8, 0))
TURING = Gpu("Tesla T4", "535.1", (7, 5))
INVARIANT = "VLLM_BATCH_INVARIANT=1"


def test_gpus_are_read_from_the_lines_of_nvidia_smi(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse_gpus("NVIDIA H100 80GB HBM3, 550.54.15, 9.0\nTesla T4, 535.1, 7.5\n") == (HOPPER, TURING)
    assert parse_gpus("No devices were found\n") == ()
    secret = parse_gpus("[Insufficient Permissions], [N/A], 9.0\n" * 2)
    assert secret == (Gpu("unknown", "unknown", (9, 0)),) * 2
    monkeypatch.setattr(hardware, "gpus", lambda: secret)
    assert hardware.device(cpu_build=False) == "unknown"


def test_inference_is_deterministic_only_where_it_is_asked_for_and_known_how() -> None:
    too_old = "Tesla T4 has compute capability 7.5, and 8.0 is needed"
    rows = [  # asked, CPU build, GPUs, by what it is had, what is warned of
        (False, False, (HOPPER,), None, None),
        (True, True, (), "float32", "no proof"),
        (True, False, (AMPERE, HOPPER), INVARIANT, "vLLM issue 47069"),
        (True, False, (AMPERE,), INVARIANT, "beta"),
        (True, False, (HOPPER, TURING), None, too_old),
        (True, False, (), None, "no GPU was found"),
    ]
    for asked, cpu_build, gpus, by, warning in rows:
        found = determinism(asked, cpu_build, gpus)
        assert (found.asked, found.by) == (asked, by), gpus
        assert found.environment == ({"VLLM_BATCH_INVARIANT": "1"} if by == INVARIANT else {}), gpus
        assert (warning or "") in (found.warning or ""), gpus
        assert bool(found.warning) == bool(warning), gpus


@pytest.mark.slow
@pytest.mark.parametrize(
    ("visible", "names", "asked"),
    [
        (None, ["7"], ""),
        ("1,GPU-8f6d", ["1", "GPU-8f6d"], " --id=1,GPU-8f6d"),
        (" 0, 1", ["0", "1"], " --id=0,1"),
        ("0,-1,1", ["0"], " --id=0"),
        ("0,0", ["0"], " --id=0"),
        *((none, [], None) for none in ("", "-1", "NoDevFiles")),
        ("MIG-b,MIG-c", ["MIG-b", "MIG-c"], " --id=GPU-2"),
        ("MIG-x", ["MIG-x"], " --id=MIG-x"),
    ],
)
def test_visible_gpus_are_those_of_cudas_own_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: str | None, names: list[str], asked: str | None
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(
        '#!/bin/sh\n[ "$1" != -L ] || { cat "$0.list"; exit; }\n'
        'echo "$@" >> "$0.asked"; case $1 in *index) echo 7;; *) echo "Tesla T4, 535.1, 7.5";; esac\n'
    )
    program.chmod(0o755)
    Path(f"{program}.list").write_text(
        "(UUID: GPU-1)\n (UUID: MIG-a)\n(UUID: GPU-2)\n (UUID: MIG-b)\n (UUID: MIG-c)\n"
    )
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert hardware.visible_gpus() == names
    assert hardware.gpus.__wrapped__() == (() if asked is None else (TURING,))
    said = Path(f"{program}.asked").read_text() if asked is not None else None
    query = "--query-gpu=name,driver_version,compute_cap --format=csv,noheader"
    assert said is None or said.splitlines()[-1] == f"{query}{asked}"
    program.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert hardware.gpus.__wrapped__() == ()


def test_a_cpu_is_told_by_its_name_and_the_instructions_that_decide_how_it_rounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows: list[tuple[str, list[str]]] = [
        ("flags\t\t: fpu avx avx2 sse2\n", ["avx2"]),
        ("flags\t\t: avx2 avx512_vnni avx512f fpu\n", ["avx512f", "avx512_vnni"]),
        ("flags\t\t: avx512f avx512_bf16\n", ["avx512f", "avx512_bf16"]),
        ("flags\t\t: avx2 amx_bf16 amx_tile\n", ["avx2", "amx_bf16"]),
        ("Features\t: fp asimd bf16\n", ["asimd", "bf16"]),
        ("processor\t: 0\n", []),  # says nothing about it
    ]
    for text, instructions in rows:
        assert hardware.instructions(text) == instructions, text
    text = "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Intel(R)  Xeon(R) Gold 6248 CPU @ 2.50GHz\nstepping\t: 7\n"
    assert parse_cpu_model(text) == "Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz"
    assert parse_cpu_model("CPU implementer\t: 0x41\n") == "unknown CPU"
    for flags, told in ("avx2", ", avx2"), ("avx2 avx512f", ", avx512f"), ("none", ""):
        monkeypatch.setattr(hardware, "cpuinfo", lambda flags=flags: f"{text}flags\t: {flags}\n")
        assert hardware.cpu.__wrapped__().startswith("Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz, ")
        assert hardware.cpu.__wrapped__().partition(" cores")[2] == told


@pytest.mark.promise("Servers on one machine take GPUs of their own.")
def test_servers_take_gpus_of_their_own_until_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def taken(count: int, visible: str = "0,GPU-b,2,3") -> str:
        monkeypatch.setenv(hardware.VISIBLE, visible)
        with heard() as said:
            hardware.take_gpus(count, seconds=0)
        return "; ".join([*said, os.environ[hardware.VISIBLE]])

    monkeypatch.setenv("SLURM_JOB_ID", f"test-{os.getpid()}")
    monkeypatch.setattr(hardware.random, "sample", lambda names, count: names[-count:])
    with ExitStack() as ended:
        monkeypatch.setattr(hardware, "_taken", ended)
        assert taken(1) == "0"
        first = ended.pop_all()
        assert [taken(count) for count in (2, 1)] == ["GPU-b,2", "3"]
        first.close()
        # Who wants two and cannot have them shares, says so, and has taken none.
        assert taken(2) == "warning: other servers have too many of the GPUs 0,GPU-b,2,3; this one shares 2,3; 2,3"
        assert taken(1) == "0"
        monkeypatch.setenv("SLURM_JOB_ID", f"other-{os.getpid()}")  # its GPUs of the same numbers are others
        assert taken(1) == "0"
        with pytest.raises(EngineError, match="needs 3 GPUs, and its job or machine has 2; ask for more"):
            taken(3, "0,1")
        assert taken(3, "") == ""  # none is known of
