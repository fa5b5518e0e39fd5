#!/bin/bash
# A C++ program that starts its own ranks with lockstep::spawn (examples/spawn.cpp), as torch.multiprocessing.spawn does.
# With the program's path, two ranks on this machine:
#
#   bash spawn.sh build/release/examples/spawn
#
# On several nodes the same on each of them, with node 0's address and a free port there, and the node's number:
#
#   NODES=2 NODE_RANK=0 MASTER_ADDR=10.0.0.1 MASTER_PORT=6060 bash spawn.sh build/release/examples/spawn
RANKS="${RANKS:-2}"
if [[ -z ${NODES:-} ]]; then
    exec "$1" --nprocs "$RANKS"
fi
exec "$1" --nprocs "$RANKS" --init_method "tcp://$MASTER_ADDR:$MASTER_PORT" --world_size "$NODES" --rank "$NODE_RANK"
