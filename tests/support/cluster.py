"""A real SLURM on this machine: two nodes with two GPUs of gres each, accounting, preemption; by Debian's packages.

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
from support.studies import records_of
from support.workflows import PROFILE, SNAKEMAKE

INSTALL = "apt-get install slurm-wlm slurmdbd munge mariadb-server-core mariadb-client-core"
NODES = ("node1", "node2")
# What stands for the GPUs: gres wants device files that exist. Jobs see CUDA_VISIBLE_DEVICES, never a GPU.
GPU_DEVICES = ("/dev/null", "/dev/zero")
GPU_KIND = "nvidia_a100-sxm4-40gb"  # as SLURM names it by itself
_SECONDS = 180.0

_SLURM_CONF = """\
ClusterName=parley
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={controller_port}
# Loopback only.
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
# A job that is put back into the queue waits for as long as credentials last, else two minutes.
AuthInfo=socket={folder}/munge.socket,cred_expire=20
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePass={folder}/munge.socket
AccountingStoragePort={accounts_port}
AccountingStorageEnforce=limits,qos
# No cgroups: they want more than a container may have.
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
# Nodes may claim more cores than the machine has: tests play several jobs at once on two.
SlurmdParameters=config_overrides
ReturnToService=2
SchedulerParameters=sched_interval=2,batch_sched_delay=0
SchedulerTimeSlice=5
MinJobAge=300
KillWait=5
MessageTimeout=3
InactiveLimit=0
OverTimeLimit=0
GresTypes=gpu
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
{nodes}
PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=CANCEL
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=2 PreemptMode=OFF
"""
_SLURMDBD_CONF = """\
DbdHost=localhost
DbdPort={accounts_port}
SlurmUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
PidFile={folder}/slurmdbd.pid
LogFile={folder}/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser={user}
StorageLoc=accounts
"""


def missing_programs() -> list[str]:
    """Return the programs that are not installed; INSTALL brings them."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])
    names = ("munged", "slurmctld", "slurmd", "sbatch", "slurmdbd", "mariadbd", "mariadb-install-db", "mariadb")
    return [name for name in names if shutil.which(name, path=path) is None]


class Cluster:
    """The daemons of a cluster in a folder, each of which can be ended and started anew."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin"])
        # What finds the cluster, which is not where an installed one has its configuration.
        self.variables = {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": path}
        self._environment = {**os.environ, **self.variables, "MYSQL_UNIX_PORT": str(folder / "mariadb.socket")}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        munge = [f"--{name}={folder}/munge.{name.split('-')[0]}" for name in ("key-file", "log-file", "pid-file")]
        munge += [f"--seed-file={folder}/munge.seed", f"--socket={folder}/munge.socket"]
        mariadb = [
            f"--datadir={folder}/mariadb",
            f"--socket={folder}/mariadb.socket",
            f"--user={getpass.getuser()}",
            f"--tmpdir={folder}",
        ]
        self._commands = {
            "munged": ["munged", "--foreground", "--force", *munge],
            "mariadbd": ["mariadbd", "--no-defaults", *mariadb, "--skip-networking", "--skip-grant-tables"],
            "slurmdbd": ["slurmdbd", "-D"],
            "slurmctld": ["slurmctld", "-D"],
            **{node: ["slurmd", "-D", "-c", "-N", node] for node in NODES},
        }
        self._ready = {
            "munged": (folder / "munge.socket").exists,
            "mariadbd": lambda: self.runs("mariadb", "--no-defaults", "-e", "select 1"),
            "slurmdbd": lambda: self.runs("sacctmgr", "-n", "list", "cluster"),
            "slurmctld": lambda: self.runs("scontrol", "ping"),
            **{node: lambda node=node: self.asked("sinfo", "-hn", node, "-o%t").strip() == "idle" for node in NODES},
        }

    def start(self, name: str) -> None:
        """Start a daemon and wait until it answers."""
        with (self.folder / f"{name}.out").open("ab") as said:
            # A session of its own: Ctrl-C ends the jobs first, which needs the daemons.
            self._processes[name] = subprocess.Popen(
                self._commands[name],
                stdout=said,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
            )
        end = time.monotonic() + _SECONDS
        while not self._ready[name]():
            if time.monotonic() > end:
                said = [path.read_text(errors="replace")[-500:] for path in sorted(self.folder.glob(f"{name}.*o*"))]
                raise RuntimeError(f"{name} was not ready after {_SECONDS:.0f} s: {said}")
            time.sleep(0.2)

    def stop(self, name: str) -> None:
        """End a daemon."""
        process = self._processes.pop(name)
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def kill(self, name: str) -> None:
        """End a daemon as the death of its machine does."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def asked(self, *command: str) -> str:
        """Return what a command of SLURM's prints; nothing if it fails."""
        ran = subprocess.run(command, env=self._environment, capture_output=True, text=True, timeout=60, check=False)
        return "" if ran.returncode else ran.stdout

    def empty(self) -> None:
        """Cancel all jobs, and wait until they are gone."""
        self.asked("scancel", f"--user={getpass.getuser()}")
        end = time.monotonic() + 60
        while self.asked("squeue", "--noheader") and time.monotonic() < end:
            time.sleep(0.2)

    def runs(self, *command: str) -> bool:
        """Whether a command succeeds."""
        return (
            subprocess.run(command, env=self._environment, capture_output=True, timeout=60, check=False).returncode
            == 0
        )

    def write_configuration(self) -> None:
        folder = self.folder
        for name in ("state", *(f"spool/{node}" for node in NODES)):
            (folder / name).mkdir(parents=True)
        key = folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(128))
        controller, accounts, *ports = _free_ports(2 + len(NODES))
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
        what = (
            f"NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1 CPUs=16 RealMemory={memory} Gres=gpu:{GPU_KIND}:2"
        )
        values = {
            "folder": folder,
            "user": getpass.getuser(),
            "controller_port": controller,
            "accounts_port": accounts,
            "nodes": "\n".join(f"NodeName={node} Port={port} {what}" for node, port in zip(NODES, ports, strict=True)),
        }
        (folder / "slurm.conf").write_text(_SLURM_CONF.format(**values))
        (folder / "slurmdbd.conf").touch(mode=0o600)
        (folder / "slurmdbd.conf").write_text(_SLURMDBD_CONF.format(**values))
        devices = "".join(
            f"NodeName={','.join(NODES)} Name=gpu Type={GPU_KIND} File={device}\n" for device in GPU_DEVICES
        )
        (folder / "gres.conf").write_text(devices)
        (folder / "cgroup.conf").write_text("CgroupAutomount=no\n")


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """Run a cluster while the context lasts."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    made = Cluster(folder)
    made.write_configuration()
    install = ["mariadb-install-db", "--no-defaults", f"--datadir={folder}/mariadb", f"--user={getpass.getuser()}"]
    # With a temporary folder of its own: in one, several use the same names.
    subprocess.run([*install, "--skip-test-db", f"--tmpdir={folder}"], capture_output=True, check=True)
    with contextlib.ExitStack() as stack:
        for name in made._commands:
            made.start(name)
            stack.callback(lambda name=name: name in made._processes and made.stop(name))
            if name == "slurmdbd":
                for what in ("cluster parley", "account project", "qos long", "qos one MaxSubmitJobsPerUser=1"):
                    made.asked("sacctmgr", "-i", "add", *what.split())
                user = f"user {getpass.getuser()}"
                made.asked("sacctmgr", "-i", "add", *user.split(), "account=project")
                rights = "set defaultaccount=project qos=normal,long,one defaultqos=normal"
                made.asked("sacctmgr", "-i", "modify", *user.split(), *rights.split())
        try:
            yield made
        finally:
            made.empty()


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for opened in sockets:
            opened.bind(("127.0.0.1", 0))
        return [opened.getsockname()[1] for opened in sockets]


# Studies on the test cluster: starting the command, its jobs, its records, and what must not be left


WITHOUT_SLURM = pytest.mark.skipif(
    bool(missing_programs()),
    reason=f"SLURM is not installed ({', '.join(missing_programs())}): {INSTALL}",
)
# Less patience than a real cluster needs.
HERE = ["--slurm-init-seconds-before-status-checks", "3"]
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
# No tables and figures, where what is played matters alone.
PLAY = ["--until", "simulate", "simulate_shard"]


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


def finish(controller: subprocess.Popen[bytes], seconds: float = 900.0) -> None:
    """Wait until the command ends; it has to succeed."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        controller.wait(timeout=seconds)
    if controller.poll() is None:
        controller.kill()
        controller.wait()
    assert controller.returncode == 0, output()[-6000:]


