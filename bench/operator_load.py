#!/usr/bin/env python3
"""Many LockstepJobs at once: requests of `lockstep operator` for each job, and its memory.

Makes jobs in a namespace of its own, plays the kubelets (Pods run, then worker 0 of each job ends with 0), and reads the
operator's /metrics. Needs an API server: the variables KUBECONFIG, KUBE_SERVER, KUBE_CA and KUBE_TOKEN of
../shared/tools/kube_start.sh.

    kube_start.sh CACHE -- bench/operator_load.py build/release/lockstep --jobs 200 --pods 8
"""
import argparse
import http.client
import json
import os
import ssl
import subprocess
import time

JOBS = "/apis/lockstep.dev/v1alpha1/namespaces/{}/lockstepjobs"


class Server:
    def __init__(self):
        trust = ssl.create_default_context(cafile=os.environ["KUBE_CA"])
        self.connection = http.client.HTTPSConnection(os.environ["KUBE_SERVER"].split("//")[1], context=trust)
        self.token = os.environ["KUBE_TOKEN"]

    def ask(self, method, path, body=None, kind="application/json"):
        fields = {"Authorization": f"Bearer {self.token}", "Content-Type": kind}
        self.connection.request(method, path, None if body is None else json.dumps(body), fields)
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:300]}")
        return json.loads(text)


def container_status(state):
    return [{"name": "lockstep", "image": "none", "imageID": "", "ready": False, "restartCount": 0, "state": state}]


RUNNING = {"phase": "Running", "containerStatuses": container_status({"running": {"startedAt": "2026-01-01T00:00:00Z"}})}
ENDED = {"phase": "Succeeded", "containerStatuses": container_status({"terminated": {"exitCode": 0}})}


def wait(holds):
    while not holds():
        time.sleep(0.5)
    time.sleep(1)  # events are the last requests


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lockstep")
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--pods", type=int, default=8)
    parser.add_argument("--port", type=int, default=39871, help="of the operator's metrics")
    options = parser.parse_args()

    server = Server()
    space = "operator-load"
    definition = subprocess.run([options.lockstep, "operator", "--print-crd"], check=True, capture_output=True).stdout
    subprocess.run(["kubectl", "apply", "-f", "-"], input=definition, check=True, stdout=subprocess.DEVNULL)
    server.ask("POST", "/api/v1/namespaces", {"metadata": {"name": space}})
    time.sleep(3)  # the namespace's service account, the definition
    operator = subprocess.Popen([options.lockstep, "operator", "--namespace", space, "--no-leader-election", "--burst", "1000",
                                 "--requests-per-second", "1000", "--log-level", "warning", "--probe-address",
                                 f"127.0.0.1:{options.port}"])
    time.sleep(1)

    def requests():
        connection = http.client.HTTPConnection("127.0.0.1", options.port)
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("lockstep_operator_requests_total"))

    def memory():
        with open(f"/proc/{operator.pid}/status") as status:
            return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))

    def tell(what):
        print(f"{what}: {requests() / options.jobs:.1f} requests for each job so far, at most {memory():.0f} MiB", flush=True)

    pods_path = f"/api/v1/namespaces/{space}/pods"
    jobs_path = JOBS.format(space)

    def pods():
        return server.ask("GET", pods_path + "?resourceVersion=0")["items"]

    def set_status(pod, status):
        server.ask("PATCH", f"{pods_path}/{pod['metadata']['name']}/status", {"status": status}, "application/merge-patch+json")

    def all_are(phase):
        return all(job.get("status", {}).get("phase") == phase for job in server.ask("GET", jobs_path)["items"])

    try:
        template = {"spec": {"containers": [{"name": "lockstep", "image": "none", "command": ["lockstep"]}]}}
        spec = {"replicaSpecs": {"Worker": {"replicas": options.pods, "template": template}}}
        begin = time.time()
        for number in range(options.jobs):
            server.ask("POST", jobs_path, {"apiVersion": "lockstep.dev/v1alpha1", "kind": "LockstepJob",
                                           "metadata": {"name": f"job-{number}"}, "spec": spec})
        wait(lambda: len(pods()) == options.jobs * options.pods)
        print(f"{options.jobs} jobs of {options.pods} Pods")
        tell(f"the Pods exist, after {time.time() - begin:.0f} s")
        there = pods()
        for pod in there:
            set_status(pod, RUNNING)
        wait(lambda: all_are("Running"))
        tell("all run")
        for pod in there:
            if pod["metadata"]["name"].endswith("-worker-0"):
                set_status(pod, ENDED)
        wait(lambda: all_are("Succeeded"))
        tell("all have succeeded")
    finally:
        operator.terminate()
        operator.wait()


if __name__ == "__main__":
    main()
