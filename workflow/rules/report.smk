rule report:
    """Write the report: one HTML file with the tables and figures of the study."""
    input:
        records=ancient(UNFINISHED[:1]),
        ledger=ancient(LEDGER),
        figures=ancient(str(paths.stamp("{study}", "figures", STUDY.plan))),
    output:
        stamp=str(paths.stamp("{study}", "report", REPORT_PLAN)),
        html=str(paths.report("{study}")),
    log:
        str(paths.log("{study}", "report")),
    benchmark:
        str(paths.benchmark("{study}", "report"))
    localrule: True
    conda:
        ENVIRONMENT
    shell:
        f"parley report {STUDY_OPTIONS} > {{log}} 2>&1"
