#!/usr/bin/env bash
# Fails where the public headers (include/) reach inside: they may include only each other, the standard library, libtorch and
# fmt. Also where lockstep.h leaves one out, and where examples, apps/ocr or apps/python, which see the library as users'
# programs do, include something else of it.
set -euo pipefail
cd "$(dirname "$0")/.."
status=0
complain() { echo "$1" >&2; status=1; }

mapfile -t headers < <(cd include && find lockstep -name '*.h' | sort)
((${#headers[@]} > 0)) || complain "include/lockstep has no headers"
all=include/lockstep/lockstep.h

for header in "${headers[@]}"; do
  [[ ! -e "$header" ]] || complain "$header is also in include/: one of the two would hide the other"
  read -r first <"include/$header"
  [[ "$first" == "// "* ]] || complain "include/$header:1: the first line is no comment that names the header"
  while IFS=: read -r line name; do
    place=include/$header:$line
    case $name in
      '<lockstep/'*)
        name=${name:1:-1}
        [[ -f "include/$name" ]] || complain "$place: $name is internal; move the header to include/, or declare what is needed"
        ;;
      '<torch/'* | '<ATen/'* | '<c10/'* | '<fmt/'* | '<sys/types.h>') ;;
      '<'*[/.]* | '"'*) complain "$place: $name is neither public, nor of the standard library, libtorch or fmt" ;;
    esac
  done < <(grep -noP '^#include +\K[<"][^>"]*[>"]' "include/$header" || true)
  if [[ "include/$header" != "$all" ]] && ! grep -qE '^#include <(torch|ATen|c10)/' "include/$header" &&
    ! grep -qxF "#include <$header>" "$all"; then
    complain "$all does not include $header"
  fi
done

while IFS=: read -r file line name; do
  [[ -f "include/$name" ]] || complain "$file:$line: $name is internal; examples, apps/ocr and apps/python include public headers alone"
done < <(grep -rnoP '^#include <\Klockstep/[^>]+' examples apps/ocr apps/python --include='*.h' --include='*.cpp')
exit $status
