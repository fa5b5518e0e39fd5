#!/bin/bash
# Several nodes under Lockstep's own launcher: this same command on each of them, and nothing else. A node finds its
# place in the list by its addresses; the first is node 0, on whose port CTRL_PORT all meet.
#
#   bash run_nodes.sh 10.0.0.1,10.0.0.2 path/to/model_config.yaml [KEY=VALUE ...]
exec lockstep run --nodes "$1" --ctrl_port "${CTRL_PORT:-9988}" --nproc-per-node "${RANKS_PER_NODE:-2}" \
    lockstep train --config "${@:2}"
