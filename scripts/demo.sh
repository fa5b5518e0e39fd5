#!/usr/bin/env bash
# From nothing to a trained ResNet-20 on two processes, on a fresh Debian 12 or 13. A second run skips what is done, and
# continues a training that was stopped.
#   CIFAR10_DIR=DIR   real data in CIFAR-10's binary layout (default: synthetic pictures in that layout)
#   DEMO_DIR=DIR      where everything goes (default: out/demo)
#   DEMO_EPOCHS=N     how long to train (default: 4)
set -euo pipefail
cd "$(dirname "$0")/.."

out=$(realpath -m "${DEMO_DIR:-out/demo}")
data=$(realpath -m "${CIFAR10_DIR:-$out/data}")
epochs=${DEMO_EPOCHS:-4}
lockstep=build/release/lockstep
step() { printf '\n\033[1m%s\033[0m\n' "$*"; }

step "1/4  Install what is missing"
scripts/install_dependencies.sh build
echo "ok"

step "2/4  Build (release; 5 to 10 minutes on two cores the first time)"
without_tests=()
[[ -f build/release/CMakeCache.txt ]] || without_tests=(-DLOCKSTEP_BUILD_TESTS=OFF)
scripts/build.sh release "${without_tests[@]}" lockstep_cli

step "3/4  Data"
if [[ -z "${CIFAR10_DIR:-}" && ! -f "$data/test_batch.bin" ]]; then
  "$lockstep" data synthesize cifar10 --out "$data" --train 2000 --test 500 --seed 1
fi
"$lockstep" data check "$data"

# ResNet-20 is made for pictures of 32x32, and learns these in a few hundred steps: the learning rate rises for an epoch and
# then falls to nothing, so that batch norms' running statistics, which evaluation uses, catch up with the weights.
step "4/4  Train a ResNet-20 on 2 processes for $epochs epochs"
run=$out/resnet20
settings="epochs $epochs, data $data"
if [[ -f "$run/demo_settings" && "$(<"$run/demo_settings")" != "$settings" ]]; then
  number=1
  while [[ -e "$run.$number" ]]; do number=$((number + 1)); done
  echo "$run was trained with other settings ($(<"$run/demo_settings")); it is now $run.$number"
  mv "$run" "$run.$number"
fi
mkdir -p "$run"
echo "$settings" >"$run/demo_settings"
if [[ -f "$run/result.json" ]]; then
  echo "already trained with these settings ($settings); remove $run to train again"
else
  "$lockstep" run --nproc-per-node 2 "$lockstep" train --config configs/resnet20_cifar10.yaml system.work_dir="$run" \
    data.root="$data" data.batch_size=32 scheduler.warmup_epochs=1 train.epochs="$epochs" train.eval_every=1
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
