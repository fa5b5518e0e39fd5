#!/usr/bin/env bash
# quick_tests.sh: scripts/test.sh --quick. Builds the test programs that start no processes (ctest's label quick), and runs those
# that are newer than their last success.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/lint.sh
scripts/build.sh release -DLOCKSTEP_BUILD_TESTS=ON lockstep_tests_quick
passed=build/release/quick
mkdir -p "$passed"
changed=()
while read -r name program; do
  [[ "$passed/$name" -nt "$program" ]] || changed+=("$name")
done < <(ctest --preset release -L '^quick$' --show-only=json-v1 | jq -r '.tests[] | .name + " " + .command[0]')
if ((${#changed[@]} == 0)); then
  echo "no test program without processes has changed since its last success"
  exit 0
fi
GTEST_BRIEF=1 ctest --preset release -L '^quick$' -R "^($(IFS='|'; echo "${changed[*]}"))\$" --no-tests=error
(cd "$passed" && touch "${changed[@]}")
