#!/usr/bin/env bash
# bare_root.sh WHEEL FOLDER: the wheel on a Debian that has nothing but Python. Makes FOLDER/root with debootstrap, installs the
# wheel there with its PyTorch from PyPI (3 GB), and runs the examples of torch.distributed, README's training from a file and
# README's C++ program. By hand, as root; needs debootstrap, the network and 8 GB of disk. Prints "ok" at the end.
set -euo pipefail
wheel=$(realpath "$1")
folder=$(realpath -m "$2")
source=$(realpath "$(dirname "$0")/../..")
root=$folder/root
mkdir -p "$folder"
[[ -d $root/usr ]] || debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates bookworm "$root"
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
mkdir -p "$root/trial"
cp "$wheel" "$root/trial"
cp -r "$source/examples/python" "$root/trial"
# The files of README, each a block whose first line is its name.
awk -v folder="$root/trial/" '
  /^```/ { file = ""; begins = 1; next }
  begins { begins = 0; if ($2 ~ /^(mlp.yaml|my_program.cpp|CMakeLists.txt)$/) file = folder $2 }
  file { print > file }' "$source/README.md"

unshare --mount --pid --fork --mount-proc "$BASH" -c '
  for kernel in proc dev; do mount --rbind "/$kernel" "$0/$kernel"; done
  chroot "$0" bash -e /dev/stdin "$1"' "$root" "$(basename "$wheel")" <<'INSIDE'
cd /trial
export HOME=/root OMP_NUM_THREADS=1 PYTHONWARNINGS=ignore PIP_CERT=/etc/ssl/certs/ca-certificates.crt PATH=/venv/bin:$PATH
[[ -d /venv ]] || python3 -m venv /venv
pip install -q --force-reinstall --no-deps "$1"
pip install -q "$1"
lockstep info
lockstep run --nproc-per-node 2 python python/ddp.py --steps 5
torchrun --nproc-per-node 2 python/fsdp2.py --backend lockstep --steps 5
grep -v '^import lockstep' python/ddp.py >python/found.py  # PyTorch finds the backend by itself
torchrun --nproc-per-node 2 python/found.py --backend lockstep --steps 5
rm -rf data out build
lockstep data synthesize mnist --out data/mnist
lockstep run --nproc-per-node 2 lockstep train --config mlp.yaml train.epochs=1
apt-get update -qq && apt-get install -y -qq --no-install-recommends g++ cmake make >/dev/null
cmake -S . -B build -DCMAKE_BUILD_TYPE=Release "-DCMAKE_PREFIX_PATH=$(python -m lockstep --cmake-prefix)" >/dev/null
cmake --build build
lockstep run --nproc-per-node 2 build/my_program
echo ok
INSIDE
