"""Runs of Snakemake: what the Snakefile calls, and what may be done to results only where no run is on."""
