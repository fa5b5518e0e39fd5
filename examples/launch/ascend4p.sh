#!/bin/bash
# Four ranks on devices 4-7 of one host from a rank table, in the folder that holds it:
#
#   lockstep rank-table --device_num "[4,8)" --server_ip 127.0.0.1
#   bash ascend4p.sh path/to/model_config.yaml [KEY=VALUE ...]
#
# Rank 0 writes to train.log; the others are silent. DEVICE_NUM is the number of devices of the host, not of the job.
export DEVICE_NUM=8
export RANK_SIZE=4
export RANK_TABLE_FILE="./hccl_4p_4567_127.0.0.1.json"
ranks=()
for ((i = 0; i < ${RANK_SIZE}; i++)); do
    export DEVICE_ID=$((i+4))
    export RANK_ID=$i
    echo "Launching rank: ${RANK_ID}, device: ${DEVICE_ID}"
    if [ $i -eq 0 ]; then
        echo 'i am 0'
        lockstep train --config "$@" &> ./train.log &
    else
        echo 'not 0'
        lockstep train --config "$@" &> /dev/null &
    fi
    ranks+=($!)
done
# Fails when a rank does.
status=0
for rank in "${ranks[@]}"; do
    wait "$rank" || status=$?
done
exit $status
