rule view:
    """Write the explorer: pages in which every simulation of the study can be read."""
    input:
        records=ancient(RUN.unfinished[:1]),
        tables=ancient(str(paths.stamp("{study}", "tables", STUDY.plan))),
    output:
        stamp=str(paths.stamp("{study}", "view", STUDY.plan)),
        html=str(paths.view_page(paths.view("{study}"))),
    log:
        str(paths.log("{study}", "view")),
    benchmark:
        str(paths.benchmark("{study}", "view"))
    localrule: True
    conda:
        ENVIRONMENT
    threads: 4  # or the cores there are
    shell:
        f"parley view {RUN.study_options} --processes {{threads}} > {{log}} 2>&1"
