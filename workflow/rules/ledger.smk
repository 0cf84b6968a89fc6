if STUDY.game.evidence.keeps_ledger:

    rule ledger:
        """Chain what was said. The stamp names the set of simulations and how the ledger is made."""
        input:
            records=ancient(RUN.unfinished),
        output:
            stamp=str(paths.stamp("{study}", "ledger", STUDY.ledger_plan)),
            chain=str(paths.ledger("{study}")),
            head=str(paths.ledger_head(paths.ledger("{study}"))),
            parquet=str(paths.table("{study}", "ledger", ".parquet")),
            csv=str(paths.table("{study}", "ledger", ".csv")),
        log:
            str(paths.log("{study}", "ledger")),
        benchmark:
            str(paths.benchmark("{study}", "ledger"))
        localrule: True
        conda:
            ENVIRONMENT
        shell:
            f"parley ledger build {RUN.study_options} > {{log}} 2>&1"
