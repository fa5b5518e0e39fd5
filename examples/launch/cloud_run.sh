#!/bin/bash
# A cloud's job, third way: torch.distributed.run's arguments, started on every host by the platform.
#
#   bash cloud_run.sh lockstep train --config path/to/model_config.yaml
#
# Between hosts the launchers want LOCKSTEP_STORE_SECRET, the same text in the environment of all hosts, or, in a
# network that is the job's alone, LOCKSTEP_ALLOW_INSECURE=1.
#
# The platform's variables; the port may be changed.
MASTER_ADDR="${VC_WORKER_HOSTS%%,*}"
MASTER_PORT="${MASTER_PORT:-6060}"
JOB_ID="1234"
NNODES="$MA_NUM_HOSTS"
NODE_RANK="$VC_TASK_INDEX"
NGPUS_PER_NODE="$MA_NUM_GPUS"
if [[ $NODE_RANK == 0 ]]; then
    EXT_ARGS="--rdzv_conf=is_host=1"
else
    EXT_ARGS=""
fi

CMD=(lockstep run
    --nnodes="$NNODES"
    --node_rank="$NODE_RANK"
    $EXT_ARGS
    --nproc_per_node="$NGPUS_PER_NODE"
    --rdzv_id=$JOB_ID
    --rdzv_backend=c10d
    --rdzv_endpoint="$MASTER_ADDR:$MASTER_PORT"
    "$@")
echo "${CMD[@]}"
exec "${CMD[@]}"
