#!/bin/bash
# A job that nodes may join and leave while it runs, started with the same command on each of them.
#
#   ENDPOINT=host0:29400 bash elastic.sh lockstep train --config path/to/model_config.yaml
#
# Between hosts the launchers want LOCKSTEP_STORE_SECRET, the same text in the environment of all hosts, or, in a
# network that is the job's alone, LOCKSTEP_ALLOW_INSECURE=1.
#
# host0 is one of the nodes: its launcher runs the service where all of them meet.
CMD=(lockstep run
    --nnodes="${NNODES:-1:4}"
    --nproc_per_node="${NPROC_PER_NODE:-auto}"
    --max_restarts="${MAX_RESTARTS:-3}"
    --rdzv_backend=c10d
    --rdzv_endpoint="${ENDPOINT:?say where the nodes meet, HOST:PORT}"
    --rdzv_id="${JOB_ID:-elastic}"
    --rdzv_conf="last_call_timeout=${LAST_CALL:-30}"
    "$@")
echo "${CMD[@]}"
exec "${CMD[@]}"
