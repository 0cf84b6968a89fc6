def prepared_model(wildcards):
    """The marker of the model that is served."""
    return str(model_marker(wildcards.model, STUDY.models[wildcards.model]))


def shard_group(wildcards):
    """One cluster job per shard: its servers, or what ties it together without one, and its simulations."""
    return group_name(wildcards.study, wildcards.engine, wildcards.shard)


# Whether a simulation has a job of its own that is beside no server. If not, what follows from it is the same for all:
# Snakemake evaluates a function for each job, which takes a fifth of the time of a plan.
SOME_ALONE = any(not c.plays_by_shard and all(e.is_service for e in c.entries.values()) for c in STUDY.conditions)
RECORD = str(paths.simulation("{study}", "{condition}", "{spec}", "{seed}"))


def record_of(wildcards):
    """The path of a simulation's record, as text."""
    return RECORD.format(**wildcards)


def shard_of(wildcards):
    """The engine of a simulation and the number of its shard."""
    return SHARDS[record_of(wildcards)]


def mark_of(record):
    """The mark of the job that plays what is missing of a record's shard."""
    engine, shard = SHARDS[record]
    return str(paths.played_mark(STUDY.name, engine, RUN, shard))


def is_there_when_planned(wildcards):
    """Whether the run is being planned, and the record is there.

    Then it may not hang on its shard: Snakemake plays again all that hangs on a server that another record needs. A
    job's own process plans only what is played.
    """
    return workflow.is_main_process and os.path.exists(record_of(wildcards))


def models_of(engine):
    """The models of a shard's engine; none for scripted simulations, or those of the user's own code."""
    return [] if engine in (SCRIPTED, OWN_CODE) else engine.split("+")


def servers_of(engine):
    """The models that a shard has servers for: a service is somebody else's."""
    return [model for model in models_of(engine) if not STUDY.models[model].is_service]


def engine_endpoints(wildcards):
    """The endpoints of the shard's servers; nothing for a shard without one."""
    engine, shard = shard_of(wildcards)
    if is_there_when_planned(wildcards):
        return []
    return [str(paths.endpoint(wildcards.study, engine, shard, model)) for model in servers_of(engine)]


def shard_mark(wildcards):
    """What ties a simulation to its shard; nothing for one whose shard has a server, which does that."""
    engine, shard = shard_of(wildcards)
    if servers_of(engine) or is_there_when_planned(wildcards):
        return []
    return str(paths.shard_mark(wildcards.study, engine, RUN, shard))


def simulation_group(wildcards):
    """The group of the shard."""
    return group_name(wildcards.study, *shard_of(wildcards))


def simulation_threads(wildcards):
    """None beside a server, which has all cores; one without, so that the cores say how many play at once."""
    return 0 if servers_of(shard_of(wildcards)[0]) else 1


def server_threads(wildcards):
    """All cores: on one machine the shards run one after the other; servers of several shards starve each other.

    The servers of one shard must run at once, so only the first counts. Without --cores (a report, a cluster) nothing
    is known of them.
    """
    if wildcards.model != servers_of(wildcards.engine)[0]:
        return 0
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
    return 0 if servers_of(shard_of(wildcards)[0]) else 400


def simulation_minutes(wildcards, attempt):
    """Beside a server none of its own: the server's time is the job's. Without one, simulations take turns."""
    engine, _ = shard_of(wildcards)
    if not models_of(engine):
        return 10
    return None if servers_of(engine) else requested("runtime", "minutes")(wildcards, attempt)


def shard_minutes(wildcards, attempt):
    """An hour for scripted simulations, which take seconds; what the models of a service ask for."""
    return requested("runtime", "minutes")(wildcards, attempt) if models_of(wildcards.engine) else 60


def requests(*keys):
    """Resources that a model's entry may ask a cluster for; those that no entry names are left to the profile."""
    used = [STUDY.models[model] for model in {model for engine, _ in SHARDS.values() for model in models_of(engine)}]
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
    """A function of the wildcards: what the shard's models ask for, else the profile's default."""

    def value(wildcards, attempt):
        engine = wildcards.engine if "engine" in wildcards.keys() else shard_of(wildcards)[0]
        # A job has one place: what one model of it asks for is asked for all. Memory is each server's own.
        models = [wildcards.model] if key == "memory_mb" else models_of(engine)
        asked = [own for model in models if (own := getattr(STUDY.models[model].cluster, key)) is not None]
        if asked:
            return max(asked) if key == "minutes" else asked[0]
        default = (workflow.resource_settings.default_resources or {}).get(resource)
        if default is None:
            return None
        # What stands in a profile is an expression.
        aids = {"input": [], "attempt": attempt, "threads": 1, "rulename": "", "async_run": workflow.async_run}
        return default.evaluate(wildcards, **aids).value

    return value
