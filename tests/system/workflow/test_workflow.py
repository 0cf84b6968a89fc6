"""The real workflow: Snakemake on scripted studies, in a folder of its own."""

import base64
import os
import shutil
import subprocess
import time
from pathlib import Path

import pandas as pd
import pytest

from parley import paths
from parley.columns import table_names
from parley.study import Study
from support import REPOSITORY
from support.commands import wait_until
from support.preloaded import preloaded_environment
from support.records import edit
from support.workflows import CORES, PROFILE, SNAKEMAKE, jobs, planned_for_slurm, snakemake, write

pytestmark = pytest.mark.slow


@pytest.mark.promise("`paper.yaml` plans 700 simulations.")
@pytest.mark.rare
def test_the_paper_has_700_simulations_in_shards_of_32(folder: Path) -> None:
    (folder / "config").symlink_to(REPOSITORY / "config")
    planned = snakemake("--dry-run", "--config", "study=paper")
    counts = jobs(planned.stdout + planned.stderr)
    assert counts["simulate"] == 700
    # 300 of the 8B model and 400 of the 14B model, 32 to a shard
    assert counts["serve"] == 10 + 13
    assert counts["fetch_model"] == 2


@pytest.mark.promise("A study runs once; added seeds run alone.")
def test_a_study_runs_once_and_added_seeds_run_alone(played: Study, folder: Path) -> None:
    study = played
    planned = {simulation.record("small") for simulation in study.simulations()}
    assert set(paths.simulations("small").rglob("*.parquet")) == planned
    stamps = [paths.stamp("small", stage, study.plan) for stage in ("tables", "figures", "report", "view")]
    figures = [paths.figure("small", f.name, suffix) for f in study.figures for suffix in (".png", ".svg", ".pdf")]
    figures.append(paths.figure_list("small"))
    tables = [paths.table("small", name, s) for name in table_names() for s in (".csv", ".parquet")]
    page = paths.view_page(paths.view("small"))
    assert all(path.stat().st_size for path in [*stamps, *figures, *tables, paths.report("small"), page])
    assert not paths.journal(next(iter(planned))).parent.exists()

    # Neither file times nor Snakemake's own memory matter: a clone of the results has nothing to do either, and a mark
    # of a job that began and whose end was not seen (the name of the file in base64) takes no record away.
    shutil.rmtree(folder / ".snakemake")
    mark = Path(".snakemake/incomplete") / base64.b64encode(str(next(iter(planned))).encode()).decode()
    mark.parent.mkdir(parents=True)
    mark.touch()
    now = time.time()
    for age, path in enumerate([*stamps, *tables, *figures, *planned]):  # the other way round than they were made
        os.utime(path, (now + age, now + age))
    again = snakemake("--dry-run", "--config", "study=small.yaml")
    assert "Nothing to be done" in again.stdout + again.stderr

    stages = {"summarize": 1, "figures": 1, "report": 1, "view": 1}
    write(folder, seeds=3, shard_size=2)
    assert planned_jobs() == {"simulate_shard": 1, **stages}
    write(folder, seeds=1)
    assert planned_jobs() == stages
    write(folder)
    # What is missing is made again.
    paths.figure("small", "trajectories", ".png").unlink()
    assert planned_jobs() == {"figures": 1}
    next(iter(planned)).unlink()
    assert planned_jobs() == {"simulate_shard": 1, **stages}


def planned_jobs() -> dict[str, int]:
    """Return the jobs that are planned for the study."""
    planned = snakemake("--dry-run", "--config", "study=small.yaml")
    assert planned.returncode == 0, planned.stderr
    counts = jobs(planned.stdout + planned.stderr)
    return {name: count for name, count in counts.items() if name not in ("all", "total")}


def test_a_damaged_record_is_left_out_and_said_again_until_it_is_deleted_and_played(played: Study) -> None:
    damaged = next(played.simulations())
    bad = damaged.record("small")
    edit(bad, lambda rows: rows[-1].update(text="{}"))
    for stage in ("tables", "figures", "report", "view"):  # none of which was made before the damage
        shutil.rmtree(paths.stamp("small", stage, "").parent)
    made = snakemake("--config", "study=small.yaml")
    assert made.returncode == 0, made.stderr
    assert f"warning: the tables leave out 1 damaged record: {bad}: " in made.stderr
    assert "WARNING: damaged records are left out" in paths.report("small").read_text()
    assert damaged.id not in set(pd.read_parquet(paths.table("small", "simulations", ".parquet"))["id"])

    again = snakemake("--dry-run", "--config", "study=small.yaml")
    assert f"parley: warning: the tables leave out 1 damaged record: {bad}: " in again.stderr
    assert "Nothing to be done" in again.stdout + again.stderr

    bad.unlink()
    assert planned_jobs() == {"simulate_shard": 1, "summarize": 1, "figures": 1, "report": 1, "view": 1}


