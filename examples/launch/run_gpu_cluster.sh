#!/bin/bash
# A job without MPI on one machine: 8 workers and a scheduler, each started by hand with the same command.
#
#   bash run_gpu_cluster.sh DATA_PATH CONFIG [KEY=VALUE ...]
#   bash run_gpu_cluster.sh /path/dataset configs/resnet50_cifar10.yaml train.epochs=1
#
# The logs are device/worker_*.log and device/scheduler.log. While it runs, `lockstep status` (with MS_SCHED_HOST and
# MS_SCHED_PORT as below) or `curl http://127.0.0.1:6667/v1/status` shows how it stands.
export DATA_PATH=$(realpath "$1")
CONFIG=$(realpath "$2")

rm -rf device
mkdir device
cd ./device || exit 1
echo "start training"

export MS_WORKER_NUM=${MS_WORKER_NUM:-8}             # how many workers the job has
export MS_SCHED_HOST=${MS_SCHED_HOST:-127.0.0.1}     # the scheduler's address
export MS_SCHED_PORT=${MS_SCHED_PORT:-6667}          # the scheduler's port
command=(lockstep train --config "$CONFIG" "data.root=$DATA_PATH" "${@:3}")

# The workers.
for ((i = 0; i < MS_WORKER_NUM; i++)); do
    MS_ROLE=MS_WORKER "${command[@]}" >worker_$i.log 2>&1 &
done

# The scheduler.
MS_ROLE=MS_SCHED "${command[@]}" >scheduler.log 2>&1 &

status=0
for job in $(jobs -p); do
    wait "$job" || status=$?
done
exit $status
