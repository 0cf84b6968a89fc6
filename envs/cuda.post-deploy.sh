#!/usr/bin/env bash
# Run by Snakemake in the new conda environment, from the repository's root.
set -euo pipefail
pip install --no-deps -r envs/cuda.txt
pip install --no-deps --no-build-isolation --editable .
