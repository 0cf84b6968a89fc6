rule serve:
    """Serve one model for one shard; Snakemake ends it after the shard's last simulation."""
    input:
        marker=ancient(prepared_model),
    output:
        endpoint=service(str(paths.endpoint("{study}", "{model}", "{shard}"))),
    log:
        str(paths.log("{study}", "serve", "{model}", "shard={shard}")),
    group:
        server_group
    conda:
        ENVIRONMENT
    threads: server_threads
    shell:
        # exec: a shell with a redirection would not pass Snakemake's SIGTERM on to the server.
        f"exec parley serve {{wildcards.model}} {MODELS_OPTION} --endpoint {{output.endpoint}}"
        " --exit-with-parent > {log} 2>&1"
