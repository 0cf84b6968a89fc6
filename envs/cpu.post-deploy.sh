#!/usr/bin/env bash
# Run by Snakemake in the new conda environment, from the repository's root (see the Makefile for the two steps).
set -euo pipefail
pip install --no-deps --retries 0 --extra-index-url https://download.pytorch.org/whl/cpu "$(grep '^torch==' envs/cpu.txt)"
pip install --no-deps -r envs/cpu.txt
pip install --no-deps --no-build-isolation --editable .
