#!/usr/bin/env bash
# test_torch2.sh [words for ctest]: builds Lockstep with today's libtorch (scripts/install_torch.sh) and runs the tests of the
# rooms that use libtorch, and the comparisons with that PyTorch. Where it cannot be installed, says so and ends well.
# The other tests (launchers, recovery, chaos) watch processes, whatever computes in them: scripts/test.sh runs them with
# Debian's libtorch alone. All of them: scripts/build.sh torch2 && scripts/run_tests.sh torch2
set -euo pipefail
cd "$(dirname "$0")/.."

source scripts/stages.sh

stage "packages: today's libtorch"
if ! scripts/install_torch.sh; then
  echo "skipped: tests with today's libtorch, which could not be installed (the reason is above)"
  exit 0
fi
stage "build: torch2"
scripts/build.sh torch2 -DLOCKSTEP_BUILD_TESTS=ON lockstep_tests_torch lockstep_tests_parity lockstep_cli
build/torch2/lockstep info

stage "tests: torch2"
scripts/run_tests.sh torch2 -L '^(torch|parity)$' "$@"
