"""What an engine on a CPU needs of this machine that no package brings, looked for before anybody waits for it.

    python -m parley.engine.needs       # prints what is missing, a line each, with what installs it

vLLM itself only warns of a library that it cannot load, and dies minutes later of something else.
"""

import ctypes
import shutil

from parley.engine import server

_LIBRARY = "libnuma.so.1"
_INSTALLED_BY = {
    _LIBRARY: "apt-get install libnuma1 (Debian, Ubuntu) or dnf install numactl-libs (Fedora)",
    "lscpu": "apt-get install util-linux (Debian, Ubuntu) or dnf install util-linux (Fedora)",
}


def missing_of_engine() -> list[str]:
    """Return what an engine on this CPU needs and cannot have, in lines for a person; none with vLLM's GPU build."""
    if not server.is_cpu_build():
        return []
    missing = [] if shutil.which("lscpu") else ["lscpu"]
    try:
        ctypes.CDLL(_LIBRARY)
    except OSError:
        missing.insert(0, _LIBRARY)
    return [f"vLLM cannot run here without {name}; as root: {_INSTALLED_BY[name]}" for name in missing]


if __name__ == "__main__":
    for line in missing_of_engine():
        print(f"missing: {line}")
