#!/usr/bin/env bash
# fresh_system.sh BUILD_FOLDER COMMAND...: runs COMMAND in the source folder on a system that has never seen Lockstep: a mount
# namespace in which the source folder is a clean checkout with the finished build in build/release, and whatever is written
# there or to /usr, /etc, /var and /opt is gone at the end. SCRATCH names a folder that is gone then, too. Who may not have that
# gets 77 and the reason.
set -euo pipefail
build=$(realpath "$1")
source=$(realpath "$(dirname "$0")/../..")

if [[ -z "${SCRATCH:-}" ]]; then
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  # Where overlays can be mounted, all the rest can be done.
  if ! why=$(unshare --mount --propagation private bash -c \
    'mount -t tmpfs tmpfs "$0" && mkdir "$0/up" "$0/work" && mount -t overlay -o "lowerdir=/usr,upperdir=$0/up,workdir=$0/work" overlay /usr' \
    "$scratch" 2>&1); then
    echo "skipped: ${*:2}: this needs a mount namespace with overlays, which root has: $why"
    exit 77
  fi
  SCRATCH=$scratch unshare --mount --propagation private "$BASH" "$0" "$@"
  exit
fi

chmod 755 "$SCRATCH"
mkdir "$SCRATCH"/{clone,changes}
# Times of files are kept: the build is finished for these.
(cd "$source" && git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -T - -c) | tar -x -C "$SCRATCH/clone"
mkdir -p "$SCRATCH/clone/build/release"
mount -t tmpfs tmpfs "$SCRATCH/changes"
overlay() {
  local changes
  changes=$(mktemp -d -p "$SCRATCH/changes")
  mkdir "$changes/up" "$changes/work"
  mount -t overlay -o "lowerdir=$1,upperdir=$changes/up,workdir=$changes/work" overlay "$2"
}
overlay "$build" "$SCRATCH/clone/build/release"
for folder in /usr /etc /var /opt; do overlay "$folder" "$folder"; done
mount --rbind "$SCRATCH/clone" "$source"
cd "$source"
"${@:2}"
