"""What a job needs, as functions of its wildcards: inputs, group, threads, and what a cluster is asked for."""

import math
import os
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

from snakemake.exceptions import WorkflowError

from parley import paths
from parley.engine.weights import model_marker
from parley.study.condition import OWN_CODE, SCRIPTED, SERVICES
from parley.workflow.run import Run, is_local
from parley.workflow.slurm import group_name

# Keys of a model's entry in `cluster`, and what Snakemake calls them.
_RESOURCES = {
    "memory_mb": "mem_mb",
    "minutes": "runtime",
    "partition": "slurm_partition",
    "account": "slurm_account",
    "exclusive": "slurm_extra",
}
# Of a job with a server, where neither the model's entry nor the profile says it.
_DEFAULTS = {"mem_mb": 65_536, "runtime": 240}
# Of a job without one, unless the profile has less: such games take seconds, and their memory is Python's.
_SHARD_MINUTES = 60
_SHARD_MB = 1000
_RECORD = str(paths.simulation("{study}", "{condition}", "{seed}"))


class Jobs:
    """Functions that Snakemake calls with the wildcards of a job; the rule files name them."""

    def __init__(self, run: Run, workflow: Any, environment: str, cuda_environment: str) -> None:
        """`workflow` is Snakemake's object of that name: it knows the cores, and the defaults of the profile.

        The environments are conda recipes, for servers without a GPU and with one.
        """
        self._environments = (environment, cuda_environment)
        self._run = run
        self._study = run.study
        self._workflow = workflow
        self._engines = {engine for engine, _ in run.shards.values()}
        # Whether shards share a cluster job. If not, nothing ties them: Snakemake evaluates a function for each job,
        # which takes a fifth of the time of a plan.
        self.some_share_jobs = any(
            entry.cluster.shards_per_job > 1
            for condition in self._study.conditions
            for entry in condition.entries.values()
        )

    def prepared_model(self, wildcards: Any) -> str:
        """Return the marker of the model that is served."""
        return str(model_marker(wildcards.model, self._study.models[wildcards.model]))

    def group(self, wildcards: Any) -> str:
        """Return the group of a shard: its servers and its simulations, or the one job that plays it."""
        engine, shard = self._shard_of(wildcards)
        return group_name(wildcards.study, engine, self._first_of_job(engine, shard))

    def engine_endpoints(self, wildcards: Any) -> list[str]:
        """Return the endpoints of the servers of a simulation's shard."""
        if self._run.is_main and os.path.exists(_record_of(wildcards)):  # what hangs on a server is played again
            return []
        return self._endpoints(*self._shard_of(wildcards))

    @cache  # noqa: B019 (there is one for each run)
    def _endpoints(self, engine: str, shard: int) -> list[str]:
        return [str(paths.endpoint(self._study.name, engine, shard, model)) for model in self._servers_of(engine)]

    def job_mark(self, wildcards: Any) -> str | list[str]:
        """Return what ties the shards of one cluster job together; nothing for a shard that has a job to itself."""
        if self._shards_per_job(wildcards.engine) == 1:
            return []
        first = self._first_of_job(*self._shard_of(wildcards))
        return str(paths.mark(wildcards.study, "shards", wildcards.engine, self._run.token, first))

    def server_threads(self, wildcards: Any) -> int:
        """Return the cores, divided by how many shards run side by side, so that as many do.

        By GPUs on one machine, one on a CPU. The servers of a shard must run at once, so only the first counts.
        """
        engine = wildcards.engine
        if wildcards.model != self._servers_of(engine)[0]:
            return 0
        try:
            cores = int(self._workflow.cores)
        except WorkflowError:
            return 1
        if not self._has_workstation:
            return max(1, cores // self._shards_per_job(engine))
        gpus = sum(self._study.models[model].gpus for model in self._servers_of(engine))
        side_by_side = len(self._gpus_here) // gpus if gpus else 1
        # Rounded up: rather one shard less than one without a GPU.
        return math.ceil(cores / max(1, side_by_side))

    @property
    def _has_workstation(self) -> bool:
        """Whether this process starts servers itself, on the machine of the command; known when jobs are planned."""
        return self._run.is_main and is_local(self._workflow)

    @cached_property
    def _gpus_here(self) -> list[str]:
        """The GPUs of this machine that servers may use; none where the installed vLLM is for CPUs."""
        # With all that a server needs, which no start of Snakemake without one does.
        from parley.engine.hardware import visible_gpus
        from parley.engine.server import is_cpu_build

        return [] if is_cpu_build() else visible_gpus()

    def shard_priority(self, wildcards: Any) -> int:
        """Return the higher a number the earlier a shard comes in the study: else Snakemake chooses by chance."""
        return self._priorities[self._shard_of(wildcards)]

    @cached_property
    def _priorities(self) -> dict[tuple[str, int], int]:
        found: dict[tuple[str, int], int] = {}
        for place, shard in enumerate(self._run.shards.values()):
            found.setdefault(shard, len(self._run.shards) - place)
        return found

    def requested_gpus(self, wildcards: Any) -> int:
        """Return how many GPUs a cluster is asked for with `--gpus`: none where a model of the shard has `gres`."""
        by_gres = any(self._study.models[name].cluster.gres for name in self._models_of(wildcards.engine))
        return 0 if by_gres else self._study.models[wildcards.model].gpus

    def server_nodes(self, wildcards: Any) -> int:
        """Return 1 for the first server of a cluster job: else SLURM may give two GPUs on two nodes."""
        engine, shard = self._shard_of(wildcards)
        return int(shard == self._shards_beside(engine, shard)[0] and wildcards.model == self._servers_of(engine)[0])

    def server_environment(self, wildcards: Any) -> str:
        """Return the conda environment of a server."""
        return self._environments[1 if self._study.models[wildcards.model].gpus else 0]

    def simulation_minutes(self, wildcards: Any) -> None:
        """Return nothing: the time of a job is its server's, to which that of other parts would be added."""

    def shard_minutes(self, wildcards: Any, attempt: int) -> Any:
        """Return at most an hour for simulations without a model; else what its services need."""
        minutes = self._requested("minutes")(wildcards, attempt)
        return minutes if self._models_of(wildcards.engine) else min(minutes, _SHARD_MINUTES)

    def shard_memory(self, wildcards: Any, attempt: int) -> Any:
        """Return the memory of simulations without a server: more after each death, which may have been for memory."""
        return min(self._default("mem_mb", wildcards, attempt), _SHARD_MB * 2 ** (attempt - 1))

    def requests(self, *keys: str) -> dict[str, Callable[[Any, int], Any]]:
        """Return resources that models' entries may ask a cluster for.

        What none names is left to the profile, but for time and memory, of which Snakemake has defaults of its own.
        """
        names = {model for engine in self._engines for model in self._models_of(engine)}
        used = [self._study.models[name].cluster for name in names]
        return {
            _RESOURCES.get(key, key): self._requested(key)
            for key in keys
            if _RESOURCES.get(key) in _DEFAULTS or any(getattr(cluster, key) for cluster in used)
        }

    def place(self) -> dict[str, Callable[[Any, int], Any]]:
        """Return the resources that the jobs of a shard must name alike, since they are one cluster job."""
        return self.requests("partition", "account", "constraint", "qos", "exclusive")

    def _requested(self, key: str) -> Callable[[Any, int], Any]:
        """Return a function of the wildcards: what the shard's models ask for, else the profile's default."""
        resource = _RESOURCES.get(key, key)

        def value(wildcards: Any, attempt: int) -> Any:
            engine, _ = self._shard_of(wildcards)
            # A job has one place: what one model of it asks for is asked for all. Memory is each server's own.
            models = [wildcards.model] if key == "memory_mb" else self._models_of(engine)
            asked = [own for name in models if (own := getattr(self._study.models[name].cluster, key))]
            if asked and key == "gres":
                gpus = sum(self._study.models[name].gpus_served for name in models)
                # The same for all of a group: text does not add up.
                return f"{asked[0]}:{gpus * len(self._shards_beside(engine, int(wildcards.shard)))}"
            if asked and key != "exclusive":
                return max(asked) if key == "minutes" else asked[0]
            default = self._default(resource, wildcards, attempt)
            return " ".join(filter(None, [default, "--exclusive"])) if asked else default

        return value

    def _default(self, resource: str, wildcards: Any, attempt: int) -> Any:
        """Return what the profile says of a resource, which is an expression; else the default."""
        workflow = self._workflow
        default = (workflow.resource_settings.default_resources or {}).get(resource)
        if default is None or default.raw is None:  # Snakemake's own: there is nothing that a person wrote
            return _DEFAULTS.get(resource)
        aids = {"input": [], "attempt": attempt, "threads": 1, "rulename": "", "async_run": workflow.async_run}
        return default.evaluate(wildcards, **aids).value

    def _shard_of(self, wildcards: Any) -> tuple[str, int]:
        """Return the engine and the number of the shard that a job is of."""
        if "shard" in wildcards.keys():  # noqa: SIM118
            return wildcards.engine, int(wildcards.shard)
        return self._run.shards[_record_of(wildcards)]

    def _shards_per_job(self, engine: str) -> int:
        """Return how many shards one cluster job plays side by side; what ties them together is its alone."""
        if self._has_workstation:
            return 1
        models = [self._study.models[model] for model in self._servers_of(engine)]
        return max((entry.cluster.shards_per_job for entry in models), default=1)

    def _first_of_job(self, engine: str, shard: int) -> int:
        """Return the first shard of those that share a cluster job with a shard."""
        return shard - shard % self._shards_per_job(engine)

    def _shards_beside(self, engine: str, shard: int) -> list[int]:
        first = self._first_of_job(engine, shard)
        others = range(first, first + self._shards_per_job(engine))
        return [other for other in others if other == shard or (engine, other) in self._planned]

    @cached_property
    def _planned(self) -> set[tuple[str, int]]:
        return {self._run.shards[str(record)] for record in self._run.missing}

    @cache  # noqa: B019 (there is one for each run)
    def _models_of(self, engine: str) -> list[str]:
        """Return the models of a shard's engine; none for scripted simulations, or those of the user's own code."""
        if engine == SERVICES:
            asked = [condition.models for condition in self._study.conditions if condition.engine == SERVICES]
            return sorted({model for models in asked for model in models})
        return [] if engine in (SCRIPTED, OWN_CODE) else engine.split("+")

    @cache  # noqa: B019 (there is one for each run)
    def _servers_of(self, engine: str) -> list[str]:
        """Return the models that a shard has servers for: a service is somebody else's."""
        return [model for model in self._models_of(engine) if not self._study.models[model].is_service]


def _record_of(wildcards: Any) -> str:
    return _RECORD.format(**wildcards)
