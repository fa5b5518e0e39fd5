#!/usr/bin/env bash
# The tests of the rooms without libtorch under ThreadSanitizer, then AddressSanitizer and UndefinedBehaviorSanitizer.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install_dependencies.sh test
for preset in tsan asan-ubsan; do
  printf '\n== %s (%d s since start)\n' "$preset" "$SECONDS"
  # As in scripts/test.sh: in large pieces, unless the folder is there.
  unity=()
  [[ -f build/$preset/CMakeCache.txt ]] || unity=(-DLOCKSTEP_UNITY=ON)
  cmake --preset "$preset" "${unity[@]}" >/dev/null
  cmake --build --preset "$preset" --target lockstep_tests_plain
  scripts/run_tests.sh "$preset" -L plain
done
