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
  [state]="base comm global"
  [train]="base compat kernels rows world comm mirrored global plan data samples models parameter_servers state"
  [ocr]="base compat kernels data samples models state train"
  [cluster]="base world net store membership comm"
  [runner]="base world net membership state train data samples models cluster"
  [operator]="base net membership cluster"
  [cli]="base kernels world membership net doctor comm mirrored global plan data samples models state train ocr cluster runner operator"
)
torch_free=(base rows world net store membership doctor comm/reduction data operator)

# A room's sources and internal headers, and its public headers.
folders_of() {
  folders=("lockstep/$1")
  if [[ -d "include/lockstep/$1" ]]; then folders+=("include/lockstep/$1"); fi
}

# The floors inside train/, from the lowest; "." is the files of the folder itself. A folder may include those on lower floors.
train_floors=("keys viewers" "plugins resources" "tasks" "checkpoint" "output" "optimizer recovery" "served" "modes"
  "callbacks" "configuration" "." "evaluation")

status=0
for room in "${!may_include[@]}"; do
  folders_of "$room"
  while IFS=: read -r file line text; do
    target=${text#*<lockstep/}
    target=${target%%/*}
    [[ "$target" == "$room" ]] && continue
    if [[ " ${may_include[$room]} " != *" $target "* ]]; then
      echo "$file:$line: $room/ may not include $target/ (it may include: ${may_include[$room]:-nothing})" >&2
      status=1
    fi
  done < <(grep -rnE '#include <lockstep/[a-z_]+/' "${folders[@]}" --include='*.h' --include='*.cpp' || true)
done
declare -A floor_of
for i in "${!train_floors[@]}"; do
  for folder in ${train_floors[i]}; do floor_of[$folder]=$i; done
done
while IFS=: read -r file line text; do
  from=${file#lockstep/train/}
  to=${text#*<lockstep/train/}
  to=${to%%>*}
  [[ -f "lockstep/train/$to" ]] || continue  # a public header, below all floors
  if [[ "$from" == */* ]]; then from=${from%%/*}; else from=.; fi
  if [[ "$to" == */* ]]; then to=${to%%/*}; else to=.; fi
  [[ "$from" == "$to" ]] && continue
  if [[ -z "${floor_of[$from]:-}" || -z "${floor_of[$to]:-}" ]] || ((floor_of[$from] <= floor_of[$to])); then
    echo "$file:$line: train/$from may not include train/$to (the floors: ${train_floors[*]})" >&2
    status=1
  fi
done < <(grep -rnE '#include <lockstep/train/' lockstep/train --include='*.h' --include='*.cpp')
for room in "${torch_free[@]}"; do
  folders_of "$room"
  if grep -rnE '#include <(torch|ATen|c10)/' "${folders[@]}"; then
    echo "lockstep/$room must stay free of libtorch" >&2
    status=1
  fi
done
exit $status
