#!/usr/bin/env bash
# Fails where documents point to what is not there: links to files and headings, files of this repository, and headers that a
# reader cannot include because they are not installed. With folders, such as those of an installation: only the links of the
# documents in them.
# Usage: scripts/check_docs.sh [FOLDER ...]
set -euo pipefail
cd "$(dirname "$0")/.."
status=0
complain() { echo "$1" >&2; status=1; }

# What is outside of blocks of code, with the number of each line.
prose() { awk '/^```/ { code = !code; next } !code { print NR ":" $0 }' "$1"; }
# The anchors that headings get: small letters, without punctuation, blanks as dashes.
anchors() { prose "$1" | sed -nE 's/^[0-9]+:#+ +//p' | tr '[:upper:]' '[:lower:]' | sed -E 's/[^a-z0-9 _-]//g; s/ /-/g'; }

if (($# > 0)); then
  mapfile -t documents < <(find "$@" -name '*.md')
  ((${#documents[@]} > 0)) || complain "there is no document in $*"
else
  mapfile -t documents < <(git ls-files --cached --others --exclude-standard '*.md')
fi
for document in "${documents[@]}"; do
  folder=$(dirname "$document")
  while IFS=: read -r line target; do
    file=${target%%#*}
    file=$([[ -n "$file" ]] && realpath -m --relative-to=. "$folder/$file" || echo "$document")
    if [[ ! -e "$file" ]]; then
      complain "$document:$line: the link to $target has no target"
    elif [[ "$target" == *#* ]] && ! anchors "$file" | grep -qxF -e "${target#*#}"; then
      complain "$document:$line: $file has no heading for the link to $target"
    fi
  done < <(prose "$document" | sed -E 's/`[^`]*`//g' | grep -oP '^\d+:|\]\(\K(?!https?:)[^)\s]+(?=\))' | awk '/^[0-9]+:$/ { line = $0; next } { print line $0 }')

  (($# == 0)) || continue
  while IFS=: read -r line name; do
    compgen -G "$name" >/dev/null || complain "$document:$line: there is no $name"
  done < <(grep -noP '(?<![\w/.])(apps|scripts|configs|examples|bench|cmake|tests)/[\w./*-]*\w\.(sh|yaml|cpp|h|py|cmake|sbatch|md)\b' "$document" || true)
done

(($# == 0)) || exit $status
# docs/architecture.md and CONTRIBUTING.md are about the sources, all others for users, who see include/ alone.
for document in "${documents[@]}"; do
  while IFS=: read -r line name; do
    name=lockstep/${name#lockstep/}
    case $document in
      docs/architecture.md | CONTRIBUTING.md) [[ -f "$name" || -f "include/$name" ]] || complain "$document:$line: there is no $name" ;;
      *) [[ -f "include/$name" ]] || complain "$document:$line: $name is not installed: only headers in include/ are" ;;
    esac
  done < <(grep -noP '(?<![\w/])(lockstep/([a-z_]+/)*[a-z_0-9]+|(base|comm|cluster|data|global|kernels|mirrored|models|plan|train|world)/[a-z_0-9/]+)\.h\b' "$document" || true)
done
exit $status
