#!/usr/bin/env bash
# run_tests.sh PRESET [words for ctest]: runs tests of that build, with the output of those that fail, and lists what was
# skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
# Of a test that fails, only what failed.
export GTEST_BRIEF=1
status=0
ctest --preset "$preset" --no-tests=error "$@" || status=$?
# Every skip with its reason: a test that is skipped in silence does not exist.
skipped=$(grep -h '^skipped: ' "build/$preset/Testing/Temporary/LastTest.log") || true
echo "${skipped:-skipped: none}"
exit $status
