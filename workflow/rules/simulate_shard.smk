rule simulate_shard:
    """Play what is missing of a scripted shard in one process. Its outputs are no records: Snakemake deletes outputs."""
    output:
        mark=temp(touch(str(paths.played_mark("{study}", RUN, "{shard}")))),
    log:
        str(paths.log("{study}", "simulate_shard", "shard={shard}")),
    benchmark:
        str(paths.benchmark("{study}", "simulate_shard", "shard={shard}"))
    conda:
        ENVIRONMENT
    resources:
        mem_mb=600,
        runtime=60,
    shell:
        f"parley simulate-shard {STUDY_OPTIONS} {{wildcards.shard}} > {{log}} 2>&1"
