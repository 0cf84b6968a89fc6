rule simulate_shard:
    """Play what is missing of a shard in one job. Its outputs are no records: Snakemake deletes outputs."""
    output:
        mark=temp(touch(str(paths.mark("{study}", "played", "{engine}", RUN.token, "{shard}")))),
    log:
        str(paths.log("{study}", "simulate_shard", "{engine}", "shard={shard}")),
    benchmark:
        str(paths.benchmark("{study}", "simulate_shard", "{engine}", "shard={shard}"))
    priority: JOBS.shard_priority
    group:
        JOBS.group
    conda:
        ENVIRONMENT
    resources:
        **JOBS.place(),
        mem_mb=JOBS.shard_memory,
        nodes=1,
        runtime=JOBS.shard_minutes,
    shell:
        # Snakemake deletes a job's log before it runs again; what a failed attempt said is kept beside it.
        f"parley simulate-shard {RUN.study_options} --engine {{wildcards.engine}} {{wildcards.shard}}"
        # The shell's parent is Snakemake: who kills it wants no more games.
        " --exit-with $PPID > {log} 2>&1"
        " || (cat {log} >> {log}.failed; exit 1)"
