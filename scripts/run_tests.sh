#!/usr/bin/env bash
# run_tests.sh PRESET [words for ctest]: runs tests of that build, with the output of those that fail, and lists what was
# skipped. Thorough tests, which take long, are left out unless LOCKSTEP_TEST_THOROUGH is 1 (scripts/test.sh --all).
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
left_out=()
if [[ "${LOCKSTEP_TEST_THOROUGH:-}" != 1 ]]; then left_out=(-LE '^thorough$'); fi
# Of a test that fails, only what failed.
export GTEST_BRIEF=1
status=0
ctest --preset "$preset" --no-tests=error "${left_out[@]}" "$@" || status=$?
log=build/$preset/Testing/Temporary/LastTest.log
if ((status != 0)); then
  # ctest's own account of a failure has all that the processes of the test printed: too much to find anything in.
  report_failures() {
    printf '\nwhat failed (all that it printed is in %s):\n' "$log"
    awk -f scripts/failed_tests.awk "$log" | cut -c 1-400 | head -n 400
  }
  # The outermost script prints it last, where a reader of a long log looks first.
  if [[ -n "${LOCKSTEP_TIMES:-}" ]]; then report_failures >>"$LOCKSTEP_TIMES/failures"; else report_failures; fi
fi
# Every skip with its reason: a test that is skipped in silence does not exist.
skipped=$(grep -h '^skipped: ' "$log") || true
echo "${skipped:-skipped: none}"
if [[ -n "${LOCKSTEP_TIMES:-}" ]]; then  # scripts/stages.sh
  awk -v preset="$preset" '/^[0-9]+\/[0-9]+ Test: / { name = $3 } /^Test time = / { print $4, name, preset }' "$log" >>"$LOCKSTEP_TIMES/tests"
fi
exit $status
