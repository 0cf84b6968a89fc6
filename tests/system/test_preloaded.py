import signal
import subprocess
import time
from pathlib import Path

import pytest

from support.preloaded import preloaded_environment, programs

pytestmark = pytest.mark.slow

# A process of this server is the program that a caller names, so a file that Python runs at its start stands for it.
START = "import os, sys, signal, time\nif os.environ.get('DO'): exec(os.environ['DO'])\n"


def started(folder: Path, do: str) -> subprocess.Popen[str]:
    (folder / "sitecustomize.py").write_text(START)
    return subprocess.Popen(
        [programs() / "parley", "a b", "--c"],
        env=preloaded_environment() | {"PYTHONPATH": str(folder), "DO": do},
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_it_has_what_its_caller_has_and_gives_what_it_gives(tmp_path: Path) -> None:
    do = "print(sys.argv[1:], os.getcwd(), input()); print('pandas' in sys.modules, 'parley' in sys.modules); "
    process = started(tmp_path, do + "print('bad', file=sys.stderr); sys.exit(7)")
    out, err = process.communicate("typed\n", timeout=60)
    assert out.splitlines() == [f"['a b', '--c'] {tmp_path} typed", "True False"]
    assert (err, process.returncode) == ("bad\n", 7)


def test_it_is_sent_its_callers_signals(tmp_path: Path) -> None:
    caught = started(tmp_path, "signal.signal(15, lambda *_: sys.exit(9)); print(0, flush=True); time.sleep(60)")
    uncaught = started(tmp_path, "print(0, flush=True); time.sleep(60)")
    for process, status in ((caught, 9), (uncaught, -signal.SIGTERM)):
        assert process.stdout is not None
        assert process.stdout.readline() == "0\n"
        process.terminate()
        process.communicate(timeout=60)
        assert process.returncode == status


def test_it_dies_with_its_caller(tmp_path: Path) -> None:
    process = started(tmp_path, "print(os.getpid(), flush=True); time.sleep(60)")
    assert process.stdout is not None
    found = Path("/proc") / process.stdout.readline().strip()
    assert found.exists()
    process.kill()
    process.communicate(timeout=60)
    end = time.monotonic() + 20
    while found.exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert not found.exists()
