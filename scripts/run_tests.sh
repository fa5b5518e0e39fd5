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
if ((status != 0)); then
  # Once more and last: a log may be cut, and in the middle of one nobody finds them.
  printf '\nwhat failed:\n'
  grep -h -A 12 -E ': Failure$|^\[  FAILED  \]|\(Failed\)|^Test timeout' "build/$preset/Testing/Temporary/LastTest.log" |
    cut -c 1-400 | head -n 300 || true
fi
# Every skip with its reason: a test that is skipped in silence does not exist.
skipped=$(grep -h '^skipped: ' "build/$preset/Testing/Temporary/LastTest.log") || true
echo "${skipped:-skipped: none}"
exit $status
