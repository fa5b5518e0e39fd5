#!/usr/bin/env bash
# Formatting, floors and, with --tidy, clang-tidy over the sources that do not include libtorch (--tidy-all: every
# source; slow, because each parses libtorch's headers anew).
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t sources < <(git ls-files '*.h' '*.cpp')
clang-format --dry-run --Werror "${sources[@]}"
scripts/check_floors.sh

tidy=()
case "${1:-}" in
  --tidy) mapfile -t tidy < <(git ls-files 'lockstep/base/*.cpp' 'lockstep/world/*.cpp' 'lockstep/data/*.cpp') ;;
  --tidy-all) mapfile -t tidy < <(git ls-files 'lockstep/*.cpp') ;;
esac
if ((${#tidy[@]})); then
  [[ -f build/release/compile_commands.json ]] || cmake --preset release >/dev/null
  # clang cannot read g++'s precompiled header: drop it from a copy of the compile commands.
  mkdir -p build/tidy
  sed -E 's/ -Winvalid-pch//g; s/ -include [^ ]*cmake_pch\.hxx//g; s/ -fpch-preprocess//g' \
    build/release/compile_commands.json >build/tidy/compile_commands.json
  printf '%s\n' "${tidy[@]}" | xargs -P "$(nproc)" -n 4 clang-tidy -p build/tidy --quiet
fi
echo "lint: ok (${#sources[@]} files formatted, ${#tidy[@]} files through clang-tidy)"
