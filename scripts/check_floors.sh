#!/usr/bin/env bash
# Fails if a room includes a room that is not on a lower floor (docs/architecture.md), if a torch-free room includes
# libtorch, or if a public header drags it in where a forward declaration would do. Applications (apps/) are above all
# rooms: no room includes one.
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
  [dashboard]="base net membership"
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
  [cluster]="base world net store membership dashboard comm"
  [runner]="base world net membership state train data samples models dashboard cluster"
  [cli]="base kernels world membership net doctor comm mirrored global plan data samples models state train cluster runner"
  [apps/operator]="base net cluster cli"
  [apps/ocr]="base data samples models train"
  [apps/python]="base comm global world"
  [apps/lockstep]="base cli train apps/ocr apps/operator"
)
torch_free=(base rows world net store membership dashboard doctor comm/reduction data apps/ocr/mindocr apps/operator)

# The sources and internal headers of a room or an application, and its public headers.
folders_of() {
  folders=("lockstep/$1")
  if [[ "$1" == apps/* ]]; then folders=("$1"); fi
  if [[ -d "include/lockstep/$1" ]]; then folders+=("include/lockstep/$1"); fi
}

# The floors inside rooms, from the lowest: folders, and files of the room's own folder without their endings. Each may
# include those on lower floors.
declare -A inner_floors=(
  [state]="tensors recovery_choice safetensors_header; safetensors; pth sharded; saved_checkpoint; checkpoint_folder;
    resume; kept_state weights_file"
  [train]="keys viewers task; plugins resources stop_signals; tasks; checkpoint; output;
    optimizer run_lock; served; modes; callbacks; configuration parts; server_role; run_group session;
    session_begin session_view result; run; evaluation"
)

status=0
for room in "${!may_include[@]}"; do
  folders_of "$room"
  while IFS=: read -r file line text; do
    target=${text#*<}
    target=${target#lockstep/}
    application=${target#apps/}
    if [[ "$target" == apps/* ]]; then target=apps/${application%%/*}; else target=${target%%/*}; fi
    [[ "$target" == "$room" ]] && continue
    if [[ " ${may_include[$room]} " != *" $target "* ]]; then
      echo "$file:$line: $room/ may not include $target/ (it may include: ${may_include[$room]:-nothing})" >&2
      status=1
    fi
  done < <(grep -rnE '#include <(lockstep|apps)/[a-z_]+/' "${folders[@]}" --include='*.h' --include='*.cpp' || true)
done
# A folder of a room, or the file in the room's own folder, without its ending.
place_in_room() {
  place=${1%.*}
  if [[ "$1" == */* ]]; then place=${1%%/*}; fi
}
for room in "${!inner_floors[@]}"; do
  declare -A floor_of=()
  floor=0
  for place in ${inner_floors[$room]}; do
    floor_of[${place%;}]=$floor
    if [[ "$place" == *";" ]]; then floor=$((floor + 1)); fi
  done
  while IFS=: read -r file line text; do
    target=${text#*<lockstep/"$room"/}
    target=${target%%>*}
    [[ -f "lockstep/$room/$target" ]] || continue  # a public header, below all floors
    place_in_room "$target" && to=$place
    place_in_room "${file#lockstep/"$room"/}" && from=$place
    [[ "$from" == "$to" ]] && continue
    if [[ -z "${floor_of[$from]:-}" || -z "${floor_of[$to]:-}" ]] || ((floor_of[$from] <= floor_of[$to])); then
      echo "$file:$line: $room/$from may not include $room/$to (the floors: ${inner_floors[$room]})" >&2
      status=1
    fi
  done < <(grep -rnE "#include <lockstep/$room/" "lockstep/$room" --include='*.h' --include='*.cpp')
done
for room in "${torch_free[@]}"; do
  folders_of "$room"
  if grep -rnE '#include <(torch|ATen|c10)/' "${folders[@]}"; then
    echo "${folders[0]} must stay free of libtorch" >&2
    status=1
  fi
done
exit $status
