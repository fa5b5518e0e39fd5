#!/usr/bin/env bash
# Packs what Lockstep is built with, besides libtorch and CUDA, into a folder, for a GPU host where nothing can be installed
# (scripts/gpu_check.sh --deps). From Debian's packages, of this Debian; Boost's headers are as many as a build here has read.
# Usage: scripts/gpu_deps.sh FOLDER [BUILD]      (BUILD: a folder where Lockstep was built, default build/release)
set -euo pipefail
[[ ${1:-} != -h && ${1:-} != --help ]] || { sed -n '2,4s/^# //p' "$0"; exit 0; }
fail() { echo "error: $*" >&2; exit 1; }
(($# == 1 || $# == 2)) || fail "usage: scripts/gpu_deps.sh FOLDER [BUILD]"
folder=$(realpath -m "$1")
cd "$(dirname "$0")/.."
build=${2:-build/release}
[[ -f $build/.ninja_deps ]] || fail "$build has no build that lists the headers of Boost it reads; scripts/build.sh release makes one"
[[ ! -e $folder || -z "$(ls -A "$folder")" ]] || fail "$folder exists and is not empty"

headers=(libfmt-dev libspdlog-dev libyaml-cpp-dev nlohmann-json3-dev libcli11-dev libssl-dev zlib1g-dev libpng-dev libgtest-dev libgmock-dev googletest liblmdb-dev)
# The libraries that these headers belong to, and not those of every system.
mapfile -t libraries < <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' 'libfmt*' 'libspdlog*' 'libyaml-cpp*' 'libssl*' 'zlib1g' 'libpng16*' 'liblmdb*' |
  awk '$1 == "installed" && $2 !~ /-(dev|doc)$/ { print $2 }')
packages=$(mktemp -d)
trap 'rm -rf "$packages"' EXIT
(cd "$packages" && apt-get download -q "${headers[@]}" "${libraries[@]}") || fail "apt-get cannot download the packages; run apt-get update first"
mkdir -p "$folder"
for package in "$packages"/*.deb; do dpkg-deb -x "$package" "$folder"; done
# All libraries in one folder, and no link that leads out of it.
[[ ! -d $folder/lib ]] || { cp -a "$folder/lib/." "$folder/usr/lib/"; rm -rf "$folder/lib"; }
find "$folder" -lname '/*' -print0 | while IFS= read -r -d '' link; do ln -sfn "$(basename "$(readlink "$link")")" "$link"; done
rm -rf "$folder"/usr/share/{doc,man,lintian} "$folder"/usr/lib/*/libcrypto.a "$folder"/usr/lib/*/libssl.a "$folder"/usr/src

# Boost has 15,000 headers. CMake reads one more than the build does.
ninja -C "$build" -t deps | grep -oP '^\s+\K/usr/include/boost/\S+' | sort -u > "$packages/boost"
[[ -s $packages/boost ]] || fail "the build in $build has read no header of Boost; build the program there first"
echo /usr/include/boost/version.hpp >> "$packages/boost"
tar -C / -cf - --files-from <(sed 's|^/||' "$packages/boost" | sort -u) | tar -C "$folder" -xf -
echo "$folder: $(du -sh "$folder" | cut -f1), $(sort -u "$packages/boost" | wc -l) headers of Boost. Take it along: scripts/gpu_check.sh --python PYTHON --deps FOLDER --json FILE"
