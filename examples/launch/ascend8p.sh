#!/bin/bash
# Eight ranks on one host from a rank table, in the folder that holds it:
#
#   lockstep rank-table --device_num "[0,8)" --server_ip 127.0.0.1
#   bash ascend8p.sh path/to/model_config.yaml [KEY=VALUE ...]
#
# Rank 0 writes to train.log; the others are silent.
export DEVICE_NUM=8
export RANK_SIZE=8
export RANK_TABLE_FILE="./hccl_8p_01234567_127.0.0.1.json"
ranks=()
for ((i = 0; i < ${RANK_SIZE}; i++)); do
    export DEVICE_ID=$i
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
