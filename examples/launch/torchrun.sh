#!/bin/bash
# The arguments that torchrun takes, given to Lockstep's launcher, for a Lockstep program or a Python script alike. On
# each node, with the number of the node:
#
#   NNODES=2 NODE_RANK=0 MASTER_ADDR=10.0.0.1 MASTER_PORT=6060 bash torchrun.sh lockstep train --config run.yaml
#   bash torchrun.sh train_ddp.py --epochs 3
#
# Without variables: one node.
exec lockstep run \
    --nnodes="${NNODES:-1}" \
    --node_rank="${NODE_RANK:-0}" \
    --nproc_per_node="${RANKS_PER_NODE:-2}" \
    --rdzv_backend=static \
    --rdzv_id="${JOB_ID:-lockstep}" \
    --master_addr="${MASTER_ADDR:-127.0.0.1}" \
    --master_port="${MASTER_PORT:-29500}" \
    "$@"
