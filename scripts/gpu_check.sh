#!/usr/bin/env bash
# Builds Lockstep on a GPU host with the libtorch of a Python, runs the tests that need a device, compares training steps with
# PyTorch's in turn, and writes one JSON. Where there is no device everything is compiled, and it ends with 77 ("skipped").
# Usage: scripts/gpu_check.sh [--python PYTHON] [--deps FOLDER] [--json FILE] [--build FOLDER] [--rounds N]
#   --python  a Python with torch and its headers (python3)
#   --deps    packages that the host lacks, unpacked: what scripts/gpu_deps.sh makes
#   --json    where the results go (FOLDER of the build, gpu_check.json)
#   --build   where it is built (build/gpu)
#   --rounds  pairs of runs of each comparison (5)
# Needs CMake, Ninja and g++. Ends with 1 where a test or a comparison failed; the JSON names it.
set -euo pipefail
[[ ${1:-} != -h && ${1:-} != --help ]] || { sed -n '2,10s/^# //p' "$0"; exit 0; }
fail() { echo "error: $*" >&2; exit 2; }
python=python3 deps="" json="" build="" rounds=5
while (($# > 0)); do
  (($# >= 2)) || fail "$1 needs a value"
  case $1 in
    --python) python=$(command -v "$2") || fail "there is no $2" ;;
    --deps) deps=$(realpath -e "$2") || fail "there is no folder $2" ;;
    --json) json=$(realpath -m "$2") ;;
    --build) build=$(realpath -m "$2") ;;
    --rounds) rounds=$2 ;;
    *) fail "unknown option $1; the head of this script lists them" ;;
  esac
  shift 2
done
cd "$(dirname "$0")/.."
build=${build:-$PWD/build/gpu}
json=${json:-$build/gpu_check.json}
tests=$build/gpu_tests.xml
"$python" -c 'import torch' 2>/dev/null || fail "$python has no torch; scripts/install_torch.sh makes one that has"

settings=(-DCMAKE_BUILD_TYPE=Release -DLOCKSTEP_TORCH_PYTHON="$python" -DLOCKSTEP_UNITY=ON -DLOCKSTEP_BUILD_TESTS=ON)
# Whatever else the host has or has not, this is about devices; so the warnings of its compiler are no errors.
settings+=(-DLOCKSTEP_WITH_MPI=OFF -DLOCKSTEP_WITH_OCR=OFF -DLOCKSTEP_WERROR=OFF)
if [[ -n $deps ]]; then
  settings+=(-DCMAKE_PREFIX_PATH="$deps/usr" -DOPENSSL_ROOT_DIR="$deps/usr" -DBOOST_ROOT="$deps/usr" -DBoost_NO_BOOST_CMAKE=ON)
  # Programs find the libraries there, those that libraries need included.
  libraries=$(dirname "$(find "$deps/usr/lib" -name 'libfmt.so*' -print -quit)")
  export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
mkdir -p "$build" "$(dirname "$json")"
cmake -S . -B "$build" -G Ninja "${settings[@]}" > "$build.log" 2>&1 || { tail -30 "$build.log" >&2; fail "CMake failed; all of it is in $build.log"; }
ninja -C "$build" lockstep_cli lockstep_tests_gpu train_step
"$build/lockstep" info

# Asked in another process, as this one shall go on to start others.
devices=$("$python" -c 'import torch; print(torch.cuda.device_count())' 2>/dev/null)
if [[ $devices == 0 ]]; then
  echo "gpu_check: everything was compiled, and there is no device to run it on"
  "$python" - "$json" <<'PY'
import json, sys
json.dump({"devices": [], "tests": None, "comparisons": []}, open(sys.argv[1], "w"), indent=1)
PY
  exit 77
fi

status=0
ctest --test-dir "$build" -L '^gpu$' --no-tests=error --output-on-failure --output-junit "$tests" || status=1
results=()
compare() {  # NAME, CASES, and words for the comparison
  bench/vs_pytorch_ddp.py --build "$build" --python "$python" --device cuda --rounds "$rounds" --json "$build/$1.json" --cases "${@:2}" || status=1
  results+=("$build/$1.json")
}
cases=mlp,toy small=mlp
if "$python" -c 'import torchvision' 2>/dev/null; then
  cases+=,resnet18_32,resnet50_32 small+=,resnet20_32
  large=(resnet50_224 --world 1 --batch 256 --bfloat16 --peer-bfloat16 --peer-channels-last)
  compare large_eager "${large[@]}"
  compare large_compiled "${large[@]}" --compile
fi
compare gpt gpt2_124m --world 1 --batch 16 --bfloat16 --peer-bfloat16
compare eager "$cases" --world 1
compare recorded "$small" --world 1 --graph
compare compiled "$cases" --world 1 --compile
((devices < 2)) || compare all_devices "$cases" --world "$devices"

"$python" - "$json" "$tests" "${results[@]}" <<'PY'
import json, os, re, subprocess, sys
import torch
output, tests, *comparisons = sys.argv[1:]
text = open(tests).read()
# What each test binary printed of its tests; a skip has its reason there.
said = re.findall(r"^(skipped: .*|\[  (?:PASSED|FAILED)  \] .*)$", text, re.M)
driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True)
result = {
    "devices": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
    "driver": driver.stdout.split("\n")[0],
    "torch": torch.__version__,
    "cuda": torch.version.cuda,
    "nccl": ".".join(map(str, torch.cuda.nccl.version())),
    "tests": {"failed": int(re.search(r'failures="(\d+)"', text)[1]), "said": said},
    "comparisons": [{"name": os.path.basename(path)[:-5], "results": json.load(open(path))}
                    for path in comparisons if os.path.exists(path)],
}
json.dump(result, open(output, "w"), indent=1)
PY
echo "gpu_check: $json has the results"
exit $status