HOLDS = """
import asyncio
from pathlib import Path


class Holds(Keeps):
    async def answer(self, ask, seed, attempt):
        while Path("hold").exists() and any(Path("results/small/simulations").rglob("*.parquet")):
            await asyncio.sleep(0.05)  # until the workflow was killed
        return await super().answer(ask, seed, attempt)
"""


@pytest.mark.promise("A killed workflow goes on with the same command.")
def test_a_killed_workflow_goes_on_with_the_same_command(folder: Path, own_code: dict[str, object]) -> None:
    with (folder / "keeps_agent.py").open("a") as file:
        file.write(HOLDS)
    (folder / "hold").touch()
    grid = own_code | {"model": {"name": "keeps_agent:Holds", "vote": "continue"}, "n": 8}
    study = write(folder, seeds=20, parameters={"max_rounds": 9}, grids=[grid])
    records = [simulation.record("small") for simulation in study.simulations()]
    command = [*SNAKEMAKE, *PROFILE, *CORES, "--config", "study=small.yaml"]
    with Path("killed.log").open("wb") as log:
        killed = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=preloaded_environment())
    wait_until(lambda: any(record.exists() for record in records))
    second = snakemake("--config", "study=small.yaml")
    killed.kill()
    killed.wait()
    assert second.returncode == 1
    # In one line, and nothing that says that nothing is played.
    [line] = [line for line in second.stderr.splitlines() if line.startswith("parley: ")]
    assert "another run of this study holds it" in line
    assert "nothing is played now" not in second.stderr
    assert "WorkflowError" not in second.stderr
    kept = {record: record.stat().st_ino for record in records if record.exists()}
    assert 0 < len(kept) < len(records)

    (folder / "hold").unlink()
    again = snakemake("--config", "study=small.yaml", "--until", "simulate_shard")
    assert again.returncode == 0, again.stderr
    assert all(record.exists() for record in records)
    assert all(record.stat().st_ino == inode for record, inode in kept.items())


@pytest.mark.promise("A failed simulation stops no other one; tables and report are of those that were played.")
def test_a_failed_simulation_stops_no_other_and_the_report_is_of_those_that_were_played(
    folder: Path, own_code: dict[str, object]
) -> None:
    study = write(folder, grids=[own_code])
    records = [simulation.record("small") for simulation in study.simulations()]
    journal = paths.journal(records[0])
    journal.mkdir(parents=True)  # a journal that cannot be opened
    failed = snakemake("--config", "study=small.yaml")
    assert failed.returncode == 1
    # Its log is named, with its last words.
    assert "simulate_shard failed (job" in failed.stderr
    assert f"  {paths.log('small', 'simulate_shard', 'own_code', 'shard=0')}\n" in failed.stderr
    assert f"    parley: {journal}: " in failed.stderr
    assert "the run ended; to do: playing" in failed.stderr.splitlines()[-1]
    assert "Traceback" not in failed.stderr
    assert [record.exists() for record in records] == [False] + [True] * (len(records) - 1)
    table = pd.read_csv(paths.table("small", "conditions", ".csv"))
    assert (table["simulations"].sum(), table["planned"].sum()) == (len(records) - 1, len(records))
    assert paths.report("small").exists()
    log = paths.log("small", "simulate", *records[0].with_suffix("").parts[3:])
    assert str(journal) in log.read_text()
    assert "Traceback" not in log.read_text()

    journal.rmdir()
    assert snakemake("--config", "study=small.yaml", "--until", "simulate_shard").returncode == 0
    assert records[0].exists()
    # Snakemake deleted the log of the failed attempt; what it said is kept.
    log = paths.log("small", "simulate_shard", "own_code", "shard=0")
    assert str(journal) in Path(f"{log}.failed").read_text()
    assert not paths.marks("small", "shards").exists()


def test_a_record_that_is_there_is_not_played_with_its_shard(folder: Path) -> None:
    grid = {"model": "smollm2-135m", "n": 3, "prompt": "may_exist"}
    study = write(folder, seeds=4, shard_size=8, grids=[grid])
    for simulation in list(study.simulations())[1:]:
        record = simulation.record("small")
        record.parent.mkdir(parents=True, exist_ok=True)
        record.touch()
    counts = planned_jobs()
    assert (counts["simulate"], counts["serve"]) == (1, 1)


@pytest.mark.promise("A forced run deletes no record.")
@pytest.mark.rare
def test_a_forced_run_deletes_no_record(folder: Path, own_code: dict[str, object]) -> None:
    study = write(folder, grids=[own_code, own_code | {"model": "majority"}])
    assert snakemake("--config", "study=small.yaml").returncode == 0
    records = [simulation.record("small") for simulation in study.simulations()]
    before = [record.stat().st_ino for record in records]
    for forced in ("--forceall", "--forcerun=simulate"):
        assert snakemake("--config", "study=small.yaml", forced).returncode == 0
        assert [record.stat().st_ino for record in records] == before
    refused = snakemake("--config", "study=small.yaml", "--force", str(records[0]))
    assert refused.returncode == 1
    assert "finished simulations are never played again; delete it to play it again" in refused.stdout + refused.stderr
    assert "Traceback" not in refused.stdout + refused.stderr
    assert [record.stat().st_ino for record in records] == before


