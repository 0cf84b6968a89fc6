"""A real SLURM on this machine: one node with two GPUs of gres, from Debian's packages.

By hand:  python tests/support/cluster.py FOLDER     (it prints what to export; Ctrl-C stops it)

All daemons are children of this process, run as its user, listen on loopback, and keep their files in FOLDER; nothing
outside of it is written.
"""

import contextlib
import getpass
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from parley import paths
from parley.play.record import read_summary
from parley.play.simulate import simulate
from parley.study import Study, load_study
from support.workflows import PROFILE, SNAKEMAKE

DAEMONS = ("munged", "slurmctld", "slurmd")
# What stands for the GPUs: gres wants device files that exist. Jobs see CUDA_VISIBLE_DEVICES, never a GPU.
GPU_DEVICES = ("/dev/null", "/dev/zero")
_SECONDS = 180.0

_SLURM_CONF = """\
ClusterName=parley
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
# Loopback only.
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
# No cgroups, no accounting: they want more than a container may have.
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
# The node may claim more cores than the machine has: tests play several jobs at once on two.
SlurmdParameters=config_overrides
ReturnToService=2
SchedulerParameters=sched_interval=2,batch_sched_delay=0
SchedulerTimeSlice=5
MinJobAge=300
KillWait=5
InactiveLimit=0
OverTimeLimit=0
GresTypes=gpu
NodeName=node NodeHostname={host} NodeAddr=127.0.0.1 CPUs=16 RealMemory={memory} Gres=gpu:2 State=UNKNOWN
PartitionName=gpu Nodes=node Default=YES MaxTime=INFINITE State=UP
"""


def missing_programs() -> list[str]:
    """Return the daemons that are not installed; `apt-get install slurm-wlm munge` brings them."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])
    return [name for name in (*DAEMONS, "sbatch") if shutil.which(name, path=path) is None]


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[dict[str, str]]:
    """Run the cluster while the context lasts; give the environment that its commands need."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    _write_configuration(folder)
    environment = {**os.environ, **_variables(folder)}
    with contextlib.ExitStack() as stack:
        key, munge_socket = folder / "munge.key", folder / "munge.socket"
        munge_files = [f"--{name}-file={folder}/munge.{name}" for name in ("log", "pid", "seed")]
        munge = ["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={munge_socket}", *munge_files]
        stack.enter_context(_daemon(munge, folder, environment))
        _wait(munge_socket.exists, "munged", folder)
        stack.enter_context(_daemon(["slurmctld", "-D", "-c"], folder, environment))
        stack.enter_context(_daemon(["slurmd", "-D", "-c", "-N", "node"], folder, environment))
        _wait(lambda: _node_is_idle(environment), "slurmd", folder)
        try:
            yield environment
        finally:
            with contextlib.suppress(subprocess.SubprocessError):
                subprocess.run(["scancel", "--partition=gpu"], env=environment, timeout=30, check=False)
                _wait(lambda: not jobs(environment), "scancel", folder)


def jobs(environment: dict[str, str]) -> list[str]:
    """Return the ids of the jobs that run or wait."""
    listed = subprocess.run(
        ["squeue", "--noheader", "--format=%i"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return listed.stdout.split()


def _variables(folder: Path) -> dict[str, str]:
    """Return what finds the cluster, which is not where an installed one has its configuration."""
    path = os.pathsep.join([str(folder / "bin"), os.environ.get("PATH", os.defpath), "/usr/sbin"])
    return {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": path}


def _write_configuration(folder: Path) -> None:
    # Snakemake's job step drops SLURM_CONF before it calls srun.
    srun = folder / "bin" / "srun"
    srun.parent.mkdir(exist_ok=True)
    real = shutil.which("srun") or "/usr/bin/srun"
    srun.write_text(f'#!/bin/sh\nSLURM_CONF={folder}/slurm.conf exec {real} "$@"\n')
    srun.chmod(0o755)
    for name in ("state", "spool"):
        (folder / name).mkdir(exist_ok=True)
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(128))
    controller_port, node_port = _free_ports(2)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    (folder / "slurm.conf").write_text(
        _SLURM_CONF.format(
            folder=folder,
            user=getpass.getuser(),
            host=socket.gethostname(),
            controller_port=controller_port,
            node_port=node_port,
            memory=memory,
        )
    )
    devices = "".join(f"NodeName=node Name=gpu File={device}\n" for device in GPU_DEVICES)
    (folder / "gres.conf").write_text(devices)
    (folder / "cgroup.conf").write_text("CgroupAutomount=no\n")


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for opened in sockets:
            opened.bind(("127.0.0.1", 0))
        return [opened.getsockname()[1] for opened in sockets]


@contextlib.contextmanager
def _daemon(command: list[str], folder: Path, environment: dict[str, str]) -> Iterator[None]:
    with (folder / f"{command[0]}.out").open("wb") as output:
        # A session of its own: Ctrl-C ends the jobs first, which needs the daemons.
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _node_is_idle(environment: dict[str, str]) -> bool:
    command = ["sinfo", "--noheader", "--format=%t"]
    listed = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
    return listed.stdout.strip() == "idle"


def _wait(condition, what: str, folder: Path) -> None:  # type: ignore[no-untyped-def]
    end = time.monotonic() + _SECONDS
    while not condition():
        if time.monotonic() > end:
            said = [path.read_text(errors="replace")[-500:] for path in sorted(folder.glob(f"{what}.*o*"))]
            raise RuntimeError(f"{what} was not ready after {_SECONDS:.0f} s: {said}")
        time.sleep(0.2)


def main() -> None:
    """Run a cluster in the folder given until Ctrl-C."""
    if missing := missing_programs():
        sys.exit(f"not installed: {', '.join(missing)}; run: apt-get install slurm-wlm munge")
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1]).resolve()
    for number in (signal.SIGTERM, signal.SIGINT):  # the latter is ignored by what a script starts in the background
        signal.signal(number, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt), cluster(folder):
        print(f"export SLURM_CONF={folder}/slurm.conf PATH={folder}/bin:$PATH", flush=True)
        signal.pause()


if __name__ == "__main__":
    main()


# Studies on the test cluster: starting the command, its jobs, its records, and what must not be left


WITHOUT_SLURM = pytest.mark.skipif(
    bool(missing_programs()),
    reason=f"SLURM is not installed ({', '.join(missing_programs())}): apt-get install slurm-wlm munge",
)
# What this cluster lacks (accounting), and less patience than a real one needs.
HERE = ["--slurm-status-command", "squeue", "--slurm-no-account", "--slurm-init-seconds-before-status-checks", "3"]
# Snakemake, which asks SLURM for its jobs every second: its plugin waits 10 s longer after each question.
_ASKING = """
import asyncio, sys
from snakemake.cli import main
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor

async def sleep(executor):
    await asyncio.sleep(1)

RemoteExecutor.sleep = sleep
sys.exit(main())
"""
IMPATIENT = [sys.executable, "-c", _ASKING]
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
