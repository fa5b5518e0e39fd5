#!/usr/bin/env bash
# apt_progress.sh: scripts/install_dependencies.sh says what it installs, how much that is and how far it has come. The real
# apt installs a package from a repository in a folder, in place of one that was removed. Runs in a fresh_system.sh.
set -euo pipefail
output=$SCRATCH/output
expect() { grep -qE -e "$1" "$output" || { cat "$output" >&2; echo "expected: $1" >&2; exit 1; }; }

scripts/install_dependencies.sh test
mkdir -p "$SCRATCH"/{package/DEBIAN,repository}
cat >"$SCRATCH/package/DEBIAN/control" <<'END'
Package: spin
Version: 99
Architecture: all
Maintainer: nobody
Description: stands in for Debian's
END
dpkg-deb --build "$SCRATCH/package" "$SCRATCH/repository/spin_99_all.deb" >/dev/null
(cd "$SCRATCH/repository" && dpkg-scanpackages . 2>/dev/null >Packages)
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/*
echo "deb [trusted=yes] file:$SCRATCH/repository ./" >/etc/apt/sources.list
dpkg --remove --force-depends spin >/dev/null

scripts/install_dependencies.sh test >"$output"
expect '^Missing packages: spin$'
expect '^  0 upgraded, 1 newly installed'
expect '^  After this operation'
expect '^Installing them, which takes'
expect '^  installed [0-9]+ %$'
expect '^Installed 1 packages in [0-9]+ s$'
[[ "$(dpkg-query -W -f='${Version}' spin)" == 99 ]]

# What cannot be installed is an error, not a silent end.
dpkg --remove --force-depends spin >/dev/null
rm "$SCRATCH/repository/spin_99_all.deb"
if scripts/install_dependencies.sh test >"$output" 2>&1; then echo "installed what is not there" >&2; exit 1; fi
expect 'spin'
