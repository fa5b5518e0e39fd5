#!/bin/bash
# A cloud's job, first way: a program that starts the ranks of its host itself, as mp.spawn does. The platform hands it
# --init_method, --rank and --world_size, which count hosts:
#
#   bash cloud_spawn.sh --config path/to/model_config.yaml --init_method tcp://job-0:6060 --rank 0 --world_size 2
#
# Each host starts MA_NUM_GPUS ranks. Without the three arguments VC_WORKER_HOSTS, VC_TASK_INDEX and MA_NUM_HOSTS say
# the same, and the ranks meet on port 6060 of the first host.
exec lockstep train "$@"
