"""What a job needs, by its wildcards: without Snakemake."""

from types import SimpleNamespace
from typing import Any

import pytest
from snakemake.iocontainers import Wildcards
from snakemake.resources import Resources

from parley.engine import server
from parley.study import Study
from parley.workflow.jobs import Jobs
from parley.workflow.run import Run
from support.studies import StudyFactory

pytestmark = pytest.mark.promise("A cluster is asked for what the models of a shard need.")

SOURCE = {"repo": "owner/tiny", "revision": "a" * 40}
SERVICE = {"source": {"url": "http://127.0.0.1:8000/v1", "served": "x", "key_variable": "TINY_API_KEY"}}
MODELS = {
    "big": {"source": SOURCE, "gpus": 2, "cluster": {"minutes": 90, "memory_mb": 64000, "partition": "gpu"}},
    "tiny": {"source": SOURCE, "gpus": 0, "cluster": {"minutes": 30}},
    "one": {"source": SOURCE},
    "theirs": SERVICE,
}


class Workflow:
    """As much of Snakemake's object as a job's needs are found by."""

    cores = 8

    local_exec, dryrun = True, False

    def __init__(self, defaults: str) -> None:
        parse = Resources.parser_factory(allow_expressions=True, defaults="full")
        self.resource_settings = SimpleNamespace(default_resources=parse(defaults.split()))
        self.async_run = None


