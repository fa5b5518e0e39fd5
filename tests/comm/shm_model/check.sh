#!/bin/sh
# Checks the models of the shared-memory protocol with spin, and that each model notices the faults built into it.
# Ends with 77 (skipped) when spin or a C compiler is missing.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
for tool in spin cc; do
  if ! command -v "$tool" > /dev/null; then
    echo "skipped: $tool is not installed (Debian packages spin and gcc)"
    exit 77
  fi
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# verify MODEL FAULT [SIZE...]: "errors: N" of the exhaustive search, "incomplete" when it did not see all states.
verify() {
  model=$1
  fault=$2
  shift 2
  rm -f pan pan.c
  spin -DBROKEN="$fault" "$@" -a "$here/$model.pml" > spin.log 2>&1 && cc -O2 -w -DSAFETY -DCOLLAPSE -o pan pan.c >> spin.log 2>&1 || {
    echo "no verifier"
    return
  }
  ./pan -m1000000 > pan.log 2>&1 || true
  if grep -q "max search depth too small\|out of memory" pan.log; then
    echo incomplete
  else
    sed -n 's/.*\(errors: [0-9]*\).*/\1/p' pan.log
  fi
}

failed=0
# check FAULTS MODEL [SIZE...]: no error as it stands (fault 0), and one with each other fault.
check() {
  faults=$1
  shift
  name=$*
  for wanted in $faults; do
    result=$(verify "$1" "$wanted" ${2:-} ${3:-})
    states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' pan.log)
    echo "$name, fault $wanted: $result in $states states"
    if [ "$result" != "errors: $((wanted > 0 ? 1 : 0))" ]; then
      failed=1
      cat spin.log pan.log
    fi
  done
}
check "0 1 2" bell -DRANKS=2 -DROUNDS=4
check "0 1" bell -DRANKS=3 -DROUNDS=1
check "0 1 2" bucket
check "0 1 2" staging
check "0 1 2" headers
exit $failed
