"""All simulations of a shard run at once beside their server, in Snakemake itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import REPOSITORY

# Each game ends once all have begun, and fails if some wait for others to end.
SNAKEFILE = """
from parley.workflow.local_jobs import give_groups_room

give_groups_room()

rule all:
    input: expand("played/{k}", k=range(8))

rule serve:
    output: service("server")
    threads: workflow.cores
    shell: "touch {output}; exec sleep 100"

rule play:
    input: "server"
    output: "played/{k}"
    threads: 0
    shell:
        "touch begun-{wildcards.k}; for i in $(seq 100); do "
        "if [ $(ls begun-* | wc -l) -eq 8 ]; then touch {output}; exit; fi; sleep 0.1; done; exit 1"
"""


# Each game fails; only the first try of any writes a record.
GROUP = """
from parley.workflow.local_jobs import keep_records

keep_records()

rule all:
    input: expand("records/{k}", k=range(2))

rule simulate:
    output: "records/{k}"
    group: "shard"
    shell:
        "echo {wildcards.k} >> tries; test -e {output} && exit; "
        "test $(wc -l < tries) -gt 1 || echo whole > {output}; sleep 3; test $(wc -l < tries) -gt 2"
"""


def snakemake(folder: Path, snakefile: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "Snakefile").write_text(snakefile)
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--quiet", "all", *options]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "src")}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=200, check=False
    )


@pytest.mark.slow
def test_a_record_outlives_the_failure_of_its_job_and_another_try(tmp_path: Path) -> None:
    ran = snakemake(tmp_path, GROUP, "--retries", "1", "--keep-going")
    assert ran.returncode == 1, "the other game has no record"
    [record] = (tmp_path / "records").iterdir()
    assert record.read_text() == "whole\n"
    assert len((tmp_path / "tries").read_text().splitlines()) > 2


@pytest.mark.slow
def test_no_game_of_a_shard_waits_for_another_to_end(tmp_path: Path) -> None:
    ran = snakemake(tmp_path, SNAKEFILE)
    assert ran.returncode == 0, ran.stderr
    assert len(list((tmp_path / "played").iterdir())) == 8
