#!/bin/bash
# Two nodes from a list. On a cluster the same command is started on each node, and nothing else:
#
#   lockstep train --config run.yaml "parallel.nodes=[{addr: 192.168.1.12}, {addr: 192.168.1.11}]" \
#       parallel.ctrl_port=9988 parallel.devices_per_node=1
#
# (or the three keys stand in run.yaml). The first address is node 0: it prints and saves, the others wait for it and
# then compute. Here both nodes are this machine, so LOCKSTEP_NODE_ADDR says which of them a process is.
#
#   bash node_list.sh path/to/model_config.yaml [KEY=VALUE ...]
nodes="[{addr: 127.0.0.2}, {addr: 127.0.0.3}]"
command=(lockstep train --config "$1" "parallel.nodes=$nodes" "parallel.ctrl_port=${CTRL_PORT:-9988}" "${@:2}")
LOCKSTEP_NODE_ADDR=127.0.0.3 "${command[@]}" &
other=$!
LOCKSTEP_NODE_ADDR=127.0.0.2 "${command[@]}"
status=$?
wait $other || status=$?
exit $status