@pytest.fixture(autouse=True)
def no_other_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in no job of another run."""
    monkeypatch.setenv("PARLEY_RUN", "")


def jobs_of(study: Study, is_main: bool = False, defaults: str = "runtime=20*attempt") -> Jobs:
    return Jobs(Run(study, is_main), Workflow(defaults), "cpu.yaml", "cuda.yaml")


def simulation_wildcards(study: Study, model: str) -> Wildcards:
    """Return what Snakemake finds in the path of the first record of a model."""
    simulation = next(s for s in study.simulations() if s.condition.axes["model"] == model)
    condition = simulation.condition
    found = {"study": study.name, "condition": condition.folder, "seed": str(simulation.seed)}
    return Wildcards(fromdict=found)


def shard_wildcards(engine: str, **more: str) -> Wildcards:
    return Wildcards(fromdict={"study": "small", "engine": engine, "shard": "0"} | more)


@pytest.fixture
def study(study_factory: StudyFactory) -> Study:
    return study_factory({"model": ["big", "tiny", "one", "theirs", "majority"]}, models=MODELS)


def test_a_shard_without_a_server_has_an_hour_or_what_its_service_asks(study: Study) -> None:
    jobs = jobs_of(study)
    for model in ("theirs", "majority"):
        assert jobs.engine_endpoints(simulation_wildcards(study, model)) == []
    attempts = (1, 2, 3, 4)
    asked = {
        name: [jobs.shard_minutes(shard_wildcards(name), n) for n in attempts] for name in ("scripted", "services")
    }
    assert asked == {"scripted": [20, 40, 60, 60], "services": [20, 40, 60, 80]}
    # A death may have been for memory.
    assert [jobs.shard_memory(shard_wildcards("own_code"), n) for n in attempts] == [1000, 2000, 4000, 8000]


def test_what_nobody_says_is_asked_all_the_same_and_a_site_may_want_neither_time_nor_memory(study: Study) -> None:
    server, shard = shard_wildcards("one", model="one"), shard_wildcards("own_code")
    for defaults, ends in (
        ("slurm_partition=cpu", [65536, 240, 1000, 60]),
        ("runtime=0 mem_mb=0", [0, 0, 0, 0]),
        ("runtime=720 mem_mb=500*attempt", [500, 720, 500, 60]),
    ):
        jobs = jobs_of(study, defaults=defaults)
        asked = [of(server, 1) for of in jobs.requests("memory_mb", "minutes").values()]
        assert [*asked, jobs.shard_memory(shard, 1), jobs.shard_minutes(shard, 1)] == ends, defaults


def test_a_record_that_is_there_hangs_on_nothing_while_the_run_is_planned(study: Study) -> None:
    wildcards = simulation_wildcards(study, "big")
    record = next(s for s in study.simulations() if s.condition.axes["model"] == "big").record("small")
    main, job = jobs_of(study, is_main=True), jobs_of(study)
    assert main.engine_endpoints(wildcards)
    record.parent.mkdir(parents=True)
    record.touch()
    assert main.engine_endpoints(wildcards) == []
    assert job.engine_endpoints(wildcards)


def test_the_first_server_of_a_shard_has_all_cores_and_its_own_environment(study: Study) -> None:
    jobs = jobs_of(study)
    first, second = (shard_wildcards("big+tiny", model=model) for model in ("big", "tiny"))
    assert [jobs.server_threads(wildcards) for wildcards in (first, second)] == [8, 0]
    assert [jobs.server_environment(wildcards) for wildcards in (first, second)] == ["cuda.yaml", "cpu.yaml"]


def test_shards_play_side_by_side_where_gpus_allow_it(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "is_cpu_build", lambda: False)
    rows = {"0,1,2": [1, 2, 1], "GPU-a,GPU-b": [1, 2, 1], "0": [1, 1, 1], "0,1,2,3": [2, 4, 1]}
    # Of shards of two GPUs, one and none; 8 cores cannot be shared by three.
    for visible, side_by_side in rows.items():
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        threads, shards = jobs_of(study, is_main=True).server_threads, ("big", "one", "tiny")
        assert [8 // threads(shard_wildcards(name, model=name)) for name in shards] == side_by_side, visible
    monkeypatch.setattr(server, "is_cpu_build", lambda: True)
    assert jobs_of(study, is_main=True).server_threads(shard_wildcards("one", model="one")) == 8


def test_a_cluster_is_asked_for_what_the_models_of_a_shard_need(study: Study) -> None:
    asked = jobs_of(study).requests("memory_mb", "minutes", "partition", "account")
    assert set(asked) == {"mem_mb", "runtime", "slurm_partition"}  # nobody names an account

    def value(resource: str, engine: str, model: str) -> Any:
        return asked[resource](shard_wildcards(engine, model=model), 1)

    assert value("runtime", "tiny+big", "tiny") == 90  # a job has one time, the longest
    assert value("mem_mb", "big+tiny", "tiny") == 65536  # memory is each server's own
    assert value("mem_mb", "big+tiny", "big") == 64000
    assert value("runtime", "theirs", "theirs") == 20


def test_shards_that_share_a_job_ask_for_one_node_and_for_the_gpus_of_all(study_factory: StudyFactory) -> None:
    models = {"big": {"source": SOURCE, "gpus": 2, "cluster": {"gres": "gpu:a100", "shards_per_job": 2}}}
    study = study_factory({"model": "big"}, models=models, seeds=5, shard_size=2)

    def asked() -> list[tuple[int, str]]:
        jobs = jobs_of(study, is_main=True)
        jobs._workflow.local_exec = False
        asks = [shard_wildcards("big", shard=str(shard), model="big") for shard in range(3)]
        gres = jobs.requests("gres")["gres"]
        return [(jobs.server_nodes(ask), gres(ask, 1)) for ask in asks]

    assert asked() == [(1, "gpu:a100:4"), (0, "gpu:a100:4"), (1, "gpu:a100:2")]
    for simulation in list(study.simulations())[:2]:
        record = simulation.record(study.name)
        record.parent.mkdir(parents=True, exist_ok=True)
        record.touch()
    assert asked()[1] == (1, "gpu:a100:2")  # the first shard is played, and not there to ask for the node


def test_gres_stands_for_gpus_and_a_shard_has_one_node(study_factory: StudyFactory) -> None:
    cluster = {"gres": "gpu:a100", "exclusive": True, "qos": "long"}
    models = {"big": {"source": SOURCE, "gpus": 2, "cluster": cluster}, "tiny": {"source": SOURCE}}
    study = study_factory({"model": list(models)}, models=models)
    jobs = jobs_of(study, defaults="slurm_extra='--mail-type=END'")
    asked = {**jobs.requests("gres"), **jobs.place()}
    assert set(asked) == {"gres", "slurm_extra", "qos"}
    both = shard_wildcards("big+tiny", model="big")
    assert {key: of(both, 1) for key, of in asked.items()} == {
        "gres": "gpu:a100:3",
        "slurm_extra": "--mail-type=END --exclusive",
        "qos": "long",
    }
    other = shard_wildcards("big+tiny", model="tiny")
    assert [(jobs.requested_gpus(w), jobs.server_nodes(w)) for w in (both, other)] == [(0, 1), (0, 0)]
    alone = shard_wildcards("tiny", model="tiny")
    assert (jobs.requested_gpus(alone), jobs.server_nodes(alone)) == (1, 1)
    assert [of(alone, 1) for of in asked.values()] == [None, None, "--mail-type=END"]
