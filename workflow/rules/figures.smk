rule figures:
    """Draw the figures of the study's game."""
    localrule: True
    input:
        tables=rules.summarize.output.stamp,
    output:
        stamp=str(paths.stamp("{study}", "figures", STUDY.plan)),
        png=[str(paths.figure("{study}", f.name, ".png")) for f in STUDY.game.figures],
        svg=report(
            [str(paths.figure("{study}", f.name, ".svg")) for f in STUDY.game.figures],
            caption="../report/figures.rst",
            category="Figures",
        ),
    log:
        str(paths.log("{study}", "figures")),
    benchmark:
        str(paths.benchmark("{study}", "figures"))
    params:
        study=str(STUDY.file),
        models=str(STUDY.models_file),
    shell:
        "parley figures {params.study:q} --models {params.models:q} --stamp {output.stamp} > {log} 2>&1"
