# stages.sh: how long each stage of a long script took, and each test; to be sourced by it.
#   stage NAME    begins a stage, which ends the one before
# When the script ends, whether well or not, a table of stages and of the 30 slowest tests is printed, then the tests
# that failed. Where a script of this kind calls another, the outermost prints for both.

if [[ -z "${LOCKSTEP_TIMES:-}" ]]; then
  LOCKSTEP_TIMES=$(mktemp -d)
  export LOCKSTEP_TIMES
  outermost=yes
fi
stage_name=
stage_start=$SECONDS

end_stage() {
  if [[ -n "$stage_name" ]]; then echo "$((SECONDS - stage_start)) $stage_name" >>"$LOCKSTEP_TIMES/stages"; fi
  stage_name=
}

stage() {
  end_stage
  stage_name=$1
  stage_start=$SECONDS
  printf '\n== %s\n' "$stage_name"
}

print_times() {
  end_stage
  [[ -n "${outermost:-}" ]] || return 0
  printf '\nstages, in seconds:\n'
  awk '{ sum += $1; n = $1; $1 = ""; printf "%7d %s\n", n, $0 } END { printf "%7d  all\n", sum }' "$LOCKSTEP_TIMES/stages"
  if [[ -s "$LOCKSTEP_TIMES/tests" ]]; then
    printf '\nslowest tests, in seconds:\n'
    sort -rn "$LOCKSTEP_TIMES/tests" | head -n 30 | awk '{ printf "%7.1f  %s (%s)\n", $1, $2, $3 }'
  fi
  if [[ -s "$LOCKSTEP_TIMES/failures" ]]; then cat "$LOCKSTEP_TIMES/failures"; fi
  rm -r "$LOCKSTEP_TIMES"
}
trap print_times EXIT
