#!/usr/bin/env bash
# Fails if a room includes a room that is not on a lower floor (docs/architecture.md), if a torch-free room includes
# libtorch, or if a public header drags it in where a forward declaration would do.
set -euo pipefail
cd "$(dirname "$0")/.."

declare -A may_include=(
  [base]=""
  [compat]=""
  [kernels]="base compat"
  [rows]=""
  [world]="base"
  [net]="base world"
  [store]="base world net"
  [membership]="base world net"
  [doctor]="base world"
  [comm]="base compat world net store membership doctor"
  [mirrored]="base kernels rows world comm"
  [global]="base compat kernels world comm"
  [plan]="base kernels world comm global"
  [data]="base"
  [samples]="base data"
  [models]="base compat kernels rows"
  [parameter_servers]="base rows world comm models"
  [train]="base compat kernels rows world comm mirrored global plan data samples models parameter_servers"
  [ocr]="base compat kernels data samples models train"
  [cluster]="base world net store membership comm"
  [runner]="base world net membership train data samples models cluster"
  [operator]="base net membership cluster"
  [cli]="base kernels world membership net doctor comm mirrored global plan data samples models train ocr cluster runner operator"
)
torch_free=(base rows world net store membership doctor comm/reduction data operator)

# A room's sources and internal headers, and its public headers.
folders_of() {
  folders=("lockstep/$1")
  if [[ -d "include/lockstep/$1" ]]; then folders+=("include/lockstep/$1"); fi
}

status=0
for room in "${!may_include[@]}"; do
  folders_of "$room"
  while IFS=: read -r file line text; do
    target=$(sed -E 's|.*<lockstep/([a-z_]+)/.*|\1|' <<<"$text")
    [[ "$target" == "$room" ]] && continue
    if [[ " ${may_include[$room]} " != *" $target "* ]]; then
      echo "$file:$line: $room/ may not include $target/ (it may include: ${may_include[$room]:-nothing})" >&2
      status=1
    fi
  done < <(grep -rnE '#include <lockstep/[a-z_]+/' "${folders[@]}" --include='*.h' --include='*.cpp' || true)
done
for room in "${torch_free[@]}"; do
  folders_of "$room"
  if grep -rnE '#include <(torch|ATen|c10)/' "${folders[@]}"; then
    echo "lockstep/$room must stay free of libtorch" >&2
    status=1
  fi
done
exit $status
