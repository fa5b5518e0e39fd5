#!/usr/bin/env bash
# test.sh [--quick | --all]: installs what the tests need, builds, and tests.
#   (nothing)   what continuous integration runs: the release build, lint, and all tests but the thorough ones
#   --quick     between two edits: builds, and runs the tests without processes of those rooms that changed since the last time
#   --all       everything: thorough tests too, today's libtorch, and the sanitizers. Takes several hours on two cores
# LOCKSTEP_TEST_DATA: a folder with real data (cifar-10-batches-bin/, mnist/); without it, synthetic data alone.
set -euo pipefail
cd "$(dirname "$0")/.."
case "$*" in
  "" | --quick | --all) what=$* ;;
  *) echo "usage: scripts/test.sh [--quick | --all]" >&2; exit 2 ;;
esac
if [[ "$what" == --quick ]]; then exec scripts/quick_tests.sh; fi

source scripts/stages.sh
stage "packages"
scripts/install_dependencies.sh test
export LOCKSTEP_TEST_DATA="${LOCKSTEP_TEST_DATA:-}"
if [[ -n "$LOCKSTEP_TEST_DATA" ]]; then LOCKSTEP_TEST_DATA=$(realpath "$LOCKSTEP_TEST_DATA"); fi
echo "real data: ${LOCKSTEP_TEST_DATA:-none (tests use synthetic data)}"
if [[ "$what" == --all ]]; then export LOCKSTEP_TEST_THOROUGH=1; fi

stage "lint"
scripts/lint.sh

stage "build: release"
# A fresh build has no benchmarks, as nothing here runs them.
if [[ "$what" == --all ]]; then
  benchmarks=(-DLOCKSTEP_BUILD_BENCHMARKS=ON)
elif [[ ! -f build/release/CMakeCache.txt ]]; then
  benchmarks=(-DLOCKSTEP_BUILD_BENCHMARKS=OFF)
fi
scripts/build.sh release -DLOCKSTEP_BUILD_TESTS=ON "${benchmarks[@]}"

stage "tests: release"
scripts/run_tests.sh release

if [[ "$what" == --all ]]; then
  end_stage
  scripts/test_torch2.sh
  scripts/sanitize.sh --all
fi
