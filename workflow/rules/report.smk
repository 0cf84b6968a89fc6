rule report:
    """Write the report: one HTML file with the tables and figures of the study."""
    localrule: True
    input:
        figures=rules.figures.output.stamp,
    output:
        stamp=str(paths.stamp("{study}", "report", STUDY.plan)),
        html=str(paths.report("{study}")),
    log:
        str(paths.log("{study}", "report")),
    benchmark:
        str(paths.benchmark("{study}", "report"))
    params:
        study=str(STUDY.file),
        models=str(STUDY.models_file),
    shell:
        "parley report {params.study:q} --models {params.models:q} --stamp {output.stamp} > {log} 2>&1"
