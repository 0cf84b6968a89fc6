rule serve:
    """Serve one model of one shard; Snakemake ends it after the shard's last simulation."""
    input:
        **({"job": JOBS.job_mark} if JOBS.some_share_jobs else {}),
        marker=ancient(JOBS.prepared_model),
    output:
        endpoint=service(str(paths.endpoint("{study}", "{engine}", "{shard}", "{model}"))),
    log:
        str(paths.log("{study}", "serve", "{engine}", "shard={shard}", "{model}")),
    priority: JOBS.shard_priority
    group:
        JOBS.group
    conda:
        JOBS.server_environment
    threads: JOBS.server_threads
    resources:
        **JOBS.requests("memory_mb", "minutes", "gpu_model", "gres"),
        **JOBS.place(),
        gpu=JOBS.requested_gpus,
        nodes=JOBS.server_nodes,
    shell:
        # Snakemake deletes a job's log before it runs again: it is a link to that of the last start.
        'started={log}.$(date -u +%Y%m%dT%H%M%S.%N); ln -sfn "$(basename "$started")" {log}; '
        # exec: a shell with a redirection would not pass Snakemake's SIGTERM on to the server.
        f"exec parley serve {{wildcards.model}} {RUN.models_option} --endpoint {{output.endpoint}}"
        ' --exit-with-parent > "$started" 2>&1'
