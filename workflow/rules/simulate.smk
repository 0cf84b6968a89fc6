rule simulate:
    """Play one simulation; all of a shard ask the same engine at once."""
    input:
        endpoint=engine_endpoint,
    output:
        record=str(paths.simulation("{study}", "{condition}", "{spec}", "{seed}")),
    log:
        str(paths.log("{study}", "simulate", "{condition}", "spec={spec}", "seed={seed}")),
    benchmark:
        str(paths.benchmark("{study}", "simulate", "{condition}", "spec={spec}", "seed={seed}"))
    group:
        simulation_group
    conda:
        ENVIRONMENT
    threads: simulation_threads
    shell:
        # Snakemake deletes a job's log before it runs again; what a failed attempt said is kept beside it.
        f"parley simulate {STUDY_OPTIONS} {{output.record}} --endpoint '{{input.endpoint}}' > {{log}} 2>&1"
        " || (cat {log} >> {log}.failed; exit 1)"
