#!/usr/bin/env bash
# Formatting, floors and, with --tidy, clang-tidy over the rooms that do not include libtorch (--tidy-all: every room;
# about half an hour on two cores).
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t sources < <(git ls-files '*.h' '*.cpp')
clang-format --dry-run --Werror "${sources[@]}"
scripts/check_floors.sh

# clang cannot read g++'s precompiled header, and parsing libtorch's headers takes most of the time: so its sources go
# through in the large pieces of a unity build, configured in a folder of its own and never built.
tidy=()
if [[ "${1:-}" == --tidy* ]]; then
  cmake -S . -B build/tidy -G Ninja -DLOCKSTEP_UNITY=ON -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >/dev/null
  rooms='"file": "\K'$PWD'/(lockstep|build/tidy/rooms)/[^"]*\.(cpp|cxx)(?=")'
  [[ "$1" == --tidy-all ]] || rooms='"file": "\K'$PWD'/lockstep/(base|world|net|scheduler|doctor|data)/[^"]*\.cpp(?=")'
  mapfile -t tidy < <(grep -oP "$rooms" build/tidy/compile_commands.json | sort -u)
  printf '%s\n' "${tidy[@]}" | xargs -P "$(nproc)" -n 2 clang-tidy -p build/tidy --quiet --header-filter='lockstep/.*\.(h|cpp)$'
fi
echo "lint: ok (${#sources[@]} files formatted, ${#tidy[@]} translation units through clang-tidy)"
