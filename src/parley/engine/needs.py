"""What a run needs of this machine that no package brings, tried out before anybody waits for it.

    python -m parley.engine.needs       # prints what is missing, a line each, with what installs it

vLLM itself only warns of a library that it cannot load, and dies minutes later of something else.
"""

import os
import platform
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from parley.engine import hardware, server
from parley.text import one_line

_SECONDS = 20.0
_INSTALLED_BY = {
    "libnuma.so.1": "apt-get install libnuma1 (Debian, Ubuntu) or dnf install numactl-libs (Fedora)",
    "lscpu": "apt-get install util-linux (Debian, Ubuntu) or dnf install util-linux (Fedora)",
}
# As vLLM asks for the cores that its threads are bound to (vllm/utils/cpu_resource_utils.py).
_LSCPU = ("lscpu", "--json", "--extended=CPU,CORE,NODE", "--online")
_LOAD = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"


def vllm_library(cpuinfo: str, machine: str) -> str:
    """Return the name of the library that vLLM's CPU build takes on a CPU (vllm/platforms/cpu.py, import_kernels)."""
    has = hardware.instructions(cpuinfo)
    if machine != "x86_64" or "avx512_bf16" in has:
        return "_C.abi3.so"
    return "_C_AVX512.abi3.so" if "avx512f" in has else "_C_AVX2.abi3.so"


def missing_of_engine() -> list[str]:
    """Return what an engine on this CPU needs and cannot have, in lines for a person; none with vLLM's GPU build."""
    if not server.is_cpu_build():
        return []
    vllm, torch = _folder("vllm"), _folder("torch")
    if not (vllm and torch):
        return ["vllm or torch: not installed; run: make setup"]
    library = os.path.join(vllm, vllm_library(hardware.cpuinfo(), platform.machine()))
    places = os.pathsep.join([os.path.join(torch, "lib"), os.environ.get("LD_LIBRARY_PATH", "")])
    load = _failure("vLLM", [sys.executable, "-Pc", _LOAD, library], LD_LIBRARY_PATH=places)
    return [line for line in (load, _failure("vLLM", _LSCPU)) if line]


def missing() -> list[str]:
    """Return what tables and figures need and cannot load, in lines for a person."""
    packages = {"tables": "pandas, pyarrow.parquet, scipy.stats", "figures": "matplotlib.backends.backend_agg"}
    lines = (_failure(who, [sys.executable, "-Pc", f"import {names}"]) for who, names in packages.items())
    return [line for line in lines if line]


def _folder(package: str) -> str:
    """Return the folder of an installed package, without importing it; "" if there is none."""
    spec = find_spec(package)
    return spec.submodule_search_locations[0] if spec and spec.submodule_search_locations else ""


def _failure(who: str, command: list[str] | tuple[str, ...], **variables: str) -> str:
    """Return why a command fails that `who` depends on, and what mends it; "" if it succeeds."""
    is_lscpu, environment = command == _LSCPU, os.environ | variables
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_SECONDS, env=environment
        )
    except subprocess.TimeoutExpired:
        return ""  # a slow disk is no fault
    except OSError as error:
        said = f"{command[0]}: {error.strerror}"
    else:
        if ran.returncode == 0 and (ran.stdout.strip() or not is_lscpu):
            return ""
        lines = ran.stderr.strip().splitlines() or [f"{command[0]}: exit status {ran.returncode}, and no output"]
        said = one_line(lines[0 if is_lscpu else -1], 300)
        if is_lscpu and not Path("/sys/devices/system/cpu").exists():
            return f"{who} cannot run here: there is no /sys, which lscpu reads; mount it into the container"
    remedy = next((remedy for name, remedy in _INSTALLED_BY.items() if name in said), "install what it names")
    return f"{who} cannot run here: {said.removeprefix('OSError: ')}; as root: {remedy}"


def main() -> None:
    """Print what is missing; exit with 1 if nothing runs without it."""
    engine, others = missing_of_engine(), missing()
    for line in (*engine, *others):
        print(f"missing: {line}")
    if engine:
        print("Until then models cannot be served here; scripted agents play, and models behind a URL.")
    sys.exit(1 if others else 0)


if __name__ == "__main__":
    main()
