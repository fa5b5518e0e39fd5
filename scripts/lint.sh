#!/usr/bin/env bash
# Formatting, floors and, with --tidy, clang-tidy over the rooms that do not include libtorch (--tidy-all: every room;
# about half an hour on two cores).
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t sources < <(git ls-files '*.h' '*.cpp')
clang-format --dry-run --Werror "${sources[@]}"
scripts/check_floors.sh

# clang cannot read g++'s precompiled header, and parsing libtorch's headers takes most of the time: so its sources go
# through in the large pieces of a unity build, configured in a folder of its own and never built. Those headers (1.13)
# parse as C++20 with libc++ alone (Debian: libc++-14-dev).
tidy=()
status=0
if [[ "${1:-}" == --tidy* ]]; then
  cmake -S . -B build/tidy -G Ninja -DLOCKSTEP_UNITY=ON -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >/dev/null
  # What Boost.Asio 1.74 and libstdc++ 12 do not know of clang 14: that it has coroutines.
  coroutines=(--extra-arg=-D__cpp_impl_coroutine=201902L --extra-arg=-DBOOST_ASIO_HAS_{CO_AWAIT,STD_COROUTINE}=1)
  pieces() { grep -oP '"file": "\K'"$PWD/$1"'(?=")' build/tidy/compile_commands.json | sort -u; }
  check() { xargs -P "$(nproc)" -n 1 clang-tidy -p build/tidy --quiet --checks=-bugprone-suspicious-include \
    "${coroutines[@]}" --header-filter='lockstep/.*\.(h|cpp)$' "$@"; }
  torch_free='(base|world|net|scheduler|doctor|data)'
  mapfile -t tidy < <(pieces "(lockstep|build/tidy/rooms)/$torch_free/[^\"]*\.(cpp|cxx)")
  printf '%s\n' "${tidy[@]}" | check || status=1
  if [[ "$1" == --tidy-all ]]; then
    mapfile -t others < <(pieces "(lockstep|build/tidy/rooms)/(?!$torch_free/)[^\"]*\.(cpp|cxx)")
    printf '%s\n' "${others[@]}" | check --extra-arg=-stdlib=libc++ || status=1
    tidy+=("${others[@]}")
  fi
fi
if ((status)); then
  echo "lint: clang-tidy found something" >&2
  exit 1
fi
echo "lint: ok (${#sources[@]} files formatted, ${#tidy[@]} translation units through clang-tidy)"
