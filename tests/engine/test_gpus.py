"""GPUs that servers take: free ones, of their own, until they end. No GPU is needed to tell them apart."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from parley.engine.gpus import VISIBLE, take_gpus, visible_gpus
from parley.errors import EngineError

pytestmark = pytest.mark.slow

SERVER = """
import logging, os, sys
from parley.engine.gpus import take_gpus
logging.basicConfig(format="%(message)s", stream=sys.stdout)
take_gpus(int(sys.argv[1]), float(sys.argv[2]))
print(os.environ.get("CUDA_VISIBLE_DEVICES"), flush=True)
sys.stdin.read()
"""
Take = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def take(monkeypatch: pytest.MonkeyPatch) -> Iterator[Take]:
    """Start a process that takes GPUs and keeps them."""
    monkeypatch.setenv("SLURM_JOB_ID", f"test-{os.getpid()}")
    started = []

    def start(count: int, seconds: float = 0.0) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", SERVER, str(count), str(seconds)]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_servers_take_gpus_of_their_own_until_they_end(take: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VISIBLE, "0,GPU-b,2,3")
    first, second = take(1), take(2)
    names = [said(first), said(second)]
    assert sorted(",".join(names).split(",")) == ["0", "2", "GPU-b"]
    last = take(1)
    assert said(last) == "3"
    waiting = take(1, 60)
    freed = names[0]
    first.kill()
    assert said(waiting) == freed
    # In another cluster job the same numbers are other GPUs.
    monkeypatch.setenv("SLURM_JOB_ID", f"other-{os.getpid()}")
    assert said(take(1)) == "0"


def test_where_all_are_taken_some_are_shared_and_a_line_says_so(take: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VISIBLE, "0,1")
    assert said(take(1)) == "0"
    both = take(2)
    assert said(both) == "other servers have too many of the GPUs 0,1; this one shares 0,1"
    assert said(both) == "0,1"
    assert said(take(1)) == "1"  # whoever shares has taken none


def test_gpus_that_are_not_there(take: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VISIBLE, "0,1")
    with pytest.raises(EngineError, match="needs 3 GPUs, and its job or machine has 2; ask for more"):
        take_gpus(3)
    monkeypatch.setenv("PATH", "")  # no nvidia-smi
    monkeypatch.delenv(VISIBLE)
    assert visible_gpus() == []
    take_gpus(3)
    assert VISIBLE not in os.environ
