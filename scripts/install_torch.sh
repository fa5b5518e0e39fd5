#!/usr/bin/env bash
# Installs today's libtorch: a virtual environment of Python with PyTorch from PyPI, which brings libtorch with CUDA 13, cuDNN
# and NCCL along (it computes on machines without a GPU as well), and with what tests and comparisons with PyTorch need.
# `cmake --preset torch2` builds with it. Takes 5 GB of disk; where everything is there, a moment.
# Usage: scripts/install_torch.sh [FOLDER]      (build/torch2-python)
# PYTHON: the Python to make it with (python3). With another FOLDER than the default, tell CMake as the last line says.
set -euo pipefail
named=${1:+$(realpath -m "$1")}
cd "$(dirname "$0")/.."

packages=(torch==2.11.0 torchvision==0.26.0 numpy expecttest==0.3.0)  # expecttest: for PyTorch's own tests
default=$PWD/build/torch2-python
folder=${named:-$default}
python=${PYTHON:-python3}
fail() { echo "error: $*" >&2; exit 1; }

# Those of the packages that are not there. Without importing them, which takes seconds.
missing() {
  "$folder/bin/python3" - "${packages[@]}" 2>/dev/null <<'PY' || echo "${packages[*]}"
import sys
from importlib.metadata import PackageNotFoundError, version

def there(package):
    name, _, wanted = package.partition("==")
    try:
        return version(name).partition("+")[0] == (wanted or version(name))
    except PackageNotFoundError:
        return False

print(*(package for package in sys.argv[1:] if not there(package)))
PY
}

read -ra wanted <<<"$(missing)"
if ((${#wanted[@]} == 0)); then
  echo "$folder has ${packages[*]}"
else
  [[ ! -e "$folder" || -e "$folder/pyvenv.cfg" || -z "$(ls -A "$folder")" ]] ||
    fail "$folder exists and is no virtual environment of Python; name another folder"
  command -v "$python" >/dev/null || fail "there is no $python; on Debian: apt-get install python3 python3-venv"
  mkdir -p "$folder"
  size=""
  if [[ " ${wanted[*]} " == *" torch=="* ]]; then
    size=": about 3 GB to download"
    free=$(df --output=avail -BG "$folder" | tail -1 | tr -dc 0-9)
    ((free >= 8)) || fail "installing needs 8 GB of disk at $folder (5 GB stay), which has $free GB; name a folder on another disk"
  fi
  echo "Installing ${wanted[*]} from PyPI into $folder$size"
  "$python" -m venv "$folder" || fail "$python cannot make a virtual environment (on Debian: apt-get install python3-venv)"
  quiet=()
  [[ -t 1 ]] || quiet=(-q)
  "$folder/bin/python3" -m pip install "${quiet[@]}" --disable-pip-version-check --no-cache-dir --retries 2 --timeout 60 "${packages[@]}" ||
    fail "pip could not install them. Without a connection to PyPI there is no libtorch 2.11 here; Debian's (scripts/build.sh release) needs none"
  [[ -z "$(missing)" ]] || fail "$folder is still incomplete after the installation; remove it and run this again"
fi

if [[ "$folder" == "$default" ]]; then
  echo "Build with it: scripts/build.sh torch2"
else
  echo "Build with it: scripts/build.sh torch2 -DLOCKSTEP_TORCH_PYTHON=$folder/bin/python3"
fi
