#!/bin/bash
# Two ranks on this machine under Lockstep's own launcher, which also starts Python scripts and any other program.
#
#   bash run.sh path/to/model_config.yaml [KEY=VALUE ...]
exec lockstep run --nproc-per-node "${RANKS:-2}" lockstep train --config "$@"
