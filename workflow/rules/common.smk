def prepared_model(wildcards):
    """The marker of the model that is served."""
    return str(model_marker(wildcards.model, STUDY.models[wildcards.model]))


def shard_group(wildcards):
    """One cluster job per shard: its server, or what ties it together without one, and its simulations."""
    return group_name(wildcards.study, wildcards.model, wildcards.shard)


def shard_of(wildcards):
    """The engine of a simulation ("scripted" for none) and the number of its shard."""
    record = paths.simulation(wildcards.study, wildcards.condition, wildcards.spec, wildcards.seed)
    return SHARDS[record]


def is_there_when_planned(wildcards):
    """Whether the run is being planned, and the record is there.

    Then it may not hang on its shard: Snakemake plays again all that hangs on a server that another record needs. A
    job's own process plans only what is played.
    """
    record = paths.simulation(wildcards.study, wildcards.condition, wildcards.spec, wildcards.seed)
    return workflow.is_main_process and record.exists()


def has_server(engine):
    """Whether a shard has a server of its own: scripted simulations need none, and a service is somebody else's."""
    return engine != "scripted" and not STUDY.models[engine].is_service


def engine_endpoint(wildcards):
    """The endpoint of the shard's server; nothing for a shard without one."""
    engine, shard = shard_of(wildcards)
    return (
        str(paths.endpoint(wildcards.study, engine, shard))
        if has_server(engine) and not is_there_when_planned(wildcards)
        else []
    )


def shard_mark(wildcards):
    """What ties a simulation to its shard; nothing for one whose shard has a server, which does that."""
    engine, shard = shard_of(wildcards)
    if has_server(engine) or is_there_when_planned(wildcards):
        return []
    return str(paths.shard_mark(wildcards.study, engine, RUN, shard))


def simulation_group(wildcards):
    """The group of the shard."""
    return group_name(wildcards.study, *shard_of(wildcards))


def simulation_threads(wildcards):
    """None beside a server, which has all cores; one without, so that the cores say how many play at once."""
    return 0 if has_server(shard_of(wildcards)[0]) else 1


def server_threads(wildcards):
    """All cores: on one machine the shards run one after the other; several servers at once starve each other.

    Without --cores (a report, a cluster) nothing is known of them.
    """
    try:
        return workflow.cores
    except WorkflowError:
        return 1


def server_environment(wildcards):
    """The conda environment of a server."""
    return CUDA_ENVIRONMENT if server_gpus(wildcards) else ENVIRONMENT


def server_gpus(wildcards):
    """GPUs of a shard's job."""
    return STUDY.models[wildcards.model].gpus


def simulation_memory(wildcards):
    """Beside a server none of its own: what the model's entry, or the profile, says is the whole job's."""
    return 0 if has_server(shard_of(wildcards)[0]) else 400


def simulation_minutes(wildcards, attempt):
    """Beside a server none of its own: the server's time is the job's. Without one, simulations take turns."""
    engine, _ = shard_of(wildcards)
    if engine == "scripted":
        return 10
    return None if has_server(engine) else requested("runtime", "minutes")(wildcards, attempt)


def requests(*keys):
    """Resources that a model's entry may ask a cluster for; those that no entry names are left to the profile."""
    used = [STUDY.models[engine] for engine in {engine for engine, _ in SHARDS.values()} - {"scripted"}]
    names = {
        "memory_mb": "mem_mb",
        "minutes": "runtime",
        "partition": "slurm_partition",
        "account": "slurm_account",
    }
    return {
        names.get(key, key): requested(names.get(key, key), key)
        for key in keys
        if any(getattr(entry.cluster, key) is not None for entry in used)
    }


def requested(resource, key):
    """A function of the wildcards: what the shard's model asks for, else the profile's default."""

    def value(wildcards, attempt):
        engine = getattr(wildcards, "model", None) or ("condition" in wildcards.keys() and shard_of(wildcards)[0])
        if engine in STUDY.models and (own := getattr(STUDY.models[engine].cluster, key)) is not None:
            return own
        default = (workflow.resource_settings.default_resources or {}).get(resource)
        if default is None:
            return None
        # What stands in a profile is an expression.
        aids = {"input": [], "attempt": attempt, "threads": 1, "rulename": "", "async_run": workflow.async_run}
        return default.evaluate(wildcards, **aids).value

    return value
