#!/usr/bin/env bash
# Throws random bytes at what reads bytes from strangers and people: libFuzzer under AddressSanitizer and
# UndefinedBehaviorSanitizer, with the corpus in tests/fuzz/corpus. A finding fails, and its input is kept in build/fuzz.
# Usage: scripts/fuzz.sh [SECONDS for each target, default 10] [TARGET ...]
# New inputs that reach new code go to build/fuzz/corpus; merge what is worth keeping into tests/fuzz/corpus.
# Without clang's libFuzzer it says so, and exits with 77.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-10}
targets=("${@:2}")
if ((${#targets[@]} == 0)); then targets=(messages tls_files certificates saved_state pth_archive pth_pickle old_pth mindspore shard_index lmdb csv tokens plugin_file server_requests pictures); fi

folder=build/fuzz
mkdir -p "$folder"
compiler=(clang++)
if command -v ccache >/dev/null; then compiler=(ccache clang++); fi
if ! echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
  clang++ -fsanitize=fuzzer,address -x c++ - -o "$folder/probe" 2>"$folder/probe.log"; then
  echo "skipped: fuzzing needs clang++ and its libFuzzer (Debian: clang, libclang-rt-dev): $(head -1 "$folder/probe.log")"
  exit 77
fi

flags=(-std=c++20 -g1 -O1 -Iinclude -I. -DFMT_SHARED -DLOCKSTEP_HAS_TURBOJPEG=1 -DLOCKSTEP_HAS_WEBP=1 -DLOCKSTEP_HAS_TIFF=1 -fsanitize=address,undefined -fno-sanitize-recover=all)
# What the targets read with: none of it needs libtorch or Boost.
sources=(base/error base/files base/json base/log base/nearest base/text base/unique_fd base/utf8 data/files/text_files data/files/decode_bmp data/files/decode_jpeg
  data/files/decode_png data/files/decode_tiff data/files/decode_webp data/files/exif data/files/lmdb data/files/mapped_file data/files/picture
  data/files/token_file membership/admission membership/decisions membership/membership membership/messages net/certificates/certificates net/certificates/tls_files membership/service/state_writer
  rows/row_rule parameter_servers/wire
  state/pth/archive state/pth/mindspore state/pth/pickle state/pth/state_dict state/pth/zip_entries
  state/safetensors_header train/plugins/shared_library)
# compile OBJECT FLAG SOURCE: unless the object is newer than the source and all headers of those rooms.
compile() {
  [[ -f "$1" && "$1" -nt "$3" && -z $(find {.,include}/lockstep/base lockstep/data/files lockstep/rows lockstep/membership lockstep/net lockstep/parameter_servers lockstep/state lockstep/train/plugins tests/fuzz -name '*.h' -newer "$1" -print -quit) ]] ||
    "${compiler[@]}" "${flags[@]}" "$2" -c "$3" -o "$1"
}
started=$SECONDS
objects=()
for source in "${sources[@]}"; do
  object=$folder/${source//\//_}.o
  objects+=("$object")
  compile "$object" -fsanitize=fuzzer-no-link "lockstep/$source.cpp"
done
for target in "${targets[@]}"; do
  compile "$folder/$target.o" -fsanitize=fuzzer-no-link "tests/fuzz/$target.cpp"
  clang++ "${flags[@]}" -fsanitize=fuzzer "$folder/$target.o" "${objects[@]}" -lfmt -lssl -lcrypto -lz -lturbojpeg -lpng -lwebp -ltiff -o "$folder/$target"
done
echo "fuzz: compiled in $((SECONDS - started)) s"

for target in "${targets[@]}"; do
  mkdir -p "$folder/corpus/$target"
  echo "fuzz: $target, $seconds s"
  status=0
  "$folder/$target" -max_total_time="$seconds" -max_len=20000 -timeout=20 -artifact_prefix="$folder/$target-" \
    -verbosity=0 -print_final_stats=1 "$folder/corpus/$target" "tests/fuzz/corpus/$target" \
    >"$folder/$target.log" 2>&1 || status=$?
  grep -E 'stat::number_of_executed_units|ERROR|SUMMARY' "$folder/$target.log" || true
  if ((status)) || ! grep -q 'stat::number_of_executed_units: [1-9]' "$folder/$target.log"; then
    tail -n 40 "$folder/$target.log"
    echo "fuzz: $target found an error (exit code $status); see $folder/$target.log" >&2
    exit 1
  fi
done
echo "fuzz: no errors found"
