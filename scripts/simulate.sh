#!/usr/bin/env bash
# simulate.sh [--lives N] [--seconds S] [--seed S] [--trace] [--twice]: lives of jobs in simulated time, with faults
# (docs/reliability.md). Builds the release preset's program for it and ends with 0 if nothing happened that must never happen.
# simulate.sh --mutants: puts known mistakes into the code, one at a time, and shows that the lives find each of them.
set -euo pipefail
cd "$(dirname "$0")/.."
if [[ ! -f build/release/build.ninja ]]; then scripts/build.sh release -DLOCKSTEP_BUILD_TESTS=ON >&2; fi
ninja -C build/release simulate >&2
if [[ "${1:-}" == --mutants ]]; then exec python3 tests/simulation/mutants.py build/release; fi
exec build/release/tests/simulate "$@"
