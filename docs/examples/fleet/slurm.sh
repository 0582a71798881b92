#!/bin/bash
# sbatch slurm.sh STUDY SCORER OUT: one Ray node per Slurm node, goldless on the first.
#SBATCH --job-name=goldless
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --gpus-per-node=4
#SBATCH --time=04:00:00
#SBATCH --requeue

set -euo pipefail
study=$1 scorer=$2 out=$3

head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
address="$head:$((20000 + SLURM_JOB_ID % 20000))"
export RAY_USAGE_STATS_ENABLED=0
# models are fetched once, into a folder that all nodes see, and so is the journal
export GOLDLESS_HOME=${GOLDLESS_HOME:-$HOME/goldless} HF_HOME=${HF_HOME:-$HOME/huggingface}

# runs the command on the first node once all nodes have joined, and stops Ray when it ends
srun ray symmetric-run --address "$address" --min-nodes "$SLURM_JOB_NUM_NODES" \
  --num-cpus "$SLURM_CPUS_PER_TASK" --num-gpus 4 \
  -- env RAY_ADDRESS="$address" goldless score "$study" --scorer "$scorer" --on ray --out "$out"
