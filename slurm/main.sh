#!/bin/bash
# The command of a study as a job of its own, where the head node kills what runs long:
#
#   mkdir -p logs/slurm && sbatch slurm/main.sh paper
#
# It sends the study's jobs as the command does, two minutes before its time is over it gives way to a new one, which
# waits for the jobs that run and plans what is left. To stop it with all its jobs: scancel --batch --signal=INT JOB.
# A plain scancel ends it alone: its jobs go on, and the next one waits for them.
#SBATCH --job-name=parley-main
#SBATCH --cpus-per-task=2
#SBATCH --mem=8G
#SBATCH --time=1-00:00:00
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=logs/slurm/main-%j.log
# SITE: a partition for long jobs without a GPU.
##SBATCH --partition=long

set -m # what is started in the background hears SIGINT
study=${1:?usage: sbatch slurm/main.sh STUDY [OPTION]...}
shift
snakemake --profile slurm "$@" --config study="$study" &
main=$!
# Killed, Snakemake leaves its jobs alone; told to end, it would wait for them.
trap 'kill -KILL $main; scontrol requeue "$SLURM_JOB_ID"' USR1
trap 'kill -INT $main' INT
wait $main
status=$?
while ((status > 128)) && kill -0 $main 2> /dev/null; do # a trap interrupts a wait
  wait $main
  status=$?
done
exit $status
