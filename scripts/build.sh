#!/usr/bin/env bash
# build.sh PRESET [TARGET...]: configures and builds. A fresh clone is compiled in large pieces, which takes half the time; a
# build folder that is there stays as it is.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
targets=()
if (($# > 1)); then targets=(--target "${@:2}"); fi
unity=()
[[ -f build/$preset/CMakeCache.txt ]] || unity=(-DLOCKSTEP_UNITY=ON)
cmake --preset "$preset" "${unity[@]}" >/dev/null
cmake --build --preset "$preset" "${targets[@]}"
