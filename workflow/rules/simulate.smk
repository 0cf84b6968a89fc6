rule gather_shard:
    """Tie together several shards that share a cluster job, which holds what hangs together."""
    output:
        shard=temp(touch(str(paths.mark("{study}", "shards", "{engine}", RUN.token, "{shard}")))),
    log:
        str(paths.log("{study}", "gather_shard", "{engine}", "shard={shard}")),
    priority: JOBS.shard_priority
    group:
        JOBS.group
    conda:
        ENVIRONMENT
    resources:
        **JOBS.place(),
        mem_mb=0,
        nodes=1,
        runtime=JOBS.simulation_minutes,
    shell:
        ": > {log}"


rule simulate:
    """Play one simulation beside a server; all of a shard ask the same ones."""
    input:
        endpoints=JOBS.engine_endpoints,
    output:
        record=str(paths.simulation("{study}", "{condition}", "{seed}")),
    log:
        str(paths.simulation_log("{study}", "{condition}", "{seed}")),
    benchmark:
        str(paths.benchmark("{study}", "simulate", "{condition}", "seed={seed}"))
    group:
        JOBS.group
    conda:
        ENVIRONMENT
    threads: 0  # its server has all cores
    resources:
        **JOBS.place(),
        runtime=JOBS.simulation_minutes,
        mem_mb=0,  # the model's entry, or the profile, says the whole job's
    shell:
        # Snakemake deletes a job's log before it runs again; what a failed attempt said is kept beside it.
        f"log={{log}}; parley simulate {RUN.study_options} {{output.record}} {{input.endpoints}} > $log 2>&1"
        " || (cat $log >> $log.failed; exit 1)"