def wait_for(condition: Callable[[], Any], controller: subprocess.Popen[bytes]) -> Any:
    """Return what `condition` gives once it is true; the command must still run until then."""
    end = time.monotonic() + 600
    while not (value := condition()):
        assert controller.poll() is None, output()[-6000:]
        assert time.monotonic() < end, output()[-6000:]
        time.sleep(0.1)
    return value


def digests(study: Study) -> list[str]:
    return [read_summary(record).digest for record in records_of(study)]


def undisturbed(study: Study, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the digests of the same simulations, played one after the other in this process."""
    elsewhere.mkdir()
    with monkeypatch.context() as patch:
        patch.chdir(elsewhere)
        for record in records_of(study):
            simulate(study, record, [], 1.0)
        return digests(study)


def journal_lines(study: Study) -> dict[Path, int]:
    """Return how many replies the journal of each unfinished simulation holds."""
    found = {}
    for record in records_of(study):
        journal = paths.journal(record)
        if journal.exists():
            found[journal] = journal.read_bytes().count(b"\n") - 1
    return found


def all_begun(study: Study) -> bool:
    """Whether all simulations are being played at this moment, each with some hundred replies in its journal."""
    lines = journal_lines(study)
    return len(lines) == len(records_of(study)) and min(lines.values()) > 300


def hold_begun(study: Study, held: set[int]) -> int:
    """Stop (SIGSTOP) each simulation that has begun, add its processes to `held`; return how many have begun."""
    begun = [record for record in records_of(study) if journal_lines(study).get(paths.journal(record), 0) >= 2]
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
    allowed = {"simulations", "conditions.parquet", "processes", "tables", "metrics", "figures", "report", "view"}
    assert {path.parts[2] for path in left} == allowed
    assert {path.name for path in left if path.name.startswith(".")} == {paths.listing(Path()).name}
    # The lock's file stays, but nobody holds it: the same command starts again, and has nothing to do.
    again = subprocess.run([*COMMAND, "--config", "study=study.yaml"], capture_output=True, text=True, check=False)
    assert "Nothing to be done" in again.stdout + again.stderr


# Code of the user's own, since it has a journal for each simulation, as what a server answers has. Nobody ever stops,
# so that a game lasts its rounds; and each takes seconds, so that there is time to disturb it.
OWN = {"name": "keeps_agent:Keeps", "vote": "continue"}
LONG = {"model": OWN, "n": 40, "prompt": "may_exist"}
