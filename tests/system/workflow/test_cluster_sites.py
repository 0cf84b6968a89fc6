"""The lines of docs/how-to/cluster-sites.md are those with which jobs are sent; a program stands for `sbatch`."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from parley.engine.models import ModelEntry
from parley.engine.weights import model_marker
from support import REPOSITORY
from support.workflows import snakemake

pytestmark = [
    pytest.mark.promise("The lines that send jobs are those of the page of cluster sites."),
    pytest.mark.rare,
]

PAGE = (REPOSITORY / "docs" / "how-to" / "cluster-sites.md").read_text()
SOURCE = {"repo": "owner/name", "revision": "a" * 40}


def sites() -> Iterator[Any]:
    """Yield of each site and kind of entry: the profile's keys, the entry, and the line that is submitted."""
    for section in PAGE.split("\n## ")[1:]:
        blocks = re.findall(r"^```(?:yaml|text)\n(.*?)^```$", section, flags=re.M | re.S)
        profile = next((yaml.safe_load(block) for block in blocks if block.startswith("# slurm/profile.yaml")), {})
        entries = [yaml.safe_load(block) for block in blocks if block.startswith("# config/models.yaml")]
        [line] = [block.strip() for block in blocks if block.startswith("sbatch ")]
        for number, entry in enumerate(entries or [{"qwen3-8b": {"gpus": 1}}]):
            yield pytest.param(profile, entry, line, id=f"{section.splitlines()[0]} {number}")


@pytest.mark.parametrize(("profile", "entry", "line"), [*sites()])
def test_a_job_is_sent_with_the_line_of_the_page(
    profile: dict[str, Any], entry: dict[str, Any], line: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = {"sbatch": 'printf "sbatch %s\\n" "$*" >> sent; echo "sbatch: error: invalid" >&2; exit 1'}
    scripts |= {"apptainer": "echo apptainer version 1.4.0"}
    for name in ("sbatch", "squeue", "sacct", "sacctmgr", "sshare", "sinfo", "scontrol", "apptainer"):
        Path(name).write_text(f"#!/bin/sh\n{scripts.get(name, '')}\n")
        Path(name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    [(model, asked)] = entry.items()
    marker = model_marker(model, ModelEntry.model_validate({**asked, "source": SOURCE}))
    marker.parent.mkdir(parents=True)
    marker.write_text("{}")
    Path("models.yaml").write_text(yaml.safe_dump({"models": {model: {**asked, "source": SOURCE}}}))
    grid = {"model": model, "n": 4, "prompt": "may_exist"}
    side_by_side = asked.get("cluster", {}).get("shards_per_job", 1)
    study = {"game": "consensus", "seeds": side_by_side, "shard_size": 1, "grids": [grid]}
    Path("small.yaml").write_text(yaml.safe_dump(study))
    shutil.copytree(REPOSITORY / "slurm", "slurm")
    file = Path("slurm/profile.yaml")
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | profile))
    options = ["--profile", "slurm", "--retries", "0", "--slurm-init-seconds-before-status-checks", "1"]
    played = snakemake(*options, "--config", "study=small.yaml", cores=[])
    assert Path("sent").exists(), played.stderr
    wanted = ".*".join(map(re.escape, line.split("...")))
    [sent] = Path("sent").read_text().splitlines()
    assert re.fullmatch(wanted, sent), sent
