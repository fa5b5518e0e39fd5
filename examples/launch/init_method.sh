#!/bin/bash
# Ranks started by hand, or by a script of your own: each is told who it is and where all of them meet.
#
#   bash init_method.sh path/to/model_config.yaml [KEY=VALUE ...]
#
# INIT_METHOD is one of
#   file:///PATH      a file that all ranks see. It needs no port; what a killed job left in it does no harm
#   tcp://HOST:PORT   the address of rank 0, and a port that is free there
#   env://            the same from MASTER_ADDR and MASTER_PORT, which must be set then
# RANK and WORLD_SIZE may stand in the address instead: tcp://HOST:PORT?rank=0&world_size=2
RANKS="${RANKS:-2}"
export LOCKSTEP_INIT_METHOD="${INIT_METHOD:-file:///tmp/lockstep-rendezvous-$UID}"
pids=()
for ((i = 0; i < RANKS; i++)); do
    RANK=$i WORLD_SIZE=$RANKS LOCAL_RANK=$i LOCAL_WORLD_SIZE=$RANKS lockstep train --config "$@" &
    pids+=($!)
done
# Fails when a rank does.
status=0
for pid in "${pids[@]}"; do
    wait "$pid" || status=$?
done
exit $status
