#!/usr/bin/env bash
# Breaks a training job at random (kills, stops, partitions, full and slow disks) and compares its final weights with
# those of a run that nobody touched. The same seed breaks the same things in the same order; docs/surviving.md has more.
#
#   scripts/chaos.sh SEED [SECONDS [WORKERS]]      default: 120 s, 8 workers; LOCKSTEP_BACKEND=tcp for another backend
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD_DIR:-build/release}
[[ $# -ge 1 ]] || { grep '^#  ' "$0" | cut -c3- >&2; exit 2; }
cmake --build "$build" --target lockstep_chaos >/dev/null
exec "$build/tests/lockstep_chaos" "$1" "${2:-120}" "${3:-8}"
