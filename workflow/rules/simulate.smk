def shard_of(wildcards):
    """The engine of a simulation ("scripted" for none) and the number of its shard."""
    record = paths.simulation(
        wildcards.study, wildcards.condition, wildcards.spec, wildcards.seed
    )
    return SHARDS[record]


def engine_endpoint(wildcards):
    """The endpoint of the shard's engine; nothing for a simulation that needs none."""
    engine, shard = shard_of(wildcards)
    if engine == "scripted":
        return []
    return str(paths.endpoint(wildcards.study, engine, shard))


def endpoint_option(wildcards, input):
    """The option that names the endpoint, where there is one."""
    return f"--endpoint {input.endpoint}" if input.endpoint else ""


def simulation_group(wildcards):
    """The group of the shard, the same as its server's."""
    return "-".join(map(str, shard_of(wildcards)))


def simulation_threads(wildcards):
    """None beside a server, which has all cores; one for a scripted simulation."""
    return 1 if shard_of(wildcards)[0] == "scripted" else 0


rule simulate:
    """Play one simulation; all of a shard ask the same engine at once."""
    input:
        endpoint=engine_endpoint,
    output:
        record=str(
            paths.simulation("{study}", "{condition}", "{spec}", "{seed}")
        ),
    log:
        str(paths.log("{study}", "simulate", "{condition}", "spec={spec}", "seed={seed}")),
    benchmark:
        str(paths.benchmark("{study}", "simulate", "{condition}", "spec={spec}", "seed={seed}"))
    group:
        simulation_group
    threads: simulation_threads
    params:
        study=str(STUDY.file),
        models=str(STUDY.models_file),
        endpoint=endpoint_option,
    shell:
        "parley simulate {params.study:q} {output.record} --models {params.models:q} {params.endpoint} > {log} 2>&1"
