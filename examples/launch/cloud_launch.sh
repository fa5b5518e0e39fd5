#!/bin/bash
# A cloud's job, second way: torch.distributed.launch's arguments, started on every host by the platform.
#
#   bash cloud_launch.sh lockstep train --config path/to/model_config.yaml
#
# Between hosts the launchers want LOCKSTEP_STORE_SECRET, the same text in the environment of all hosts, or, in a
# network that is the job's alone, LOCKSTEP_ALLOW_INSECURE=1.
#
# The platform's variables; the port may be changed.
MASTER_ADDR="${VC_WORKER_HOSTS%%,*}"
MASTER_PORT="${MASTER_PORT:-6060}"
NNODES="$MA_NUM_HOSTS"
NODE_RANK="$VC_TASK_INDEX"
NGPUS_PER_NODE="$MA_NUM_GPUS"

CMD=(lockstep run
    --nnodes="$NNODES"
    --node_rank="$NODE_RANK"
    --nproc_per_node="$NGPUS_PER_NODE"
    --master_addr "$MASTER_ADDR"
    --master_port="$MASTER_PORT"
    --use_env
    "$@")
echo "${CMD[@]}"
exec "${CMD[@]}"
