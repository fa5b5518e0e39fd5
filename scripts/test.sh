#!/usr/bin/env bash
# Installs what the tests need, builds, and runs every test of the release build. scripts/sanitize.sh runs tests under the
# sanitizers, scripts/test_torch2.sh those of today's libtorch.
# LOCKSTEP_TEST_DATA: a folder with real data (cifar-10-batches-bin/, mnist/); without it, synthetic data alone.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install_dependencies.sh test
export LOCKSTEP_TEST_DATA="${LOCKSTEP_TEST_DATA:-}"
if [[ -n "$LOCKSTEP_TEST_DATA" ]]; then LOCKSTEP_TEST_DATA=$(realpath "$LOCKSTEP_TEST_DATA"); fi
echo "real data: ${LOCKSTEP_TEST_DATA:-none (tests use synthetic data)}"

stage() { printf '\n== %s (%d s since start)\n' "$1" "$SECONDS"; }

stage "build: release"
scripts/build.sh release -DLOCKSTEP_BUILD_TESTS=ON

stage "lint"
scripts/lint.sh

stage "tests: release"
scripts/run_tests.sh release

echo "all stages took $SECONDS s"
