#!/usr/bin/env bash
# Installs Lockstep on Debian 12 or 13 from this source tree: the packages it needs, a release build, and two Debian packages
# made of it: lockstep (the program and the library) and liblockstep-dev (for programs of your own). Uses sudo when not root.
# `apt-get remove lockstep` removes them.
set -euo pipefail
cd "$(dirname "$0")/.."
step() { printf '\n\033[1m%s\033[0m\n' "$*"; }

step "1/3  Install what Lockstep needs"
scripts/install_dependencies.sh build
echo "ok"

step "2/3  Build (5 to 10 minutes on two cores the first time)"
settings=()
[[ -f build/release/CMakeCache.txt ]] || settings=(-DLOCKSTEP_BUILD_TESTS=OFF)
scripts/build.sh release "${settings[@]}" lockstep_cli

step "3/3  Make the packages and install them"
packages=$PWD/build/release/packages
rm -rf "$packages"
(cd build/release && cpack -B "$packages" >"$PWD/cpack.log" 2>&1) || { cat build/release/cpack.log >&2; exit 1; }
root=(env)
if ((EUID != 0)); then
  command -v sudo >/dev/null || { echo "error: need root or sudo to install $packages/*.deb" >&2; exit 1; }
  root=(sudo env)
fi
"${root[@]}" DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends --reinstall --allow-downgrades \
  "$packages"/*.deb >/dev/null
echo "installed: $(command -v lockstep), $(lockstep --version)"
