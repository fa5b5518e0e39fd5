#!/bin/bash
# Machine 2 of a job without MPI: the second half of the workers, and no scheduler. See run_gpu_cluster_1.sh.
#
#   MS_SCHED_HOST=10.0.0.1 bash run_gpu_cluster_2.sh DATA_PATH CONFIG [KEY=VALUE ...]
export DATA_PATH=$(realpath "$1")
CONFIG=$(realpath "$2")
if [[ -n "$LOCKSTEP_CLUSTER_CONFIG" ]]; then LOCKSTEP_CLUSTER_CONFIG=$(realpath "$LOCKSTEP_CLUSTER_CONFIG"); fi

rm -rf device
mkdir device
cd ./device || exit 1
echo "start training"

export MS_WORKER_NUM=${MS_WORKER_NUM:-8}                                  # how many workers the job has
export MS_SCHED_HOST=${MS_SCHED_HOST:?"say where the scheduler is"}       # the scheduler's address
export MS_SCHED_PORT=${MS_SCHED_PORT:-6667}                               # the scheduler's port
command=(lockstep train --config "$CONFIG" "data.root=$DATA_PATH" "${@:3}")

# The second half of the workers.
for ((i = MS_WORKER_NUM / 2; i < MS_WORKER_NUM; i++)); do
    MS_ROLE=MS_WORKER "${command[@]}" >worker_$i.log 2>&1 &
done

status=0
for job in $(jobs -p); do
    wait "$job" || status=$?
done
exit $status
