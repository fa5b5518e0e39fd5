#!/bin/bash
# A job without MPI that survives the death of its workers and of its scheduler: whoever dies is started again, with the
# same name, and training goes on where it was. See docs/scheduler.md#recovery.
#
#   MS_RECOVERY_PATH=/path/state bash run_gpu_cluster_recovery.sh DATA_PATH CONFIG [KEY=VALUE ...]
#
# Try it: kill -9 some of the processes. Logs are in ./device.
export DATA_PATH=$(realpath "$1")
CONFIG=$(realpath "$2")
export MS_ENABLE_RECOVERY=1
export MS_RECOVERY_PATH=$(realpath -m "${MS_RECOVERY_PATH:-recovery}")
RESTARTS=${RESTARTS:-10}                             # of each process, before this gives up

rm -rf device
mkdir device
cd ./device || exit 1
echo "start training"

export MS_WORKER_NUM=${MS_WORKER_NUM:-8}             # how many workers the job has
export MS_SCHED_HOST=${MS_SCHED_HOST:-127.0.0.1}     # the scheduler's address
export MS_SCHED_PORT=${MS_SCHED_PORT:-6667}          # the scheduler's port
command=(lockstep train --config "$CONFIG" "data.root=$DATA_PATH" "${@:3}")

# Starts the command again each time that it fails: 0 once it has ended well. What is wrong with the command line, the
# configuration or the environment (2) is wrong the next time, too.
keep_running() {
    local status=1
    for ((start = 0; start <= RESTARTS; start++)); do
        "${command[@]}"
        status=$?
        if ((status == 0 || status == 2)); then break; fi
        echo "$MS_NODE_ID ended with $status" >>../device/restarts.log
    done
    return $status
}

# The scheduler.
MS_ROLE=MS_SCHED MS_NODE_ID=sched keep_running >scheduler.log 2>&1 &

# The workers, each with a name of its own.
for ((i = 0; i < MS_WORKER_NUM; i++)); do
    MS_ROLE=MS_WORKER MS_NODE_ID=worker_$i keep_running >worker_$i.log 2>&1 &
done

status=0
for job in $(jobs -p); do
    wait "$job" || status=$?
done
exit $status
