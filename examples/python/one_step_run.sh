#!/bin/bash
# A job of several hosts with torch.distributed.run, started on each of them by a cloud's platform, which sets the variables:
#
#   VC_WORKER_HOSTS=a,b MA_NUM_HOSTS=2 VC_TASK_INDEX=0 MA_NUM_GPUS=8 bash one_step_run.sh [ARGUMENTS of one_step.py]
#
# RDZV_BACKEND=static where the hosts' numbers are to be the platform's: c10d numbers them as they come.
MASTER_ADDR="${VC_WORKER_HOSTS%%,*}"
MASTER_PORT="${MASTER_PORT:-6060}"
JOB_ID="1234"
NNODES="$MA_NUM_HOSTS"
NODE_RANK="$VC_TASK_INDEX"
NGPUS_PER_NODE="$MA_NUM_GPUS"
PYTHON_SCRIPT="$(dirname "$0")/one_step.py"
RDZV_BACKEND="${RDZV_BACKEND:-c10d}"
EXT_ARGS=()
if [[ $RDZV_BACKEND == c10d ]]; then
    # Also where it is 0: else each launcher whose own address is the endpoint's wants to be the host of the rendezvous.
    EXT_ARGS=(--rdzv_conf=is_host=$((NODE_RANK == 0)))
fi

CMD=("${PYTHON:-python}" -m torch.distributed.run
    --nnodes="$NNODES"
    --node_rank="$NODE_RANK"
    "${EXT_ARGS[@]}"
    --nproc_per_node="$NGPUS_PER_NODE"
    --rdzv_id="$JOB_ID"
    --rdzv_backend="$RDZV_BACKEND"
    --rdzv_endpoint="$MASTER_ADDR:$MASTER_PORT"
    "$PYTHON_SCRIPT" "$@")
echo "${CMD[@]}"
exec "${CMD[@]}"
