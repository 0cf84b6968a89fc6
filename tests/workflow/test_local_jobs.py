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


@pytest.mark.slow
def test_no_game_of_a_shard_waits_for_another_to_end(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--quiet", "all"]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "src")}
    ran = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert len(list((tmp_path / "played").iterdir())) == 8
