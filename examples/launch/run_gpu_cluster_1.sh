#!/bin/bash
# A job without MPI on two machines: this on machine 1 starts the scheduler and half of the workers, and
# run_gpu_cluster_2.sh on machine 2 the other half. Which of them is started first does not matter.
#
#   MS_SCHED_HOST=10.0.0.1 bash run_gpu_cluster_1.sh DATA_PATH CONFIG [KEY=VALUE ...]
#
# 10.0.0.1 is machine 1. The scheduler listens to other machines only with TLS, or when it is told that the network is
# trusted. With TLS, made by `lockstep certs init certs --nodes 10.0.0.1,10.0.0.2` and certs/10.0.0.2 copied to machine 2:
#
#   LOCKSTEP_ENABLE_SSL=1 LOCKSTEP_CLUSTER_CONFIG=certs/10.0.0.1/config.json MS_SCHED_HOST=10.0.0.1 bash ...
#
# and in a network that you trust:
#
#   LOCKSTEP_ALLOW_INSECURE=1 MS_SCHED_HOST=10.0.0.1 bash ...
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

# The first half of the workers.
for ((i = 0; i < MS_WORKER_NUM / 2; i++)); do
    MS_ROLE=MS_WORKER "${command[@]}" >worker_$i.log 2>&1 &
done

# The scheduler.
MS_ROLE=MS_SCHED "${command[@]}" >scheduler.log 2>&1 &

status=0
for job in $(jobs -p); do
    wait "$job" || status=$?
done
exit $status
