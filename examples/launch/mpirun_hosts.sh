#!/bin/bash
# Two hosts with two ranks each under Open MPI, which reaches them by ssh (without a password) and finds lockstep there
# at the same path. Started on the first of them:
#
#   bash mpirun_hosts.sh hosta,hostb path/to/model_config.yaml [KEY=VALUE ...]
#
# The configuration, the data and the folder of the results are on all hosts at the same paths. Addresses and ports are
# MPI's to exchange: no MASTER_ADDR is set. Where a host has several networks, NETWORK names the one to use, in
# CIDR notation (10.0.0.0/24) or as an interface (eth0). MPIRUN_FLAGS goes to mpirun.
IFS=, read -ra hosts <<<"$1"
RANKS_PER_HOST="${RANKS_PER_HOST:-2}"
hostfile=$(mktemp)
trap 'rm -f "$hostfile"' EXIT
for host in "${hosts[@]}"; do
    echo "$host slots=$RANKS_PER_HOST" >>"$hostfile"
done
network=()
if [[ -n ${NETWORK:-} ]]; then
    network=(--mca btl_tcp_if_include "$NETWORK" --mca oob_tcp_if_include "$NETWORK")
fi
# mpirun hands on no variables unless told (-x): these are the ones that change what the ranks do.
variables=()
for name in PATH LD_LIBRARY_PATH OMP_NUM_THREADS LOCKSTEP_START_TIMEOUT_S; do
    if [[ -n ${!name:-} ]]; then variables+=(-x "$name"); fi
done
mpirun -n $((${#hosts[@]} * RANKS_PER_HOST)) --hostfile "$hostfile" --map-by slot "${network[@]}" "${variables[@]}" \
    ${MPIRUN_FLAGS:-} lockstep train --config "${@:2}"
