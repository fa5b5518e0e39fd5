#!/usr/bin/env bash
# The tests of the rooms without libtorch under ThreadSanitizer, then AddressSanitizer and UndefinedBehaviorSanitizer.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install_dependencies.sh test
for preset in tsan asan-ubsan; do
  cmake --preset "$preset" >/dev/null
  cmake --build --preset "$preset" --target lockstep_tests_plain
  ctest --test-dir "build/$preset" -L plain --output-on-failure --no-tests=error
done
