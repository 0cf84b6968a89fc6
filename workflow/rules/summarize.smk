def study_records(wildcards):
    """The records of all simulations of the study."""
    return [str(record) for record in SHARDS]


rule summarize:
    """Make the tables. The stamp names the set of simulations, so that another set makes them anew."""
    localrule: True
    input:
        records=study_records,
    output:
        stamp=str(paths.stamp("{study}", "tables", STUDY.plan)),
        parquet=[str(paths.table("{study}", name, ".parquet")) for name in TABLES],
        simulations=report(
            str(paths.table("{study}", "simulations", ".csv")),
            caption="../report/simulations.rst",
            category="Tables",
        ),
        conditions=report(
            str(paths.table("{study}", "conditions", ".csv")),
            caption="../report/conditions.rst",
            category="Tables",
        ),
    log:
        str(paths.log("{study}", "summarize")),
    benchmark:
        str(paths.benchmark("{study}", "summarize"))
    params:
        study=str(STUDY.file),
        models=str(STUDY.models_file),
    shell:
        "parley summarize {params.study:q} --models {params.models:q} --stamp {output.stamp} > {log} 2>&1"