HUB = {"repo": "owner/name", "revision": "a" * 40}


def service_entry(name: str, **cluster: object) -> dict[str, object]:
    return {"source": {"url": f"http://{name}.invalid:8000/v1", "served": name}, "cluster": cluster}


@pytest.mark.usefixtures("folder")
def test_a_shard_asks_a_cluster_for_what_its_model_needs() -> None:
    request = {"memory_mb": 1000, "minutes": 720, "gpu_model": "a100", "partition": "long", "constraint": "ib&a100"}
    models = {
        "big": {"source": HUB, "gpus": 2, "cluster": request},
        "small": {"source": HUB},
        "far": service_entry("far", minutes=25, partition="long"),
        "near": service_entry("near", partition="long"),
    }
    grid = {"model": [*models, "majority"], "n": 3, "prompt": "may_exist"}
    said, found = planned_for_slurm(models, seeds=3, shard_size=2, grids=[grid])
    counts = jobs(said)
    # A job without a server of all services, and one of scripted agents.
    assert (counts["simulate"], counts["serve"], counts["simulate_shard"]) == (6, 4, 2)
    assert "gather_shard" not in counts
    keys = ("gpu", "gpu_model", "mem_mb", "runtime", "slurm_partition", "constraint")
    asked = {job: [resources.get(key) for key in keys] for job, resources in found.items()}
    assert asked["serve", "big"] == ["2", "a100", "1000", "720", "long", "ib&a100"]
    assert asked["serve", "small"] == ["1", None, "2000", "60", "short", None]
    # Beside a server a simulation adds nothing, but has to name the same partition and constraint.
    assert asked["simulate", "big"] == [None, None, "0", None, "long", "ib&a100"]
    assert asked["simulate", "small"] == [None, None, "0", None, "short", None]
    assert found["simulate", "small"]["threads"] == "0"
    assert asked["simulate_shard", "services"] == [None, None, "1000", "25", "long", None]
    assert asked["simulate_shard", "scripted"] == [None, None, "1000", "60", "short", None]
    assert found["simulate_shard", "services"]["threads"] == "1"
    rows = [line.split() for line in said.splitlines()[-6:]]  # below the table of rules: jobs of the cluster
    assert rows[1] == ["2", "big", "2", "1000", "720"]
    assert rows[3] == ["1", "services", "0", "1000", "25"]
    assert rows[-1][2:7] == ["6", "jobs,", "at", "most", "50"]  # 2 x 2 GPUs x 12 hours, 2 x 1 x 1


@pytest.mark.parametrize("side_by_side", [1, 2])
@pytest.mark.usefixtures("folder")
def test_models_that_play_together_are_served_by_one_job_with_gpus_of_their_own(side_by_side: int) -> None:
    models = {
        "big": {
            "source": HUB,
            "gpus": 2,
            "cluster": {"memory_mb": 3000, "minutes": 30, "shards_per_job": side_by_side},
        },
        "small": {"source": HUB, "cluster": {"memory_mb": 1000, "minutes": 90, "partition": "long"}},
        "far": service_entry("far"),
    }
    groups = [{"role": "honest", "count": 1, "model": model} for model in models]
    said, _ = planned_for_slurm(models, seeds=3, shard_size=2, grids=[{"groups": groups, "prompt": "may_exist"}])
    counts = jobs(said)
    together = side_by_side == 2
    assert (counts["serve"], counts["simulate"], counts.get("gather_shard")) == (4, 3, 1 if together else None)
    whole = ["1", "big+far+small", "6", "8000", "90"] if together else ["2", "big+far+small", "3", "4000", "90"]
    assert said.splitlines()[-2].split() == whole
    lines = said.splitlines()
    playing = [line.split() for line in lines if "parley simulate" in line]
    ends = sorted([Path(word) for word in words if word.endswith(".json")] for words in playing)
    assert ends[0] == [paths.endpoint("small", "big+far+small", 0, model) for model in ("big", "small")]
    resources = [line.split("resources: ")[1] for line in lines if "resources: " in line and "gpu=" in line]
    asked = [dict(item.split("=", 1) for item in line.split(", ")) for line in resources]
    # GPUs and memory are each server's own; time and place are the job's.
    keys = ("gpu", "mem_mb", "runtime", "slurm_partition")
    small, big = ["1", "1000", "90", "long"], ["2", "3000", "90", "long"]
    assert sorted([found[key] for key in keys] for found in asked) == [small, small, big, big]
