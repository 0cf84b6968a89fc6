"""The workflow on a real SLURM (one node, two GPUs of gres): its jobs, and the deaths that they can die.

`make test-slow` runs them. Where SLURM is not installed, they are skipped and say so.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from parley import paths
from parley.play.record import read_summary
from parley.play.replay import replay
from parley.play.simulate import simulate
from parley.study import Study, load_study
from support import REPOSITORY
from support.cluster import cluster, jobs, missing_programs
from support.models import share_models
from support.workflows import PROFILE, SNAKEMAKE

pytestmark = [
    pytest.mark.rare,
    pytest.mark.skipif(
        bool(missing_programs()),
        reason=f"SLURM is not installed ({', '.join(missing_programs())}): apt-get install slurm-wlm munge",
    ),
]
# What this cluster lacks (accounting), and less patience than a real one needs.
HERE = ["--slurm-status-command", "squeue", "--slurm-no-account", "--slurm-init-seconds-before-status-checks", "3"]
IMPATIENT = [sys.executable, str(REPOSITORY / "tests" / "support" / "impatient.py")]
COMMAND = [*IMPATIENT, *SNAKEMAKE[3:], *PROFILE, "--profile", "slurm", *HERE]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment in which the cluster's commands work."""
    with cluster(tmp_path_factory.mktemp("cluster")) as environment:
        yield environment


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slurm: dict[str, str]) -> Iterator[Path]:
    """A working directory with the repository's profile, models file and prepared models."""
    monkeypatch.chdir(tmp_path)
    for name in ("SLURM_CONF", "PATH"):
        monkeypatch.setenv(name, slurm[name])
    # Sockets go here, so that what is left of them is seen; tmp_path is too long for them.
    monkeypatch.setenv("TMPDIR", tempfile.mkdtemp(prefix="sockets-"))
    shutil.copytree(REPOSITORY / "slurm", tmp_path / "slurm")
    (tmp_path / "stubborn_agent.py").write_text(OWN_CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    share_models(tmp_path)
    yield tmp_path
    for job in jobs(slurm):
        subprocess.run(["scancel", job], check=True)
    shutil.rmtree(sockets())


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


KINDS = pytest.mark.parametrize("kind", ["group", "single"])


def test_a_shard_of_scripted_agents_is_one_job_that_a_new_controller_waits_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = write({"model": "stubborn", "n": 40, "prompt": "may_exist"}, seeds=40, parameters={"max_rounds": 50})
    controller = start()
    wait_for(lambda: any(record.exists() for record in records(study)), controller)
    controller.kill()
    controller.wait()
    [job] = running()
    assert running()[job].startswith("rule_study=scripted=0_simulate_shard")
    kept = {record: record.stat().st_ino for record in records(study) if record.exists()}
    finish(start())
    assert "1 cluster jobs of an earlier run of this study are still there" in output()
    assert submitted_jobs() == [job]
    assert "gpu" not in job_fields(job).get("TresPerJob", "")
    assert {record: record.stat().st_ino for record in kept} == kept
    assert_nothing_is_left(folder, study)
    assert digests(study) == undisturbed(study, folder / "undisturbed", monkeypatch)


def test_each_shard_is_one_cluster_job(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = write(
        {"model": OWN, "n": [4, 8], "prompt": ["may_exist", "none_exist"]},
        {"model": OWN, "honest": 4, "b": [1, 2], "prompt": "may_exist", "byzantine": "random"},
        seeds=4,
        shard_size=12,
        parameters={"max_rounds": 6},
    )
    finish(start())
    first, second = (job_fields(job) for job in submitted_jobs())
    for asked in (first, second):
        assert asked["TRES"].startswith("cpu=8,mem=3200M")  # 8 of the 12 at once, as the profile's cores say
        assert asked["Requeue"] == "1"
        assert asked["TimeLimit"] == "00:21:00"  # two turns of 10 minutes, and the gathering
        assert "gpu" not in asked.get("TresPerJob", "")
    assert first["StartTime"] < second["EndTime"]
    assert second["StartTime"] < first["EndTime"]
    assert_nothing_is_left(folder, study)
    assert digests(study) == undisturbed(study, folder / "undisturbed", monkeypatch)


def test_a_killed_simulation_and_a_canceled_job_are_retried(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = write(LONG, seeds=4, shard_size=2, parameters={"max_rounds": 300})
    controller = start()
    wait_for(lambda: all_begun(study), controller)
    before = running()
    victim = processes("simulate", "study.yaml", str(records(study)[0]))
    os.kill(victim[-1], signal.SIGKILL)
    canceled = next(job for job, comment in before.items() if comment.startswith("rule_study=own_code=1_"))
    subprocess.run(["scancel", canceled], check=True)
    finish(controller)
    assert set(submitted_jobs()) > set(before)
    resumed = [log.read_text() for log in paths.log("study", "simulate").with_suffix("").rglob("seed=*.log")]
    assert sum("going on from the journal" in text for text in resumed) >= 3
    assert_nothing_is_left(folder, study)
    assert digests(study) == undisturbed(study, folder / "undisturbed", monkeypatch)


def test_a_job_over_its_time_limit_goes_on_in_the_next(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = write(LONG, seeds=2, shard_size=2, parameters={"max_rounds": 200})
    profile = Path("slurm/profile.yaml")
    content = yaml.safe_load(profile.read_text())
    profile.write_text(yaml.safe_dump(content | {"set-resources": ["simulate:runtime=1", "gather_shard:runtime=0"]}))
    controller = start()
    wait_for(lambda: all_begun(study), controller)
    for process in processes("simulate", "study.yaml", str(records(study)[0])):
        os.kill(process, signal.SIGSTOP)  # it will not be done in time, however fast the machine is
    finish(controller)
    first, second = (job_fields(job) for job in submitted_jobs())
    assert (first["JobState"], first["TimeLimit"]) == ("TIMEOUT", "00:01:00")
    assert second["JobState"] == "COMPLETED"
    log = paths.log("study", "simulate", *records(study)[0].with_suffix("").parts[3:])
    assert "going on from the journal" in log.read_text()
    assert_nothing_is_left(folder, study)
    assert digests(study) == undisturbed(study, folder / "undisturbed", monkeypatch)


def test_the_jobs_of_a_killed_controller_are_waited_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = write(LONG, seeds=4, shard_size=2, parameters={"max_rounds": 300})
    controller = start()
    wait_for(lambda: all_begun(study), controller)
    controller.kill()
    controller.wait()
    before = set(running())
    assert len(before) == 2
    finish(start())
    assert "2 cluster jobs of an earlier run of this study are still there" in output()
    # They did the work: no other job was sent.
    assert set(submitted_jobs()) == before
    assert_nothing_is_left(folder, study)
    assert digests(study) == undisturbed(study, folder / "undisturbed", monkeypatch)


def test_a_requeued_job_goes_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = write(LONG, seeds=2, shard_size=2, parameters={"max_rounds": 200})
    controller = start()
    wait_for(lambda: all_begun(study), controller)
    [job] = submitted_jobs()
    subprocess.run(["scontrol", "requeue", job], check=True)  # as SLURM does when a node dies
    wait_for(lambda: job_fields(job)["JobState"] == "PENDING", controller)
    subprocess.run(["scontrol", "update", f"JobId={job}", "StartTime=now"], check=True)  # else in two minutes
    finish(controller)
    assert submitted_jobs() == [job]
    assert job_fields(job)["Restarts"] == "1"
    log = paths.log("study", "simulate", *records(study)[0].with_suffix("").parts[3:])
    assert "going on from the journal" in log.read_text()
    assert_nothing_is_left(folder, study)
    assert digests(study) == undisturbed(study, folder / "undisturbed", monkeypatch)


def requested_seeds(study: Study) -> Counter[int]:
    """Return how often each sampling seed was sent to an engine, by the logs of all of them."""
    logs = paths.log("study", "serve").with_suffix("").rglob("*.log.*")
    return Counter(int(seed) for log in logs for seed in re.findall(r"Received request.*?seed=(\d+)", log.read_text()))


@pytest.mark.model
@KINDS
def test_a_failed_job_says_its_cause_its_state_its_node_and_how_it_was_submitted(folder: Path, kind: str) -> None:
    grid = {"model": OWN if kind == "group" else "stubborn", "n": 4, "prompt": "may_exist"}
    study = write(grid, seeds=2, parameters={"max_rounds": 2})
    blocked = paths.journal(records(study)[0]) if kind == "group" else records(study)[0].parent
    blocked.parent.mkdir(parents=True, exist_ok=True)
    blocked.mkdir() if kind == "group" else blocked.touch()
    controller = start("--retries", "0")
    assert controller.wait(timeout=240) == 1, output()
    said = output()
    [job] = submitted_jobs()
    assert re.search(rf"^  SLURM job {job}: FAILED on node, exit code \d+:\d+$", said, flags=re.M), said
    assert re.search(r"^  sbatch --parsable .*--cpus-per-task=.* --wrap=\.\.\.$", said, flags=re.M), said
    assert re.search(rf"^    parley: .*{re.escape(str(blocked.parent))}", said, flags=re.M), said
    assert "Traceback" not in said


def test_a_study_that_is_edited_while_its_jobs_wait_says_so(folder: Path) -> None:
    grid = {"model": OWN, "n": 8, "prompt": "may_exist"}
    content = {"seeds": 2, "shard_size": 1, "parameters": {"max_rounds": 60}}
    planned = write(grid, **content)
    controller = start("--retries", "0", "--jobs", "1")
    wait_for(lambda: journal_lines(planned), controller)
    edited = write(grid, **content | {"parameters": {"max_rounds": 3}})
    assert controller.wait(timeout=240) == 1, output()
    assert "study.yaml changed while it ran" in output()
    assert output().splitlines()[-1].startswith("study: ") or "changed while it ran" in output().splitlines()[-1]
    assert sum(record.exists() for record in records(planned)) == 1
    assert not any(record.exists() for record in records(edited))
    finish(start())
    assert all(record.exists() for record in records(edited))


def test_the_command_as_a_job_of_its_own_gives_way_to_a_new_one_and_is_stopped_by_ctrl_c(folder: Path) -> None:
    """`slurm/main.sh`, as the documentation has it submitted; here it needs the options of this cluster."""
    study = write(LONG, seeds=1, parameters={"max_rounds": 100})
    Path("logs/slurm").mkdir(parents=True)
    programs = {"snakemake": " ".join([*COMMAND[:4], *PROFILE, *HERE])}
    # The plugin forgets SLURM_CONF inside of a job; other clusters need none.
    for name in ("sbatch", "squeue", "scancel", "scontrol", "sacct", "sinfo", "srun"):
        programs[name] = f"env SLURM_CONF={os.environ['SLURM_CONF']} {shutil.which(name)}"
    (folder / "bin").mkdir()
    for name, command in programs.items():
        program = folder / "bin" / name
        program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        program.chmod(0o755)
    environment = {**os.environ, "PATH": os.pathsep.join([str(program.parent), os.environ["PATH"]])}

    def submit() -> str:
        command = ["sbatch", "--parsable", "--mem=100", "slurm/main.sh", "study.yaml"]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()

    def said(job: str) -> str:
        return Path(f"logs/slurm/main-{job}.log").read_text(errors="replace")

    def until(condition: Callable[[], Any], job: str) -> None:
        end = time.monotonic() + 240
        while not condition():
            assert time.monotonic() < end, said(job)
            time.sleep(0.2)

    job = submit()
    until(lambda: journal_lines(study), job)
    subprocess.run(["scancel", "--batch", "--signal=INT", job], check=True)
    until(lambda: not running(), job)
    assert "stopped; what was answered is in the journals" in said(job)

    job = submit()
    until(lambda: journal_lines(study) and len(running()) > 1, job)
    others = set(running()) - {job}
    subprocess.run(["scancel", "--batch", "--signal=USR1", job], check=True)  # as two minutes before its end
    # Asked of SLURM: whether the log says so depends on which ends first, the script or its step.
    shown = ["scontrol", "show", "job", job]
    until(lambda: "Restarts=1" in subprocess.run(shown, capture_output=True, text=True, check=True).stdout, job)
    assert set(running()) >= others
    until(lambda: job not in jobs(dict(os.environ)), job)  # SLURM starts it again after two minutes
    assert all(record.exists() for record in records(study))
    assert paths.report("study").exists()


def test_ctrl_c_cancels_the_jobs_and_says_how_to_go_on(folder: Path) -> None:
    study = write(LONG, seeds=2, parameters={"max_rounds": 300})
    controller = start()
    wait_for(lambda: journal_lines(study), controller)
    controller.send_signal(signal.SIGINT)
    assert controller.wait(timeout=90) == 1, output()
    assert output().splitlines()[-1].startswith("stopped; what was answered is in the journals")
    assert "Traceback" not in output()
    end = time.monotonic() + 60
    while running() and time.monotonic() < end:
        time.sleep(0.2)
    assert not running()


def test_two_shards_of_the_real_model_survive_their_servers_death(folder: Path) -> None:
    entry = yaml.safe_load((REPOSITORY / "config" / "models.yaml").read_text())["models"]["smollm2-135m"]
    entry |= {"server_args": {"enable-log-requests": True}, "cluster": {"memory_mb": 6000, "minutes": 30}}
    # A threshold that every agent has to meet, so that the games last.
    study = write(
        {"model": "smollm2-135m", "n": 4, "b": 1, "prompt": "may_exist"},
        models={"smollm2-135m": entry},
        seeds=4,
        shard_size=2,
        parameters={"max_rounds": 4, "stop_threshold": 1},
    )
    controller = start()
    # Whatever has begun is held until all has: one engine may be ready long before the other.
    held: set[int] = set()
    wait_for(lambda: hold_begun(study, held) == len(records(study)), controller)
    before = running()
    assert sorted(comment.split("_")[1] for comment in before.values()) == [
        "study=smollm2-135m=0",
        "study=smollm2-135m=1",
    ]
    devices = set()
    for server in processes("vllm.entrypoints.launchers.api_server.entry", sockets()):
        environment = Path(f"/proc/{server}/environ").read_bytes().decode()
        devices.add(re.search(r"CUDA_VISIBLE_DEVICES=(\d)", environment)[1])
    assert devices == {"0", "1"}

    engine = paths.endpoint("study", "smollm2-135m", 0, "smollm2-135m")
    supervisor = yaml.safe_load(engine.read_text())["pid"]
    server = next(pid for pid in processes("launchers.api_server", sockets()) if _parent(pid) == supervisor)
    os.kill(server, signal.SIGKILL)
    other = next(job for job, comment in before.items() if "smollm2-135m=1_" in comment)
    subprocess.run(["scancel", other], check=True)
    for process in held:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGCONT)
    wait_for(lambda: not set(before) & set(running()), controller)
    replies = {}
    for journal in journal_lines(study):
        for line in journal.read_bytes().splitlines()[1:]:
            entry = yaml.safe_load(line[9:])
            replies[entry["seed"]] = entry["text"]
    assert len(replies) >= 6
    finish(controller)
    assert len(submitted_jobs()) == 4
    assert_nothing_is_left(folder, study)

    # What was answered before the deaths was never asked again, and all that was asked for is in the records.
    asked = requested_seeds(study)
    assert sum(asked.values()) >= len(replies)
    assert {seed for seed in replies if asked[seed] != 1} == set()
    for record in records(study):
        assert replay(record).difference is None
        assert read_summary(record).provenance["engines"]["smollm2-135m"]["arguments"]


def _parent(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"PPid:\s+(\d+)", status)[1])
