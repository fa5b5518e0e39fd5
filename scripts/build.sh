#!/usr/bin/env bash
# build.sh PRESET [-DNAME=VALUE...] [TARGET...]: configures and builds. A fresh clone is compiled in large pieces, which takes
# half the time; a build folder that is there keeps its settings, but for those given.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
settings=()
targets=()
for word in "${@:2}"; do
  if [[ $word == -D* ]]; then settings+=("$word"); else targets+=("$word"); fi
done
if ((${#targets[@]} > 0)); then targets=(--target "${targets[@]}"); fi
[[ -f build/$preset/CMakeCache.txt ]] || settings+=(-DLOCKSTEP_UNITY=ON)
cmake --preset "$preset" "${settings[@]}" >/dev/null
cmake --build --preset "$preset" "${targets[@]}"
