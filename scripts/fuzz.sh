#!/usr/bin/env bash
# Throws random bytes at what reads bytes from strangers and people: libFuzzer under AddressSanitizer and
# UndefinedBehaviorSanitizer, with the corpus in tests/fuzz/corpus. A finding fails, and its input is kept in build/fuzz.
# Usage: scripts/fuzz.sh [SECONDS for each target, default 10] [TARGET ...]
# New inputs that reach new code go to build/fuzz/corpus; merge what is worth keeping into tests/fuzz/corpus.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-10}
targets=("${@:2}")
if ((${#targets[@]} == 0)); then targets=(messages tls_files certificates saved_state); fi

folder=build/fuzz
mkdir -p "$folder"
flags=(-std=c++20 -g -O1 -I. -DFMT_SHARED -fsanitize=address,undefined -fno-sanitize-recover=all)
# What the targets read with: none of it needs libtorch or Boost.
sources=(base/error base/file_text base/nearest scheduler/certificates scheduler/messages scheduler/saved_state scheduler/tls_files)
objects=()
for source in "${sources[@]}"; do
  object=$folder/${source//\//_}.o
  objects+=("$object")
  [[ "$object" -nt "lockstep/$source.cpp" && "$object" -nt "lockstep/$source.h" ]] ||
    clang++ "${flags[@]}" -fsanitize=fuzzer-no-link -c "lockstep/$source.cpp" -o "$object"
done
for target in "${targets[@]}"; do
  clang++ "${flags[@]}" -fsanitize=fuzzer "tests/fuzz/$target.cpp" "${objects[@]}" -lfmt -lssl -lcrypto -o "$folder/$target"
  mkdir -p "$folder/corpus/$target"
  echo "fuzz: $target, $seconds s"
  "$folder/$target" -max_total_time="$seconds" -max_len=20000 -timeout=20 -artifact_prefix="$folder/$target-" \
    -verbosity=0 -print_final_stats=1 "$folder/corpus/$target" "tests/fuzz/corpus/$target" 2>&1 |
    tee "$folder/$target.log" | grep -E 'stat::number_of_executed_units|ERROR|SUMMARY' || true
  if grep -qE 'ERROR|SUMMARY: ' "$folder/$target.log"; then
    echo "fuzz: $target found something; see $folder/$target.log" >&2
    exit 1
  fi
done
echo "fuzz: nothing found"
