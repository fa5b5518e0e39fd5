#!/usr/bin/env bash
# LockstepJobs on a Kubernetes API server, without nodes: `lockstep operator` makes Pods, and the test kubelet runs them as
# processes of this machine. An MLP is trained by 2 workers with a scheduler and TLS, twice; the second time one worker is
# killed. It is replaced in place, the other one keeps running, and the trained weights are equal.
#   KUBECONFIG=FILE   an API server where this user may make definitions and namespaces, e.g. of ../shared/tools/kube_start.sh
#   KUBECTL=PROGRAM   (default: kubectl)
#   DEMO_DIR=DIR      where everything goes (default: out/kubernetes_demo)
#   DEMO_SPACE=NAME   the namespace (default: lockstep-demo); what the demonstration makes in it is deleted at the end
#   DEMO_BUILD=DIR    with `lockstep` and tests/lockstep_test_kubelet (default: build/release)
set -euo pipefail
cd "$(dirname "$0")/.."

: "${KUBECONFIG:?names a file that says how to reach an API server}"
export KUBECONFIG
kubectl=${KUBECTL:-kubectl}
build=$(realpath "${DEMO_BUILD:-build/release}")
out=$(realpath -m "${DEMO_DIR:-out/kubernetes_demo}")
space=${DEMO_SPACE:-lockstep-demo}
lockstep=$build/lockstep
kubelet=$build/tests/lockstep_test_kubelet
for program in "$lockstep" "$kubelet"; do
  [[ -x "$program" ]] || { echo "error: there is no $program; build the targets lockstep_cli and lockstep_test_kubelet" >&2; exit 1; }
done
command -v "$kubectl" >/dev/null || { echo "error: there is no $kubectl; set KUBECTL to one" >&2; exit 1; }
step() { printf '\n\033[1m%s\033[0m\n' "$*"; }
in_space() { "$kubectl" --namespace "$space" "$@"; }

pids=()
finish() {
  local code=$?
  trap '' EXIT TERM INT
  in_space delete lockstepjobs undisturbed disturbed --ignore-not-found --wait=false >/dev/null 2>&1 || true
  in_space delete pods --all --force --grace-period=0 >/dev/null 2>&1 || true
  if ((${#pids[@]} > 0)); then kill "${pids[@]}" 2>/dev/null || true; wait "${pids[@]}" 2>/dev/null || true; fi
  "$kubectl" delete node demo-0 demo-1 --ignore-not-found >/dev/null 2>&1 || true
  exit "$code"
}
trap finish EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

step "1/4  A kind, a namespace, an operator, a kubelet"
rm -rf "$out/kubelet" "$out/claims/data/runs"
mkdir -p "$out/kubelet" "$out/claims/data"
"$lockstep" operator --print-crd | "$kubectl" apply -f -
"$kubectl" wait --for condition=established crd/lockstepjobs.lockstep.dev --timeout=60s >/dev/null
"$kubectl" create namespace "$space" --dry-run=client -o yaml | "$kubectl" apply -f - 2>/dev/null
"$lockstep" operator --namespace "$space" --no-leader-election --progress-seconds 1 >"$out/operator.log" 2>&1 &
pids+=($!)
"$kubelet" --namespace "$space" --folder "$out/kubelet" --claims "$out/claims" --path "$build" --node demo \
  >"$out/kubelet.log" 2>&1 &
pids+=($!)

step "2/4  Pictures that look like MNIST"
data=$out/claims/data/mnist
[[ -f "$data/t10k-labels-idx1-ubyte" ]] || "$lockstep" data synthesize mnist --out "$data" --train 20000 --test 1000 --seed 1

job() { # job NAME [FAULT]: the YAML file that is enough
  cat <<YAML
apiVersion: lockstep.dev/v1alpha1
kind: LockstepJob
metadata: {name: $1}
spec:
  mode: Scheduler
  recovery: {path: /data/runs/$1/scheduler}
  runPolicy: {cleanPodPolicy: None}
  replicaSpecs:
    Scheduler: {template: {spec: {containers: [{name: lockstep, image: lockstep, command: [lockstep, scheduler],
      volumeMounts: [{name: data, mountPath: /data}]}], volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]}}}
    Worker:
      replicas: 2
      template:
        spec:
          containers:
            - name: lockstep
              image: lockstep
              command: [lockstep, train, --config, $PWD/configs/mlp_mnist.yaml, data.root=/data/mnist,
                        system.work_dir=/data/runs/$1, train.epochs=6]
              env: [{name: LOCKSTEP_FAULT, value: "${2:-}"}]
              volumeMounts: [{name: data, mountPath: /data}]
          volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
YAML
}
field() { in_space get lockstepjob "$1" -o "jsonpath={.status.$2}"; }
# wait_for JOB WHAT CONDITION...: runs the condition until it holds, at most 5 minutes, and not longer than the job.
wait_for() {
  local name=$1 what=$2 deadline=$((SECONDS + 300))
  shift 2
  until "$@"; do
    if [[ "$(field "$name" phase)" == @(Succeeded|Failed) ]]; then
      "$@" && break
      echo "error: $name: no $what, and it has ended: $(field "$name" phase) $(field "$name" lastError); logs are in $out" >&2
      exit 1
    fi
    for pid in "${pids[@]}"; do
      kill -0 "$pid" 2>/dev/null || { echo "error: the operator or the kubelet ended: $(tail -qn 1 "$out"/*.log)" >&2; exit 1; }
    done
    if ((SECONDS > deadline)); then
      echo "error: $name: no $what: $(field "$name" phase) $(field "$name" lastError); logs are in $out" >&2
      exit 1
    fi
    sleep 0.2
  done
}
has_phase() { [[ "$(field "$1" phase)" == "$2" ]]; }
has_step() { local at; at=$(field "$1" step); ((${at:-0} >= $2)); }
hash_of() { jq -r .params_sha256 "$out/claims/data/runs/$1/result.json"; }

step "3/4  Two workers and a scheduler"
job undisturbed | in_space apply -f -
wait_for undisturbed "end" has_phase undisturbed Succeeded
in_space get lockstepjobs

step "4/4  The same, and a worker is killed"
# Each step takes 20 ms more: a fast machine would be done before anybody could look. The numbers are the same.
job disturbed rank=0,step=1,action=slow,ms=20 | in_space apply -f -
wait_for disturbed "step" has_step disturbed 100
other=$(in_space get pod disturbed-worker-0 -o 'jsonpath={.metadata.uid}')
echo "in step $(field disturbed step) disturbed-worker-1 gets SIGKILL"
echo "kill disturbed-worker-1" >"$out/kubelet/commands"
wait_for disturbed "end" has_phase disturbed Succeeded
in_space get lockstepjobs
in_space get events --sort-by .metadata.creationTimestamp -o 'custom-columns=REASON:.reason,MESSAGE:.message' \
  --field-selector involvedObject.name=disturbed,involvedObject.kind=LockstepJob

step "Done"
[[ "$(in_space get pod disturbed-worker-0 -o 'jsonpath={.metadata.uid}')" == "$other" ]] ||
  { echo "error: worker 0 was replaced, too" >&2; exit 1; }
printf '  restarts         %s, of worker 1 alone\n' "$(field disturbed restarts)"
for name in undisturbed disturbed; do printf '  %-16s %s\n' "$name" "$(hash_of "$name")"; done
[[ "$(hash_of undisturbed)" == "$(hash_of disturbed)" && "$(field disturbed restarts)" == 1 ]] ||
  { echo "error: the weights differ, or no worker was replaced" >&2; exit 1; }
echo "  the weights are equal; logs of operator, kubelet and Pods are in $out"
