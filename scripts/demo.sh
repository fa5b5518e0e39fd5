#!/usr/bin/env bash
# From nothing to a trained ResNet-50 on two processes, on a fresh Debian 12. A second run skips what is done.
#   CIFAR10_DIR=DIR   real data in CIFAR-10's binary layout (default: synthetic pictures in that layout)
#   DEMO_DIR=DIR      where everything goes (default: out/demo)
#   DEMO_EPOCHS=N     how long to train (default: 4)
set -euo pipefail
cd "$(dirname "$0")/.."

out=$(realpath -m "${DEMO_DIR:-out/demo}")
epochs=${DEMO_EPOCHS:-4}
lockstep=build/release/lockstep
step() { printf '\n\033[1m%s\033[0m\n' "$*"; }

step "1/4  Install what is missing"
scripts/install_dependencies.sh build
echo "ok"

step "2/4  Build (release)"
[[ -f build/release/build.ninja ]] || cmake --preset release -DLOCKSTEP_BUILD_TESTS=OFF >/dev/null
cmake --build --preset release --target lockstep_cli

step "3/4  Data"
data=${CIFAR10_DIR:-$out/data}
if [[ -z "${CIFAR10_DIR:-}" && ! -f "$data/test_batch.bin" ]]; then
  "$lockstep" data synthesize cifar10 --out "$data" --train 2000 --test 500 --seed 1
fi
"$lockstep" data check "$data"

step "4/4  Train ResNet-50 at 32x32 on 2 processes"
run=$out/resnet50
if [[ -f "$run/result.json" ]]; then
  echo "already trained; remove $run to train again"
else
  "$lockstep" run --nproc-per-node 2 "$lockstep" train --config configs/resnet50_cifar10_32.yaml \
    data.root="$data" train.epochs="$epochs" system.work_dir="$run"
fi

field() { sed -nE "s/.*\"$1\": *\"?([^\",}]+)\"?.*/\1/p" "$run/result.json" | head -n 1; }
step "Done"
printf '  accuracy     %s of the test pictures\n' "$(awk -v a="$(field eval_accuracy)" 'BEGIN { printf "%.1f %%", 100 * a }')"
printf '  throughput   %.1f pictures/s on %s processes\n' "$(field samples_per_s)" "$(field world_size)"
printf '  result       %s\n' "$run/result.json"
printf '  metrics      %s\n' "$run/metrics.jsonl"
printf '  loss curve   %s\n' "$run/loss.svg"
printf '  logs         %s\n' "$run/log/rank.0, rank.1"
printf '  checkpoints  %s\n' "$run/checkpoints/"
printf '  weights      %s (safetensors, readable from Python)\n' "$run/model.safetensors"
