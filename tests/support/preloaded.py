"""`snakemake` and `parley` as processes of their own, whose libraries were imported before.

A start of Snakemake takes 3 s and one of `parley` 1 to 3 s, nearly all of it for the import of libraries. So a server
imports those once, and forks a process for each start. Parley's own code is imported anew in each. `programs()` is a
folder for the front of PATH: tests, Snakemake's jobs and DVC's stages then start them so.

A process has the arguments, environment, working directory and open files of its caller; it is sent the same signals,
and dies with it. It differs from a real one in this: all of one server have the same hash seed, and `ps` calls them
by the server's name. Tests on the real model, on SLURM and of SIGKILL start real ones.
"""

import atexit
import gc
import importlib
import json
import os
import select
import shutil
import signal
import site
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

LIBRARIES = (
    "snakemake.cli",
    *("pandas", "pyarrow.compute", "pyarrow.dataset", "pyarrow.parquet", "scipy.stats", "networkx"),
    *("matplotlib.figure", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg"),
    *("click", "cryptography.hazmat.primitives.asymmetric.ed25519", "aiohttp", "jinja2", "pydantic"),
)
ENTRIES = {"parley": "parley.cli", "snakemake": "snakemake.cli"}  # program: the module with its main()
# -I and -S: nothing but the standard library, for a start of 15 ms.
_CLIENT = """\
#!{python} -IS
import json, os, signal, socket, sys
message = json.dumps([{program!r}, sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
with socket.socket(socket.AF_UNIX) as server:
    server.connect({socket!r})
    socket.send_fds(server, [len(message).to_bytes(4)], [0, 1, 2])
    server.sendall(message)
    process = int.from_bytes(server.recv(4, socket.MSG_WAITALL))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, frame: os.kill(process, number))
    status = int.from_bytes(server.recv(4, socket.MSG_WAITALL), signed=True)
if status < 0:
    signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
sys.exit(status)
"""


@cache
def programs() -> Path:
    """Return the folder that holds `parley` and `snakemake`; the first call starts the server, which ends with us."""
    folder = Path(tempfile.mkdtemp(prefix="parley-tests-"))
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "socket"))
        listening.listen(64)  # callers wait while libraries are imported
        number = listening.fileno()
        command = [sys.executable, __file__, str(number)]
        server = subprocess.Popen(command, env=variables, stdin=subprocess.PIPE, pass_fds=[number])

    def end() -> None:
        assert server.stdin is not None
        server.stdin.close()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    for program in ENTRIES:
        file = folder / "bin" / program
        file.parent.mkdir(exist_ok=True)
        file.write_text(_CLIENT.format(python=sys.executable, program=program, socket=str(folder / "socket")))
        file.chmod(0o755)
    return folder / "bin"


def preloaded_environment() -> dict[str, str]:
    """Return our environment with the preloaded programs first."""
    return {**os.environ, "PATH": os.pathsep.join([str(programs()), os.environ.get("PATH", os.defpath)])}


# What follows runs in the server and in the processes that it forks.


def _serve(number: int) -> Callable[[], Any] | None:
    """Fork a process for each start that is asked for; return its main(), and None in the server, at its end."""
    with socket.socket(fileno=number) as listening:
        for library in LIBRARIES:
            importlib.import_module(library)
        gc.freeze()
        keepers: set[int] = set()
        while True:
            ready, _, _ = select.select([listening, sys.stdin], [], [])
            if sys.stdin in ready:  # closed by our parent, or by its death
                return None
            caller, _ = listening.accept()
            keepers -= {keeper for keeper in keepers if os.waitpid(keeper, os.WNOHANG)[0]}
            if (keeper := os.fork()) == 0:
                break
            keepers.add(keeper)
            caller.close()
    return _keep(caller)


def _keep(caller: socket.socket) -> Callable[[], Any]:
    """Fork what a caller asks for, and return its main() there; here tell its end, or kill it with the caller."""
    head, files, _, _ = socket.recv_fds(caller, 4, 3)
    size, message = int.from_bytes(head), b""
    while len(message) < size:
        if not (more := caller.recv(size - len(message))):
            os._exit(1)  # the caller died
        message += more
    process = os.fork()
    if process == 0:
        caller.close()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        return _become(*json.loads(message))
    caller.sendall(process.to_bytes(4))
    ended = os.pidfd_open(process)
    ready, _, _ = select.select([ended, caller], [], [])
    if ended not in ready:
        os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    if ended in ready:
        caller.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, signed=True))
    os._exit(0)


def _become(program: str, arguments: list[str], folder: str, variables: dict[str, str]) -> Callable[[], Any]:
    """Make of this process what a real start would be, and return its main()."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    sys.argv = [program, *arguments]
    sys.orig_argv[1:] = ["-m", program, *arguments]  # who starts it anew starts a real one
    paths = [part for part in variables.get("PYTHONPATH", "").split(os.pathsep) if part]
    sys.path[:] = [str(Path(sys.executable).parent), *paths, *sys.path[1:]]
    sys.dont_write_bytecode = bool(variables.get("PYTHONDONTWRITEBYTECODE"))
    importlib.invalidate_caches()
    sys.modules.pop("sitecustomize", None)
    site.execsitecustomize()
    main: Callable[[], Any] = importlib.import_module(ENTRIES[program]).main
    return main


if __name__ == "__main__":
    if main := _serve(int(sys.argv[1])):
        sys.exit(main())
