#!/usr/bin/env bash
# key_reference.sh PROGRAM [--write]: fails unless the tables in docs/configuration.md are what PROGRAM (build/release/lockstep)
# says about its configuration's keys in `train --help-keys`, and about its parts in `train --list KIND`; with --write, makes
# them so.
set -euo pipefail
program=$(realpath "$1")
cd "$(dirname "$0")/.."
document=docs/configuration.md

made=$(mktemp)
keys=$(mktemp)
trap 'rm -f "$made" "$keys"' EXIT
while read -r kind; do
  "$program" train --list "$kind" | sed -E "s/^([^ ]+) +(.*)/list\t$kind\t\1\t\2/"
done < <(sed -nE 's/^<!-- list of ([a-z]+) -->$/\1/p' "$document") >"$keys"
"$program" train --help-keys >>"$keys"
awk '
  function cell(text) { gsub(/\|/, "\\|", text); return text }
  BEGIN { section = "run" }   # keys of no section come first
  FNR == NR {
    if (split($0, list, "\t") == 4 && list[1] == "list") {
      parts[list[2]] = parts[list[2]] "| `" list[3] "` | " cell(list[4]) " |\n"
      next
    }
    # "model: ...", or for the keys of a part "model (gpt): ...", "parallel.wrapper (fully_sharded): ..."
    if (match($0, /^([a-z_]+|[a-z_.]+ \([A-Za-z0-9_]+\)): /)) {
      section = substr($0, 1, RLENGTH - 2); gsub(/[()]/, "", section); gsub(/[ .]/, "_", section)
      next
    }
    if (match($0, /^  [a-z0-9_.]+ \(/)) {   # "  system.seed (integer, at least 0, default 1)", then its meaning
      key = substr($0, 3, RLENGTH - 4)
      facts = substr($0, RLENGTH + 1, length($0) - RLENGTH - 1)
      if (sub(/, required$/, "", facts)) {
        value = "required"
      } else {
        match(facts, /.*, default /)
        value = "`" substr(facts, RLENGTH + 1) "`"
        facts = substr(facts, 1, RLENGTH - length(", default "))
      }
      next
    }
    if (sub(/^      /, "")) tables[section] = tables[section] "| `" key "` | " cell(facts) " | " cell(value) " | " cell($0) " |\n"
    next
  }
  skipping && $0 == "" && !in_table { next }
  skipping && /^\|/ { in_table = 1; next }
  { if (skipping && $0 != "") print ""; skipping = 0; print }
  /^<!-- keys of [A-Za-z0-9_]+ -->$/ {
    if (!($4 in tables)) { print "there is no section " $4 > "/dev/stderr"; exit 1 }
    printf "\n| key | type | default | meaning |\n|---|---|---|---|\n%s", tables[$4]
    delete tables[$4]
    skipping = 1; in_table = 0
  }
  /^<!-- list of [a-z]+ -->$/ {
    printf "\n| name | what it is |\n|---|---|\n%s", parts[$4]
    skipping = 1; in_table = 0
  }
  END { for (section in tables) { print "the section " section " has no table (<!-- keys of " section " -->)" > "/dev/stderr"; exit 1 } }
' "$keys" "$document" >"$made"

if [[ "${2:-}" == --write ]]; then
  cat "$made" >"$document"
elif ! diff -u "$document" "$made"; then
  echo "$document differs from the program; scripts/key_reference.sh build/release/lockstep --write corrects it" >&2
  exit 1
fi
