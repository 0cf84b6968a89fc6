def prepared_model(wildcards):
    """The marker of the model that is served."""
    return str(model_marker(wildcards.model, STUDY.models[wildcards.model]))


def server_group(wildcards):
    """One cluster job per shard: its server and its simulations."""
    return f"{wildcards.model}-{wildcards.shard}"


def shard_of(wildcards):
    """The engine of a simulation ("scripted" for none) and the number of its shard."""
    record = paths.simulation(wildcards.study, wildcards.condition, wildcards.spec, wildcards.seed)
    return SHARDS[record]


def engine_endpoint(wildcards):
    """The endpoint of the shard's engine; nothing for a simulation that needs none."""
    engine, shard = shard_of(wildcards)
    if engine == "scripted":
        return []
    return str(paths.endpoint(wildcards.study, engine, shard))


def simulation_group(wildcards):
    """The group of the shard, the same as its server's."""
    return "-".join(map(str, shard_of(wildcards)))


def simulation_threads(wildcards):
    """None beside a server, which has all cores; one for a scripted simulation."""
    return 1 if shard_of(wildcards)[0] == "scripted" else 0


def server_threads(wildcards):
    """All cores: on one machine the shards run one after the other; several servers at once starve each other.

    Without --cores (a report, a cluster) nothing is known of them.
    """
    try:
        return workflow.cores
    except WorkflowError:
        return 1
