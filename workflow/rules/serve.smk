rule serve:
    """Serve one model of one shard; Snakemake ends it after the shard's last simulation."""
    input:
        marker=ancient(prepared_model),
    output:
        endpoint=service(str(paths.endpoint("{study}", "{engine}", "{shard}", "{model}"))),
    log:
        str(paths.log("{study}", "serve", "{engine}", "shard={shard}", "{model}")),
    group:
        shard_group
    conda:
        server_environment
    threads: server_threads
    resources:
        **requests("memory_mb", "minutes", "gpu_model", "partition", "account", "constraint"),
        gpu=server_gpus,
    shell:
        # Snakemake deletes a job's log before it runs again: it is a link to that of the last start.
        'started={log}.$(date -u +%Y%m%dT%H%M%S.%N); ln -sfn "$(basename "$started")" {log}; '
        # exec: a shell with a redirection would not pass Snakemake's SIGTERM on to the server.
        f"exec parley serve {{wildcards.model}} {MODELS_OPTION} --endpoint {{output.endpoint}}"
        " --beside {wildcards.engine}"
        ' --exit-with-parent > "$started" 2>&1'
