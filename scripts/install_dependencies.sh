#!/usr/bin/env bash
# Installs what building (and, with "test", testing) Lockstep needs from the own packages of Debian 12 or 13; for tests also
# TensorBoard, which Debian does not have, from PyPI into build/tensorboard-python.
# Usage: scripts/install_dependencies.sh [build|test]
set -euo pipefail

build_packages=(
  g++ cmake ninja-build ccache pkg-config dpkg-dev file
  libtorch-dev libopenblas0-pthread libopenmpi-dev openmpi-bin
  libyaml-cpp-dev nlohmann-json3-dev libcli11-dev libfmt-dev libspdlog-dev libssl-dev libboost-dev zlib1g-dev
  libturbojpeg0-dev libpng-dev libwebp-dev libtiff-dev
  libopencv-imgproc-dev libpolyclipping-dev
)
test_packages=(
  libgtest-dev libgmock-dev liblmdb-dev python3 python3-venv python3-torch python3-torchvision python3-opencv python3-pyclipper
  python3-shapely openssh-client openssh-server iproute2 slurm-wlm munge mpich etcd-server openssl curl jq xz-utils librsvg2-bin
  chromium chromium-driver python3-selenium
  clang-format clang-tidy clang libclang-rt-dev spin gcc libc6-dev
)

packages=("${build_packages[@]}")
if [[ "${1:-build}" == test ]]; then packages+=("${test_packages[@]}"); fi

# Reads the event files that our tests write. Without PyPI those tests are skipped, with a reason.
install_tensorboard() {
  local folder
  folder=$(realpath -m "$(dirname "$0")/../build/tensorboard-python")
  if "$folder/bin/python3" -c 'import tensorboard, PIL' 2>/dev/null; then return; fi
  echo "Installing TensorBoard from PyPI into $folder"
  if ! { python3 -m venv --clear "$folder" &&
    "$folder/bin/python3" -m pip install -q --disable-pip-version-check --retries 1 --timeout 20 'tensorboard==2.21.0'; }; then
    echo "warning: TensorBoard could not be installed; tests that read event files with it will be skipped" >&2
  fi
}

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  if [[ "${1:-build}" == test ]]; then install_tensorboard; fi
  exit 0
fi

if ! command -v apt-get >/dev/null; then
  echo "error: missing ${missing[*]}, and this system has no apt-get; install their equivalents by hand" >&2
  exit 1
fi
root=(env)
if ((EUID != 0)); then
  command -v sudo >/dev/null || { echo "error: need root or sudo to install: ${missing[*]}" >&2; exit 1; }
  root=(sudo env)
fi

# Reads apt's own reports (APT::Status-Fd) and prints a line for each tenth of each stage.
show_progress() {
  local kind percent next=0 last=""
  while IFS=: read -r kind _ percent _; do
    [[ "$kind" =~ ^(dl|pm)status$ && "$percent" =~ ^[0-9]+ ]] || continue
    percent=${BASH_REMATCH[0]}
    [[ "$kind" == "$last" ]] || next=0
    last=$kind
    if ((percent < next)); then continue; fi
    next=$((percent / 10 * 10 + 10))
    [[ "$kind" == dlstatus ]] && echo "  downloaded $percent %" || echo "  installed $percent %"
  done
}

echo "Missing packages: ${missing[*]}"
echo "Reading Debian's package lists"
"${root[@]}" apt-get update -qq
# "27 newly installed", "Need to get 310 MB of archives." and "After this operation, 1,560 MB of additional disk space ..."
LC_ALL=C apt-get install -y --no-install-recommends --print-uris "${missing[@]}" |
  sed -nE 's/^([0-9]+ upgraded.*|Need to get.*|After this operation.*)/  \1/p'
echo "Installing them, which takes one to five minutes"
# (apt runs in a shell of its own because sudo closes descriptor 3.)
"${root[@]}" LC_ALL=C DEBIAN_FRONTEND=noninteractive bash -c \
  'exec apt-get -o APT::Status-Fd=3 install -y -qq --no-install-recommends "$@" 3>&1 >/dev/null' apt "${missing[@]}" | show_progress
echo "Installed ${#missing[@]} packages in $SECONDS s"
if [[ "${1:-build}" == test ]]; then install_tensorboard; fi
