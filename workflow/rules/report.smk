rule report:
    """Write the report: one HTML file with the tables and figures of the study."""
    input:
        records=ancient(RUN.unfinished[:1]),
        ledger=ancient(RUN.ledger_stamps),
        figures=ancient(str(paths.stamp("{study}", "figures", STUDY.plan))),
    output:
        stamp=str(paths.stamp("{study}", "report", RUN.report_plan)),
        html=str(paths.report("{study}")),
    log:
        str(paths.log("{study}", "report")),
    benchmark:
        str(paths.benchmark("{study}", "report"))
    localrule: True
    conda:
        ENVIRONMENT
    shell:
        f"parley report {RUN.study_options} > {{log}} 2>&1"
