#!/usr/bin/env bash
# Checks the steps of deploy/Containerfile one by one, where there is no container engine: that the files it copies exist, that
# Debian 12 has each package, that its cmake line configures, that the .deb has the name it looks for, and that the packages of
# the operator's image are those whose libraries the built program needs. Not checked: that the steps work one after the other,
# on an image with nothing else.
# Usage: scripts/check_containerfile.sh [BUILD_FOLDER]      with the built program `lockstep` (default: build/release)
set -euo pipefail
cd "$(dirname "$0")/.."

file=deploy/Containerfile
build=${1:-build/release}
status=0
mistakes=0
wrong() { echo "check_containerfile: error: $*" >&2; status=1; mistakes=$((mistakes + 1)); }
passed() { # after a group of checks
  if ((mistakes == 0)); then echo "ok: $*"; fi
  mistakes=0
}
lines=$(sed -e ':a' -e '/\\$/N' -e 's/\\\n/ /' -e 'ta' "$file") # with long lines as one

while read -r _ source _; do
  [[ -e "$source" ]] || wrong "COPY $source: there is no such file"
done < <(grep -E '^COPY [^-]' <<<"$lines")
passed "what is copied from the sources exists"

# shellcheck disable=SC2013
packages=$(grep -oE 'apt-get install [^&]*' <<<"$lines" | tr ' ' '\n' | grep -vE '^(apt-get|install|-.*|/.*|)$' | sort -u)
if ! grep -q '^VERSION_ID="12"' /etc/os-release; then
  echo "not checked: packages; this is not Debian 12"
else
  for package in $packages $(sed -nE '/^build_packages=\(/,/^\)/p' scripts/install_dependencies.sh | sed '1d;$d'); do
    apt-cache show "$package" >/dev/null 2>&1 || wrong "Debian 12 has no package '$package'"
  done
  passed "the packages are Debian 12's"
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
read -ra configure <<<"$(grep -oE 'cmake -S /src [^&]*' <<<"$lines" | sed -e "s|/src|$PWD|" -e "s|/build|$folder|")"
if ! "${configure[@]}" >"$folder/log" 2>&1; then
  wrong "its cmake line fails: $(tail -n 5 "$folder/log")"
elif grep -A 5 'Manually-specified variables were not used' "$folder/log"; then
  wrong "its cmake line sets a variable that does not exist"
fi
passed "its cmake line configures"
name=$(sed -nE 's/^set\(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME "(.*)"\)/\1/p' "$folder/CPackConfig.cmake")
grep -q "/build/${name}_\*.deb" <<<"$lines" || wrong "cpack makes ${name}_VERSION.deb, which is not what is copied"
passed "cpack's package is ${name}_VERSION.deb"

if [[ ! -x "$build/lockstep" ]]; then
  echo "not checked: libraries of the operator; there is no $build/lockstep"
elif grep -q '^VERSION_ID="12"' /etc/os-release; then
  while read -r library; do
    owner=$(dpkg -S "$(readlink -f "$library")" 2>/dev/null || dpkg -S "${library#/usr}" 2>/dev/null || dpkg -S "$library" 2>/dev/null || true)
    owner=${owner%%:*}
    [[ "$owner" =~ ^(libc6|libgcc-s1)$ ]] && continue # libstdc++6 needs them, too
    grep -qx "$owner" <<<"$packages" || wrong "lockstep needs $library of '$owner', which the operator's image lacks"
  done < <(ldd "$build/lockstep" | awk '$3 ~ /^\// {print $3}')
  passed "the operator's image has the libraries of $build/lockstep"
fi
exit $status
