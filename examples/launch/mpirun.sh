#!/bin/bash
# Two ranks on this machine under MPI. They need no address and no port: MPI itself carries where they meet.
#
#   bash mpirun.sh path/to/model_config.yaml [KEY=VALUE ...]
#
# MPIRUN_FLAGS goes to mpirun, e.g. "--oversubscribe" where there are fewer cores than ranks.
exec mpirun -n "${RANKS:-2}" ${MPIRUN_FLAGS:-} lockstep train --config "$@"
