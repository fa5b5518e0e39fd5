#!/usr/bin/env bash
# walk.sh DOCUMENT [packages]: does what a document tells its readers to do, word by word and in its order. A block of code that begins with
# the name of a file in a comment is saved as that file; a block marked `sh` is run; other blocks must be marked `text`, and
# only show something. Then comes what the document promises. Runs in a fresh_system.sh. With `packages`, the tutorial's first
# block, which installs into a folder, becomes the installation of the Debian packages.
set -euo pipefail
document=$1
packages=${2:-}
mkdir "$SCRATCH/home"

awk -v document="$document" -v packages="$packages" '
  function fail(why) { print document ":" NR ": " why > "/dev/stderr"; failed = 1; exit 1 }
  /^```/ && !inside {
    inside = 1; language = substr($0, 4); first = 1; file = ""
    if (language !~ /^(sh|text|yaml|cpp|cmake)$/) fail("a block of code must be sh, text, or a file: \"" language "\"")
    installs = packages != "" && language == "sh" && !installed++
    if (installs) print "scripts/install.sh"
    if (language == "sh") print "echo; echo \"== " document ":" NR "\""
    next
  }
  /^```/ { if (file != "") print "END_OF_FILE"; inside = 0; next }
  inside && first && language ~ /^(yaml|cpp|cmake)$/ {
    if (match($0, /^(#|\/\/) [A-Za-z0-9_.\/-]+$/) == 0) fail("a block of code with a file begins with its name in a comment")
    file = $2
    print "cat >" file " <<\"END_OF_FILE\""
  }
  inside {
    first = 0
    if (packages != "") sub("~/lockstep/share/", "/usr/share/")
    if (!installs && (language == "sh" || file != "")) print
  }
  END { if (inside && !failed) fail("a block of code does not end") }
' "$document" >"$SCRATCH/commands"

# The environment of somebody who has just logged in.
as_user() {
  env -i HOME="$SCRATCH/home" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
    bash -euo pipefail "$@" </dev/null
}
as_user "$SCRATCH/commands" 2>&1 | tee "$SCRATCH/output"

fail() { echo "$document promises more: $*" >&2; exit 1; }
said() { grep -qE -e "$1" "$SCRATCH/output" || fail "nothing in its output is like '$1'"; }
value() { sed -nE "s/.*\"$2\": *\"?([^\",}]+)\"?.*/\1/p" "$SCRATCH/home/lockstep-first/out/$1/result.json" | head -n 1; }
if [[ "$document" == README.md ]]; then
  for run in one two mpi; do
    for file in result.json metrics.jsonl loss.svg log/rank.0 checkpoints model.safetensors; do
      [[ -e "$SCRATCH/home/lockstep-first/out/$run/$file" ]] || fail "out/$run/$file is not there"
    done
  done
  [[ "$(value two params_sha256)" == "$(value mpi params_sha256)" ]] || fail "mpirun trains as lockstep run does"
  said '^\[rank 1\] step 9, loss '
  awk -v accuracy="$(sed -nE 's/^ *accuracy +([0-9.]+) %.*/\1/p' "$SCRATCH/output")" 'BEGIN { exit !(accuracy > 90) }' ||
    fail "the demo learns"

  # The demo again: the same is not trained twice, and other settings are noticed.
  as_user scripts/demo.sh >"$SCRATCH/output"
  said '^already trained with these settings'
  as_user -c "lockstep data synthesize cifar10 --out ~/few --train 320 --test 100 && CIFAR10_DIR=~/few DEMO_EPOCHS=1 scripts/demo.sh" \
    >"$SCRATCH/output"
  said 'was trained with other settings \(epochs 4, '
  said 'epoch 1/1: 5 steps'
  [[ -f out/demo/resnet20/result.json && -f out/demo/resnet20.1/result.json ]] || fail "the demo keeps what it had trained"

  # The packages say what they need, can be removed, and `cmake --install` does the same in /usr/local.
  dpkg -s lockstep | grep -q '^Depends:.*libtorch' || fail "lockstep depends on libtorch"
  dpkg -s liblockstep-dev | grep -q '^Depends:.*libtorch-dev' || fail "liblockstep-dev depends on libtorch-dev"
  program=$SCRATCH/home/lockstep-first/build/my_program
  dpkg --remove liblockstep-dev lockstep >/dev/null
  if as_user -c "$program" >/dev/null 2>&1; then fail "nothing is left of the packages"; fi
  cmake --install build/release >/dev/null
  as_user -c "lockstep info && lockstep run --nproc-per-node 2 $program" >"$SCRATCH/output" 2>&1 || { cat "$SCRATCH/output"; exit 1; }
  said '^\[rank 1\] step 9, loss '
fi
if [[ "$document" == docs/tutorial.md ]]; then
  said '^the run has failed, as it was told to'
  said '^out/killed/result.json:.*params_sha256'
  said 'the others keep running, and pid [0-9]+ takes its place'
  [[ "$(grep -E '^out/(two|replaced|killed)/result.json:' "$SCRATCH/output" | sed 's/.*"params_sha256"//' | sort -u | wc -l)" == 1 ]] ||
    fail "a run that was killed ends as one that was not"
fi
echo "walked: $document"
