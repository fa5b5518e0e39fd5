#!/bin/bash
# A job without MPI whose scheduler may die: it keeps what it knows in MS_RECOVERY_PATH, and takes its workers back when
# it is started again with the same variables. Workers have names, by which they get their old rank.
#
#   MS_RECOVERY_PATH=/path/state bash run_gpu_cluster_recovery.sh DATA_PATH CONFIG [KEY=VALUE ...]
#
# When the scheduler has died, start it again in ./device, and training will not have noticed:
#
#   MS_ENABLE_RECOVERY=1 MS_RECOVERY_PATH=/path/state MS_WORKER_NUM=8 MS_SCHED_HOST=127.0.0.1 MS_SCHED_PORT=6667 \
#       MS_ROLE=MS_SCHED MS_NODE_ID=sched lockstep train --config CONFIG
#
# When a worker has died, all workers end with an error; started again in the same way, with the scheduler still there,
# they go on from their newest checkpoint.
export DATA_PATH=$(realpath "$1")
CONFIG=$(realpath "$2")
export MS_ENABLE_RECOVERY=1
export MS_RECOVERY_PATH=$(realpath -m "${MS_RECOVERY_PATH:-recovery}")

rm -rf device
mkdir device
cd ./device || exit 1
echo "start training"

export MS_WORKER_NUM=${MS_WORKER_NUM:-8}             # how many workers the job has
export MS_SCHED_HOST=${MS_SCHED_HOST:-127.0.0.1}     # the scheduler's address
export MS_SCHED_PORT=${MS_SCHED_PORT:-6667}          # the scheduler's port
command=(lockstep train --config "$CONFIG" "data.root=$DATA_PATH" "${@:3}")

# The scheduler.
MS_ROLE=MS_SCHED MS_NODE_ID=sched "${command[@]}" >scheduler.log 2>&1 &

# The workers, each with a name of its own.
for ((i = 0; i < MS_WORKER_NUM; i++)); do
    MS_ROLE=MS_WORKER MS_NODE_ID=worker_$i "${command[@]}" >worker_$i.log 2>&1 &
done

status=0
for job in $(jobs -p); do
    wait "$job" || status=$?
done
exit $status
