rule summarize:
    """Make the tables and metrics. The stamp names the set of simulations, so that another set makes them anew."""
    input:
        records=ancient(RUN.unfinished),
    output:
        stamp=str(paths.stamp("{study}", "tables", STUDY.plan)),
        parquet=[str(paths.table("{study}", name, ".parquet")) for name in table_names()],
        csv=[str(paths.table("{study}", name, ".csv")) for name in table_names()],
        metrics=[str(paths.metric("{study}", c.name)) for c in STUDY.shown.conditions],
    log:
        str(paths.log("{study}", "summarize")),
    benchmark:
        str(paths.benchmark("{study}", "summarize"))
    localrule: True
    conda:
        ENVIRONMENT
    threads: 4  # or the cores there are
    shell:
        f"parley summarize {RUN.study_options} --processes {{threads}} > {{log}} 2>&1"
