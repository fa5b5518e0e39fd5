#!/usr/bin/env bash
# sanitize.sh [--all]: the tests of the rooms without libtorch (ctest's label plain) under ThreadSanitizer, then under
# AddressSanitizer and UndefinedBehaviorSanitizer. With --all the latter two watch the rooms with libtorch (label torch), too.
#
# Left out, and why:
# - libtorch under ThreadSanitizer, which cannot see the locks of a library that was built without it.
# - cli, recovery, fork_start, fork_server, chaos, launchers: whole programs that start, die and are replaced, with the
#   time limits that users have. Most of what they are made of runs here in the tests of its rooms.
# - parity, where Python is the program; install_consumer, which is another project; fuzz, which has sanitizers of its own.
# - leaks in what mpirun starts: Open MPI has its own (tests/support/mpi_leaks.cpp). libtorch has none.
set -euo pipefail
cd "$(dirname "$0")/.."
all=
case "$*" in
  "") ;;
  --all) all=yes ;;
  *) echo "usage: scripts/sanitize.sh [--all]" >&2; exit 2 ;;
esac

scripts/install_dependencies.sh test
for preset in tsan asan-ubsan; do
  labels=(plain)
  if [[ $all && $preset == asan-ubsan ]]; then labels+=(torch); fi
  printf '\n== %s: %s (%d s since start)\n' "$preset" "${labels[*]}" "$SECONDS"
  scripts/build.sh "$preset" "${labels[@]/#/lockstep_tests_}"
  scripts/run_tests.sh "$preset" -L "$(IFS='|'; echo "${labels[*]}")"
done
