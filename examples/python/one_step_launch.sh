#!/bin/bash
# A job of several hosts with torch.distributed.launch, started on each of them by a cloud's platform, which sets the variables:
#
#   VC_WORKER_HOSTS=a,b MA_NUM_HOSTS=2 VC_TASK_INDEX=0 MA_NUM_GPUS=8 bash one_step_launch.sh [ARGUMENTS of one_step.py]
#
# PyTorch 2.11 still has torch.distributed.launch, and warns that it will go: one_step_run.sh stays.
MASTER_ADDR="${VC_WORKER_HOSTS%%,*}"
MASTER_PORT="${MASTER_PORT:-6060}"
NNODES="$MA_NUM_HOSTS"
NODE_RANK="$VC_TASK_INDEX"
NGPUS_PER_NODE="$MA_NUM_GPUS"
PYTHON_SCRIPT="$(dirname "$0")/one_step.py"

CMD=("${PYTHON:-python}" -m torch.distributed.launch
    --nnodes="$NNODES"
    --node_rank="$NODE_RANK"
    --nproc_per_node="$NGPUS_PER_NODE"
    --master_addr "$MASTER_ADDR"
    --master_port="$MASTER_PORT"
    --use_env
    "$PYTHON_SCRIPT" "$@")
echo "${CMD[@]}"
exec "${CMD[@]}"
