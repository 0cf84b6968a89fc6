"""Studies on the test cluster: starting the command, its jobs, its records, and what must not be left."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from parley import paths
from parley.play.record import read_summary
from parley.play.simulate import simulate
from parley.study import Study, load_study
from support import REPOSITORY
from support.cluster import missing_programs
from support.workflows import PROFILE, SNAKEMAKE

WITHOUT_SLURM = pytest.mark.skipif(
    bool(missing_programs()),
    reason=f"SLURM is not installed ({', '.join(missing_programs())}): apt-get install slurm-wlm munge",
)
# What this cluster lacks (accounting), and less patience than a real one needs.
HERE = ["--slurm-status-command", "squeue", "--slurm-no-account", "--slurm-init-seconds-before-status-checks", "3"]
IMPATIENT = [sys.executable, str(REPOSITORY / "tests" / "support" / "impatient.py")]
COMMAND = [*IMPATIENT, *SNAKEMAKE[3:], *PROFILE, "--profile", "slurm", *HERE]


def write(*grids: dict[str, Any], models: dict[str, Any] | None = None, **content: Any) -> Study:
    if models is not None:
        Path("models.yaml").write_text(yaml.safe_dump({"models": models}))
    Path("study.yaml").write_text(yaml.safe_dump({"game": "consensus", **content, "grids": list(grids)}))
    return load_study(Path("study.yaml"))


def start(*options: str) -> subprocess.Popen[bytes]:
    """Start the command; its output is appended to controller.log."""
    with Path("controller.log").open("ab") as log:
        return subprocess.Popen(
            [*COMMAND, *options, "--config", "study=study.yaml"], stdout=log, stderr=subprocess.STDOUT
        )


def output() -> str:
    return Path("controller.log").read_text(errors="replace")


def finish(controller: subprocess.Popen[bytes], seconds: float = 420.0) -> None:
    """Wait until the command ends; it has to succeed."""
    try:
        assert controller.wait(timeout=seconds) == 0, output()[-6000:]
    finally:
        if controller.poll() is None:
            controller.kill()


def wait_for(condition: Callable[[], Any], controller: subprocess.Popen[bytes], seconds: float = 600.0) -> Any:
    """Return what `condition` gives once it is true; the command must still run until then."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert controller.poll() is None, output()[-6000:]
        assert time.monotonic() < end, output()[-6000:]
        time.sleep(0.1)
    return value


def records(study: Study) -> list[Path]:
    return [simulation.record(study.name) for simulation in study.simulations()]


def digests(study: Study) -> list[str]:
    return [read_summary(record).digest for record in records(study)]


def undisturbed(study: Study, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the digests of the same simulations, played one after the other in this process."""
    elsewhere.mkdir()
    with monkeypatch.context() as patch:
        patch.chdir(elsewhere)
        for record in records(study):
            simulate(study, record, [], 1.0)
        return digests(study)


def journal_lines(study: Study) -> dict[Path, int]:
    """Return how many replies the journal of each unfinished simulation holds."""
    found = {}
    for record in records(study):
        journal = paths.journal(record)
        if journal.exists():
            found[journal] = journal.read_bytes().count(b"\n") - 1
    return found


def all_begun(study: Study) -> bool:
    """Whether all simulations are being played at this moment, each with some hundred replies in its journal."""
    lines = journal_lines(study)
    return len(lines) == len(records(study)) and min(lines.values()) > 300


def hold_begun(study: Study, held: set[int]) -> int:
    """Stop (SIGSTOP) each simulation that has begun, add its processes to `held`; return how many have begun."""
    begun = [record for record in records(study) if journal_lines(study).get(paths.journal(record), 0) >= 2]
    for record in begun:
        for process in processes("parley", "simulate", str(record)):
            os.kill(process, signal.SIGSTOP)
            held.add(process)
    return len(begun)


def running() -> dict[str, str]:
    """Return the running jobs: what they are for, by id."""
    listed = subprocess.run(
        ["squeue", "--noheader", "--states=RUNNING", "--format=%i %k"], capture_output=True, text=True, check=True
    ).stdout
    return dict(line.split(maxsplit=1) for line in listed.splitlines())


def submitted_jobs() -> list[str]:
    return re.findall(r"submitted with SLURM jobid (\d+)", output())


def job_fields(job: str) -> dict[str, str]:
    shown = subprocess.run(["scontrol", "show", "job", job], capture_output=True, text=True, check=True).stdout
    return dict(re.findall(r"(\w+)=(\S+)", shown))


def sockets() -> str:
    """The folder of the sockets, which the commands of servers name."""
    return os.environ["TMPDIR"]


def processes(*words: str) -> list[int]:
    """Return the processes whose command line has all of `words`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if all(word in command for word in words):
                found.append(int(entry.name))
    return found


def assert_nothing_is_left(folder: Path, study: Study) -> None:
    assert not running()
    assert not processes(str(folder))
    assert not processes(sockets())
    assert not [path for path in Path(sockets()).rglob("*") if path.is_socket()]
    left = [path for path in paths.results(study.name).rglob("*") if path.is_file()]
    allowed = {"simulations", "tables", "metrics", "figures", "report", "view"}
    assert {path.parts[2] for path in left} == allowed
    assert not [path for path in left if path.name.startswith(".")]
    # The lock's file stays, but nobody holds it: the same command starts again, and has nothing to do.
    again = subprocess.run([*COMMAND, "--config", "study=study.yaml"], capture_output=True, text=True, check=False)
    assert "Nothing to be done" in again.stdout + again.stderr


# Code of the user's own, since it has a process and a journal for each simulation, as what a server answers has.
OWN_CODE = """
import json

from parley.policies import Completion


class Stubborn:
    async def answer(self, ask, seed, attempt):
        reply = {"internal_strategy": "none", "value": ask.view.current_value, "public_reasoning": "none"}
        return Completion(json.dumps({"decision": "continue"} if ask.phase == "vote" else reply), "stop")
"""
# Nobody ever agrees, so that a game lasts its rounds; and each takes seconds, so that there is time to disturb it.
OWN = "stubborn_agent:Stubborn"
LONG = {"model": OWN, "n": 40, "prompt": "may_exist"}
