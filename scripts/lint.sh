#!/usr/bin/env bash
# Formatting, floors, public headers, what documents point to and, with --tidy, clang-tidy over the rooms that do not include
# libtorch (--tidy-all: every room; 15 to 30 minutes on two cores).
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t sources < <(git ls-files '*.h' '*.cpp')
clang-format --dry-run --Werror "${sources[@]}"
scripts/check_floors.sh
scripts/type_names.py >/dev/null || scripts/type_names.py | tail -n 20 >&2
scripts/check_public_headers.sh
scripts/check_docs.sh

# clang cannot read g++'s precompiled header, and parsing libtorch's headers takes most of the time: so its sources go
# through in the large pieces of a unity build, configured in a folder of its own and never built.
tidy=()
status=0
if [[ "${1:-}" == --tidy* ]]; then
  cmake -S . -B build/tidy -G Ninja -DLOCKSTEP_UNITY=ON -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >/dev/null
  rooms='[^/]*'
  [[ "$1" == --tidy-all ]] || rooms='(base|world|net|membership|doctor|data)'
  mapfile -t tidy < <(grep -oP '"file": "\K'"$PWD/(lockstep|apps|build/tidy/rooms|build/tidy/apps)/$rooms"'/[^"]*\.(cpp|cxx)(?=")' \
    build/tidy/compile_commands.json | sort -u)
  # What Boost.Asio 1.74 and libstdc++ 12 do not know of clang 14: that it has coroutines.
  coroutines=(--extra-arg=-D__cpp_impl_coroutine=201902L --extra-arg=-DBOOST_ASIO_HAS_{CO_AWAIT,STD_COROUTINE}=1)
  printf '%s\n' "${tidy[@]}" | xargs -P "$(nproc)" -n 1 clang-tidy -p build/tidy --quiet \
    --extra-arg=-include --extra-arg="$PWD/scripts/clang_tidy_prefix.h" "${coroutines[@]}" \
    --checks=-bugprone-suspicious-include --header-filter='(lockstep|apps)/.*\.(h|cpp)$' || status=1
fi
if ((status)); then
  echo "lint: clang-tidy reported errors" >&2
  exit 1
fi
echo "lint: ok (${#sources[@]} files formatted, ${#tidy[@]} translation units through clang-tidy)"
