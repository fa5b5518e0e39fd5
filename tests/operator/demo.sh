#!/usr/bin/env bash
# demo.sh BUILD_FOLDER: runs scripts/kubernetes_demo.sh with an API server of its own, whose programs the tests of the operator
# unpack. Where they are missing, says so and ends with 77.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools=${LOCKSTEP_TEST_TOOLS:-../shared/tools}
kube=$1/kube
if [[ ! -f "$tools/kube_start.sh" ]]; then
  echo "skipped: there is no kube_start.sh in $tools; LOCKSTEP_TEST_TOOLS names the folder with a Kubernetes API server"
  exit 77
fi
if [[ ! -f "$kube/bin/kube-apiserver.real" ]]; then
  echo "skipped: there are no programs of an API server in $kube; test_operator_cluster unpacks them"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$tools/kube_start.sh" "$kube" -- env KUBECTL="$kube/bin/kubectl" DEMO_DIR="$folder" DEMO_BUILD="$1" scripts/kubernetes_demo.sh |
  tee "$folder/said"
grep -q "the weights are equal" "$folder/said"
