"""A real SLURM on this machine: one node with two GPUs of gres, from Debian's packages.

By hand:  python tests/support/cluster.py FOLDER     (it prints what to export; Ctrl-C stops it)

All daemons are children of this process, run as its user, listen on loopback, and keep their files in FOLDER; nothing
outside of it is written.
"""

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

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
