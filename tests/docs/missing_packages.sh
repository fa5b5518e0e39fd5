#!/usr/bin/env bash
# missing_packages.sh SOURCE CMAKE COMPILER: configures without packages that Lockstep needs, and expects to be told all of them by
# their Debian names, and what to do; then without GoogleTest, which only tests need, and with a Python that has no libtorch.
set -euo pipefail
source=$1
cmake=$2
compiler=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# configure WORD...: its output goes to $folder/output.
configure() {
  rm -rf "$folder/build"
  "$cmake" -S "$source" -B "$folder/build" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" "$@" >"$folder/output" 2>&1
}
expect() {
  grep -qF -e "$1" "$folder/output" || { cat "$folder/output" >&2; echo "expected: $1" >&2; exit 1; }
}
refused() {
  if configure "$@"; then echo "configured with $*" >&2; exit 1; fi
}

packages=(fmt:libfmt-dev spdlog:libspdlog-dev yaml-cpp:libyaml-cpp-dev nlohmann_json:nlohmann-json3-dev CLI11:libcli11-dev
  OpenSSL:libssl-dev Boost:libboost-dev ZLIB:zlib1g-dev PNG:libpng-dev Torch:libtorch-dev)
without=()
for package in "${packages[@]}"; do without+=("-DCMAKE_DISABLE_FIND_PACKAGE_${package%%:*}=ON"); done
refused "${without[@]}"
for package in "${packages[@]}"; do
  expect "${package%%:*} (Debian's ${package#*:})"
  grep -qwF -e "${package#*:}" "$source/scripts/install_dependencies.sh" || { echo "not installed: ${package#*:}" >&2; exit 1; }
done
expect "scripts/install_dependencies.sh installs everything"

refused -DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON
expect "Lockstep's tests need GoogleTest, and CMake did not find it (Debian's libgtest-dev and libgmock-dev)"
expect "Build without tests: -DLOCKSTEP_BUILD_TESTS=OFF"
configure -DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON -DLOCKSTEP_BUILD_TESTS=OFF || { cat "$folder/output" >&2; exit 1; }

refused -DLOCKSTEP_TORCH_PYTHON="$folder/no-such-python"
expect "no-such-python, which has no torch with libtorch's headers in it"
expect "scripts/install_torch.sh"
