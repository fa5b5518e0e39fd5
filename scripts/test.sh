#!/usr/bin/env bash
# Installs what the tests need, builds, and runs every test of the release build. scripts/sanitize.sh runs the tests of
# the rooms without libtorch under the sanitizers.
# LOCKSTEP_TEST_DATA: a folder with real data (cifar-10-batches-bin/, mnist/); without it, synthetic data alone.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install_dependencies.sh test
export LOCKSTEP_TEST_DATA="${LOCKSTEP_TEST_DATA:-}"
if [[ -n "$LOCKSTEP_TEST_DATA" ]]; then LOCKSTEP_TEST_DATA=$(realpath "$LOCKSTEP_TEST_DATA"); fi
echo "real data: ${LOCKSTEP_TEST_DATA:-none (tests use synthetic data)}"

stage() { printf '\n== %s (%d s since start)\n' "$1" "$SECONDS"; }

stage "build: release"
# A fresh clone is compiled in large pieces, which takes half the time; a build folder that is there stays as it is.
unity=()
[[ -f build/release/CMakeCache.txt ]] || unity=(-DLOCKSTEP_UNITY=ON)
cmake --preset release "${unity[@]}" >/dev/null
cmake --build --preset release

stage "lint"
scripts/lint.sh

stage "tests: release"
scripts/run_tests.sh release
echo "all stages took $SECONDS s"
