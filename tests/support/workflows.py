"""Running Snakemake on small studies, as processes of their own."""

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
import yaml

from parley import paths
from parley.study import Study, load_study
from support import REPOSITORY
from support.answering import SERVED, VARIABLE, StandInService
from support.commands import wait_until
from support.preloaded import preloaded_environment, programs

SNAKEMAKE = [sys.executable, "-m", "snakemake", "--snakefile", str(REPOSITORY / "Snakefile")]


PROFILE = ["--workflow-profile", str(REPOSITORY / "profiles" / "default")]


CORES = ["--cores", "2"]


def real_snakemake(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does."""
    return subprocess.run(
        [*SNAKEMAKE, *PROFILE, *CORES, *arguments], capture_output=True, text=True, timeout=900, check=False
    )


def snakemake(*arguments: str, cores: list[str] = CORES) -> subprocess.CompletedProcess[str]:
    """Run the same, and what its jobs call, as processes that need not import their libraries."""
    command = [programs() / "snakemake", *SNAKEMAKE[3:], *PROFILE, *cores, *arguments]
    return subprocess.run(
        command, env=preloaded_environment(), capture_output=True, text=True, timeout=300, check=False
    )


def jobs(output: str) -> dict[str, int]:
    """Return the job counts of a dry run."""
    return {name: int(count) for name, count in re.findall(r"^([a-z_]+) +(\d+)$", output, flags=re.M)}


def write(folder: Path, **changes: object) -> Study:
    grid = {"model": "majority", "n": [3, 4], "b": [0, 1], "prompt": "may_exist", "byzantine": "random"}
    content = {"game": "consensus", "seeds": 2, "shard_size": 3, "parameters": {"max_rounds": 3}, "grids": [grid]}
    (folder / "models.yaml").write_text((REPOSITORY / "config" / "models.yaml").read_text())
    (folder / "small.yaml").write_text(yaml.safe_dump(content | changes))
    return load_study(Path("small.yaml"))


@pytest.fixture(scope="session")
def played_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a study that the workflow has played, which takes 10 s; tests work on copies."""
    made = tmp_path_factory.mktemp("played")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        write(made)
        result = snakemake("--config", "study=small.yaml")
    assert result.returncode == 0, result.stderr
    return made


@pytest.fixture
def played(played_once: Path, folder: Path) -> Study:
    """A study that the workflow has played, in the working directory."""
    shutil.copytree(played_once, folder, symlinks=True, dirs_exist_ok=True)
    return load_study(Path("small.yaml"))


def planned_for_slurm(
    models: Mapping[str, object], **content: object
) -> tuple[str, dict[tuple[str, str], dict[str, str]]]:
    """Plan a study for SLURM; return what the dry run printed, and what jobs ask for, by rule and model."""
    Path("models.yaml").write_text(yaml.safe_dump({"models": models}))
    Path("small.yaml").write_text(yaml.safe_dump({"game": "consensus", **content}))
    shutil.copytree(REPOSITORY / "slurm", "slurm")
    defaults = ["--default-resources", "slurm_partition=short", "runtime=60", "mem_mb=2000"]
    # Not quiet: then a dry run names the resources of every job.
    arguments = ["--dry-run", "--quiet", "host", "--printshellcmds", "--config", "study=small.yaml"]
    planned = snakemake("--profile", "slurm", *defaults, *arguments, cores=[])
    assert planned.returncode == 0, planned.stderr
    asked = {}
    for text in re.split(r"\n *rule ", planned.stdout):
        name, model = text.split(":")[0], re.search(r"(?:model|engine)=([\w+]+)", text)
        threads = re.search(r"^ *threads: (\d+)$", text, flags=re.M)
        if line := re.search(r"^ *resources: (.*)$", text, flags=re.M):
            resources = dict(item.split("=", 1) for item in line[1].split(", "))
            # One thread is what Snakemake takes where it prints none.
            asked[name, model[1] if model else ""] = resources | {"threads": threads[1] if threads else "1"}
    return planned.stdout, asked


# Code of the user's own: a journal for each simulation, as beside a server.
OWN_CODE = """
import json

from parley.policies import Completion


class Keeps:
    def __init__(self, vote="stop"):
        self.vote = vote

    async def answer(self, ask, seed, attempt):
        reply = {"internal_strategy": "none", "value": 7, "public_reasoning": "none"}
        return Completion(json.dumps({"decision": self.vote} if ask.phase == "vote" else reply), "stop")
"""


@pytest.fixture
def own_code(folder: Path) -> dict[str, object]:
    """A grid that code of the user's own plays."""
    (folder / "keeps_agent.py").write_text(OWN_CODE)
    return {"model": "keeps_agent:Keeps", "n": [3, 4], "prompt": "may_exist"}


def write_served(server: StandInService, limits: Mapping[str, int] = MappingProxyType({}), **content: object) -> Study:
    source = {"url": server.url, "served": SERVED, "key_variable": VARIABLE}
    entry = {"source": source, "limits": {"concurrent": 4, "patience_seconds": 2} | limits}
    Path("models.yaml").write_text(yaml.safe_dump({"models": {"theirs": entry}}))
    grid = {"model": ["theirs", "majority"], "n": 3, "prompt": "may_exist"}
    body = {"game": "consensus", "seeds": 2, "parameters": {"max_rounds": 2}, "grids": [grid]}
    Path("small.yaml").write_text(yaml.safe_dump(body | content))
    return load_study(Path("small.yaml"))


# Studies that the real model plays, and its server


MODEL = "smollm2-135m"
PARLEY = [sys.executable, "-m", "parley.cli"]


def share_models(folder: Path) -> None:
    """Let a folder have the repository's models file, and what the user of the tests has prepared of the models."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(paths.MODELS)
        prepared = paths.prepared_models()
    prepared.mkdir(parents=True, exist_ok=True)
    (folder / "models").symlink_to(prepared)
    shutil.copy(REPOSITORY / "config" / "models.yaml", folder)


def write_real(folder: Path, *grids: dict[str, object], **content: object) -> Study:
    body = {"game": "consensus", "parameters": {"max_rounds": 2}, **content, "grids": list(grids)}
    (folder / "real.yaml").write_text(yaml.safe_dump(body))
    return load_study(Path("real.yaml"))


def serve(model: str = MODEL) -> subprocess.Popen[bytes]:
    with Path("engine.log").open("wb") as log:
        process = subprocess.Popen(
            [*PARLEY, "serve", model, "--models", "models.yaml", "--endpoint", "endpoint.json", "--exit-with-parent"],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    wait_until(Path("endpoint.json").exists)
    return process
