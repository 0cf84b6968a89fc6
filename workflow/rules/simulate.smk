rule gather_shard:
    """Tie the simulations of a shard together where no server does: a cluster job holds what hangs together."""
    output:
        shard=temp(touch(str(paths.shard_mark("{study}", "{engine}", RUN, "{shard}")))),
    log:
        str(paths.log("{study}", "gather_shard", "{engine}", "shard={shard}")),
    group:
        shard_group
    conda:
        ENVIRONMENT
    resources:
        **requests("partition", "account", "constraint"),
        mem_mb=400,
        runtime=1,
    shell:
        ": > {log}"


rule simulate:
    """Play one simulation; all of a shard ask the same servers."""
    input:
        **({"shard": shard_mark} if SOME_ALONE else {}),
        endpoints=engine_endpoints,
    output:
        record=str(paths.simulation("{study}", "{condition}", "{spec}", "{seed}")),
    log:
        str(paths.simulation_log("{study}", "{condition}", "{spec}", "{seed}")),
    benchmark:
        str(paths.benchmark("{study}", "simulate", "{condition}", "spec={spec}", "seed={seed}"))
    group:
        simulation_group
    conda:
        ENVIRONMENT
    threads: simulation_threads if SOME_ALONE else 0
    resources:
        **requests("partition", "account", "constraint"),
        runtime=simulation_minutes,
        mem_mb=simulation_memory if SOME_ALONE else 0,
    shell:
        # Snakemake deletes a job's log before it runs again; what a failed attempt said is kept beside it.
        f"parley simulate {STUDY_OPTIONS} {{output.record}} {{input.endpoints}} > {{log}} 2>&1"
        " || (cat {log} >> {log}.failed; exit 1)"
