#!/usr/bin/env bash
# Installs what building (and, with "test", testing) Lockstep needs from the own packages of Debian 12 or 13.
# Usage: scripts/install_dependencies.sh [build|test]
set -euo pipefail

build_packages=(
  g++ cmake ninja-build ccache pkg-config
  libtorch-dev libgloo-dev libopenblas0-pthread libopenmpi-dev openmpi-bin
  libyaml-cpp-dev nlohmann-json3-dev libcli11-dev libfmt-dev libspdlog-dev libssl-dev libboost-dev zlib1g-dev
)
test_packages=(
  libgtest-dev libgmock-dev python3 python3-torch python3-torchvision openssh-client openssh-server iproute2 slurm-wlm munge mpich
  etcd-server openssl curl
  clang-format clang-tidy clang libclang-rt-dev spin gcc libc6-dev
)

packages=("${build_packages[@]}")
if [[ "${1:-build}" == test ]]; then packages+=("${test_packages[@]}"); fi

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
if ((${#missing[@]} == 0)); then exit 0; fi

if ! command -v apt-get >/dev/null; then
  echo "error: missing ${missing[*]}, and this system has no apt-get; install their equivalents by hand" >&2
  exit 1
fi
root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null || { echo "error: need root or sudo to install: ${missing[*]}" >&2; exit 1; }
  root=(sudo)
fi
echo "installing: ${missing[*]}"
"${root[@]}" apt-get update -qq
DEBIAN_FRONTEND=noninteractive "${root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
