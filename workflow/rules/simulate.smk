rule gather_shard:
    """Tie together what shares a cluster job: simulations without a server, or several shards with theirs.

    A cluster job holds what hangs together.
    """
    output:
        shard=temp(touch(str(paths.shard_mark("{study}", "{engine}", RUN.token, "{shard}")))),
    log:
        str(paths.log("{study}", "gather_shard", "{engine}", "shard={shard}")),
    priority: JOBS.shard_priority
    group:
        JOBS.shard_group
    conda:
        ENVIRONMENT
    resources:
        **JOBS.place(),
        mem_mb=400,
        nodes=1,
        runtime=1,
    shell:
        ": > {log}"


rule simulate:
    """Play one simulation; all of a shard ask the same servers."""
    input:
        **({"shard": JOBS.shard_mark} if JOBS.some_alone else {}),
        endpoints=JOBS.engine_endpoints,
    output:
        record=str(paths.simulation("{study}", "{condition}", "{seed}")),
    log:
        str(paths.simulation_log("{study}", "{condition}", "{seed}")),
    benchmark:
        str(paths.benchmark("{study}", "simulate", "{condition}", "seed={seed}"))
    # Beside a server its shard has one: to evaluate it for each simulation would take time.
    priority: JOBS.simulation_priority if JOBS.some_alone else 0
    group:
        JOBS.simulation_group
    conda:
        ENVIRONMENT
    threads: JOBS.simulation_threads if JOBS.some_alone else 0
    resources:
        **JOBS.place(),
        runtime=JOBS.simulation_minutes,
        mem_mb=JOBS.simulation_memory if JOBS.some_alone else 0,
    shell:
        # Snakemake deletes a job's log before it runs again; what a failed attempt said is kept beside it.
        f"log={{log}}; parley simulate {RUN.study_options} {{output.record}} {{input.endpoints}} > $log 2>&1"
        " || (cat $log >> $log.failed; exit 1)"
