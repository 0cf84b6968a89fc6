def prepared_model(wildcards):
    """The marker of the model that is served."""
    return str(model_marker(wildcards.model, STUDY.models[wildcards.model]))


def server_group(wildcards):
    """One cluster job per shard: its server and its simulations."""
    return f"{wildcards.model}-{wildcards.shard}"


rule serve:
    """Serve one model for one shard; Snakemake ends it after the shard's last simulation."""
    input:
        marker=prepared_model,
    output:
        endpoint=service(str(paths.endpoint("{study}", "{model}", "{shard}"))),
    log:
        str(paths.log("{study}", "serve", "{model}", "shard={shard}")),
    group:
        server_group
    # All cores: on one machine the shards run one after the other; several servers at once starve each other.
    threads: workflow.cores
    params:
        models=str(STUDY.models_file),
    shell:
        # exec: a shell with a redirection would not pass Snakemake's SIGTERM on to the server.
        "exec parley serve {wildcards.model} --models {params.models:q} --endpoint {output.endpoint}"
        " --exit-with-parent > {log} 2>&1"
