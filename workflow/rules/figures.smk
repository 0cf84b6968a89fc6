rule figures:
    """Draw the figures of the study's game."""
    input:
        records=ancient(RUN.unfinished[:1]),
        ledger=ancient(RUN.ledger_stamps),
        tables=ancient(str(paths.stamp("{study}", "tables", STUDY.plan))),
    output:
        stamp=str(paths.stamp("{study}", "figures", STUDY.plan)),
        # Further pages of a figure, which nobody knows beforehand, are in this list.
        pages=str(paths.figure_list("{study}")),
        png=[str(paths.figure("{study}", f.name, ".png")) for f in STUDY.figures],
        pdf=[str(paths.figure("{study}", f.name, ".pdf")) for f in STUDY.figures],
        svg=[str(paths.figure("{study}", f.name, ".svg")) for f in STUDY.figures],
    log:
        str(paths.log("{study}", "figures")),
    benchmark:
        str(paths.benchmark("{study}", "figures"))
    localrule: True
    conda:
        ENVIRONMENT
    threads: 4  # or the cores there are
    shell:
        f"parley figures {RUN.study_options} --processes {{threads}} > {{log}} 2>&1"
