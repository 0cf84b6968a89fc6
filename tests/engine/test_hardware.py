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
    "Deterministic inference, drivers and instructions of a CPU are told from what the machine says."
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


@pytest.mark.slow
def test_an_older_driver_or_toolkit_is_told_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def program(name: str, says: str) -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\necho '{says}'\n")
        (tmp_path / name).chmod(0o755)

    (tmp_path / "bin").symlink_to(".")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    rows = [  # driver, as nvidia-smi prints its CUDA, what torch is built for, whether it is too old
        ("550.54.15", "CUDA Version: 12.4", "13.0", True),
        ("575.51.03", "CUDA UMD Version: 12.9", "13.0", True),
        ("580.65.06", "CUDA Version: 13.0", "13.2", False),  # CUDA 13 runs with any driver of CUDA 13
        ("550.54.15", "CUDA Version: 13.0", "13.0", False),  # with a forward compatible libcuda
        ("550.54.15", "CUDA Version: 12.4", None, False),  # a CPU build
        ("550.54.15", "CUDA Version: N/A", "13.0", False),  # says nothing
    ]
    for driver, cuda, built, too_old in rows:
        program("nvidia-smi", f"| NVIDIA-SMI {driver}    Driver Version: {driver}    {cuda}   |")
        monkeypatch.setattr(hardware, "cuda_version", lambda built=built: built)
        words = [driver, cuda[-4:], "CUDA 13.0", "R580", "envs/README.md"]
        assert [word in (hardware.driver_error() or "") for word in words] == [too_old] * 5, (driver, cuda, built)
    there = str(tmp_path)
    for home, release, warns in ("", "12.4", True), (there, "12.4", True), ("/x", "12", False), ("", "13", False):
        monkeypatch.setenv("CUDA_HOME", home)  # of a module; else its program is found by PATH
        program("nvcc", f"Cuda compilation tools, release {release}, V{release}.131")
        assert (f"CUDA {release} is loaded" in (hardware.toolkit_warning() or "")) == warns, (home, release)


def test_a_cpu_is_told_by_its_name_and_the_instructions_that_decide_how_it_rounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows: list[tuple[str, bool, list[str]]] = [  # lacks bfloat16, instructions
        ("flags\t\t: fpu avx avx2 sse2\n", True, ["avx2"]),
        ("flags\t\t: avx2 avx512_vnni avx512f fpu\n", True, ["avx512f", "avx512_vnni"]),
        ("flags\t\t: avx512f avx512_bf16\n", False, ["avx512f", "avx512_bf16"]),
        ("flags\t\t: avx2 amx_bf16 amx_tile\n", False, ["avx2", "amx_bf16"]),
        ("Features\t: fp asimd bf16\n", False, ["asimd", "bf16"]),
        ("processor\t: 0\n", False, []),  # says nothing about it
    ]
    for text, lacks, instructions in rows:
        assert (hardware.lacks_bfloat16(text), hardware.instructions(text)) == (lacks, instructions), text
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
