#!/usr/bin/env python3
"""Breaks a job of `lockstep run` at random (kills and pauses of ranks, kills of the launchers' helper processes and of
launchers, partitions of the network) and compares its final weights with those of an undisturbed run. The same seed
breaks the same things in the same order.

    scripts/chaos_launcher.py SEED [--seconds 120] [--ranks 4] [--launchers 1] [--hosts 1] [--plain] [--build build/release]

With --plain, one launcher runs as without flags: at most three ranks are killed or paused, and any number of helpers.

With two launchers, each has half of the ranks, and either may be killed; it is then started again. The job's state is in
an etcd that the script starts. The ranks of the launcher with node 0 go on from memory when the other one is killed; when
it is killed itself, a new round begins. With two hosts, each launcher is in a network namespace (which needs root and
iproute2), and the cable between them is at times unplugged for some seconds; only the second launcher is killed then,
because etcd is on the first host. What scripts/chaos.sh is to a job with a scheduler, this is to one without."""

import argparse
import collections
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seed", type=int)
    parser.add_argument("--seconds", type=float, default=120, help="seconds of breaking; the job then ends undisturbed")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--launchers", type=int, default=1, choices=(1, 2))
    parser.add_argument("--hosts", type=int, default=1, choices=(1, 2))
    parser.add_argument("--plain", action="store_true", help="one launcher without --max-restarts")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    args = parser.parse_args()
    if args.hosts > args.launchers:
        parser.error("two hosts need a launcher on each: --launchers 2")
    if args.plain and args.launchers > 1:
        parser.error("--plain is for one launcher")
    return args


class Hosts:
    """Two network namespaces that a cable joins, or this host alone."""

    def __init__(self, count):
        self.names = [f"lockstep-{os.getpid()}-{letter}" for letter in "ab"] if count > 1 else []
        self.ends = [f"ls{os.getpid()}{letter}" for letter in "ab"]

    def __enter__(self):
        for name in self.names:
            self.ip("netns", "add", name)
        if self.names:
            self.ip("link", "add", self.ends[0], "type", "veth", "peer", "name", self.ends[1])
        for number, (name, end) in enumerate(zip(self.names, self.ends)):
            self.ip("link", "set", end, "netns", name)
            self.ip("-n", name, "addr", "add", f"{self.address(number)}/24", "dev", end)
            self.ip("-n", name, "link", "set", end, "up")
            self.ip("-n", name, "link", "set", "lo", "up")
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)

    def address(self, number):
        return f"10.79.0.{number + 1}" if self.names else "127.0.0.1"

    def on(self, number, command):
        return ["ip", "netns", "exec", self.names[number], *command] if self.names else command

    def plug(self, state):
        self.ip("-n", self.names[1], "link", "set", self.ends[1], state)

    def ip(self, *words):
        subprocess.run(["ip", *words], check=True)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Job:
    """The launchers of one job, each started again when it was killed."""

    def __init__(self, args, hosts, folder, epochs):
        self.args = args
        self.hosts = hosts
        self.folder = folder
        self.port = free_port()
        train = ["train", "--config", folder / "run.yaml", f"train.epochs={epochs}"]
        flags = [] if args.plain else ["--max-restarts", "100000"]
        flags += ["--nproc-per-node", str(args.ranks // args.launchers)]
        self.etcd = None
        if args.launchers > 1:
            self.start_etcd()
            flags += ["--nnodes", str(args.launchers), "--rdzv-backend", "etcd", "--rdzv-id", "chaos", "--rdzv-endpoint",
                      f"{hosts.address(0)}:{self.port}", "--rdzv-conf", "read_timeout=10"]
        self.command = [str(word) for word in [args.build / "lockstep", "run", *flags, args.build / "lockstep", *train]]
        self.launchers = [None] * args.launchers
        self.starts = 0
        self.started = 0.0

    def start_etcd(self):
        clients, peers = (f"http://{self.hosts.address(0)}:{port}" for port in (self.port, free_port()))
        command = ["etcd", "--data-dir", str(self.folder / "etcd"), "--log-level", "error", "--listen-client-urls", clients,
                   "--advertise-client-urls", clients, "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
                   "--initial-cluster", f"default={peers}"]
        log = open(self.folder / "etcd.log", "ab")
        self.etcd = subprocess.Popen(self.hosts.on(0, command), stdout=log, stderr=log)

    def start(self, number):
        log = open(self.folder / f"launcher.{number}.log", "ab")
        command = self.hosts.on(number, self.command)
        environment = {**os.environ, "LOCKSTEP_NODE_TIMEOUT_S": "5", "LOCKSTEP_HOST_TIMEOUT_S": "5", "OMP_NUM_THREADS": "1"}
        self.launchers[number] = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        self.starts += 1
        self.started = time.monotonic()

    def tend(self):
        """Starts again what was killed, and a launcher that a partition has cut off from etcd. The exit codes once
        all launchers have ended by themselves."""
        for number, launcher in enumerate(self.launchers):
            cut_off = number > 0 and self.hosts.names and launcher and launcher.poll() and self.launchers[0].poll() is None
            if launcher is None or launcher.poll() == -signal.SIGKILL or cut_off:
                self.start(number)
        codes = [launcher.poll() for launcher in self.launchers]
        return codes if None not in codes else None

    def below(self):
        """Number and name of each process below a launcher."""
        parents = {}
        names = {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(") ")
            except OSError:
                continue
            names[int(entry.name)], parents[int(entry.name)] = name, int(rest.split()[1])
        above = {launcher.pid for launcher in self.launchers if launcher}

        def is_below(process):
            while process in parents and process not in above:
                process = parents[process]
            return process in above

        return {number: name for number, name in names.items() if number not in above and is_below(number)}

    def ranks(self):
        """Process numbers of the ranks, by rank: as their own environments tell, and where they were forked, and have the
        environment of the process that forked them, in the order of their numbers."""
        found = {}
        forked = []
        for number, name in sorted(self.below().items()):
            if name.startswith("lockstep-"):
                continue
            try:
                words = pathlib.Path(f"/proc/{number}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            variables = dict(word.split(b"=", 1) for word in words if b"=" in word)
            rank = variables.get(b"RANK", b"")
            if rank.isdigit() and variables.get(b"LOCKSTEP_SESSION_FILE"):
                found[int(rank)] = number
            elif rank == b"?":
                forked.append(number)
        return found or dict(enumerate(forked))

    def helpers(self):
        """Numbers and names of the launchers' processes that are no ranks."""
        return sorted((number, name) for number, name in self.below().items() if name.startswith("lockstep-"))

    def has_trained(self):
        return (self.folder / "out" / "metrics.jsonl").exists()

    def result(self):
        file = self.folder / "out" / "result.json"
        return json.loads(file.read_text()) if file.exists() else {}

    def end(self):
        for launcher in self.launchers:
            if launcher and launcher.poll() is None:
                launcher.terminate()
                launcher.wait()
        if self.etcd:
            self.etcd.kill()
            self.etcd.wait()


def prepare(args, folder):
    subprocess.run([args.build / "lockstep", "data", "synthesize", "cifar10", "--out", folder / "data", "--train", "40",
                    "--test", "10"], check=True, stdout=subprocess.DEVNULL)
    (folder / "run.yaml").write_text(f"""
system:
  seed: 7
  work_dir: {folder}/out
model:
  name: mlp
  hidden: [32]
data:
  name: cifar10
  root: {folder}/data
  global_batch_size: 8
  train_transforms: [{{rescale: {{scale: 0.00392}}}}, hwc2chw]
  eval_transforms: [{{rescale: {{scale: 0.00392}}}}, hwc2chw]
optimizer:
  name: momentum
  lr: 0.01
  momentum: 0.9
train:
  eval_every: 50
callbacks:
  loss_every: 0
  metrics_every: 50
checkpoint:
  every_epochs: 0
  every_steps: 50
""")


def to_the_end(job, limit):
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        codes = job.tend()
        if codes is not None:
            return codes
        time.sleep(0.02)
    return None


def peace(args, hosts, epochs):
    with tempfile.TemporaryDirectory(prefix="lockstep-chaos-") as name:
        folder = pathlib.Path(name)
        prepare(args, folder)
        job = Job(args, hosts, folder, epochs)
        try:
            codes = to_the_end(job, 600 + 10 * args.seconds)
            if codes is None or any(codes):
                sys.exit(f"chaos: the undisturbed run failed: {codes}\n" + last_words(folder))
            return job.result()
        finally:
            job.end()


def last_words(folder):
    return "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}" for log in folder.glob("launcher.*.log"))


class Strikes:
    def __init__(self, args, job):
        self.args, self.job = args, job
        self.random = random.Random(args.seed)
        self.paused = {}
        self.unplugged_until = None
        self.counts = collections.Counter()
        self.began = time.monotonic()

    def say(self, what):
        print(f"{time.monotonic() - self.began:7.1f} s  {what}", flush=True)

    def signal(self, process, number):
        try:
            os.kill(process, number)
        except ProcessLookupError:
            pass

    def end_pauses(self, now):
        for process, until in list(self.paused.items()):
            if now >= until:
                self.signal(process, signal.SIGCONT)
                del self.paused[process]
        if self.unplugged_until and now >= self.unplugged_until:
            self.job.hosts.plug("up")
            self.unplugged_until = None

    def unplug(self, length):
        if self.unplugged_until:
            return
        self.counts["partitions"] += 1
        self.say(f"unplug the hosts for {length:.1f} s")
        self.job.hosts.plug("down")
        self.unplugged_until = time.monotonic() + length

    def strike(self):
        ranks = self.job.ranks()
        kind = self.random.randrange(13)
        victims = self.random.sample(range(self.args.ranks), 2 if kind == 0 else 1)
        length = self.random.uniform(0.2, 9.0)
        if 7 <= kind < 10 and self.random.randrange(2) == 0 and self.args.hosts > 1:
            return self.unplug(1.5 * length)
        if kind == 9 and self.args.launchers > 1:
            launcher = 1 if self.args.hosts > 1 else self.random.randrange(2)
            self.counts[f"kills of launcher {launcher}"] += 1
            self.say(f"kill launcher {launcher}")
            self.job.launchers[launcher].kill()
            return
        if kind >= 10:
            return self.kill_helper()
        if self.args.plain:
            if self.counts["kills of ranks"] + self.counts["pauses"] + len(victims) > 3:
                return
        for rank in victims:
            process = ranks.get(rank)
            if process is None:
                self.say(f"(rank {rank} does not run)")
            elif 3 <= kind <= 5:
                self.counts["pauses"] += 1
                self.say(f"pause rank {rank} for {length:.1f} s")
                self.signal(process, signal.SIGSTOP)
                self.paused[process] = time.monotonic() + length
            else:
                self.counts["kills of ranks"] += 1
                self.say(f"kill rank {rank}")
                self.signal(process, signal.SIGKILL)

    def kill_helper(self):
        helpers = self.job.helpers()
        if not helpers:
            return self.say("(no helper runs)")
        number, name = self.random.choice(helpers)
        self.counts["kills of helpers"] += 1
        self.say(f"kill {name} ({number})")
        self.signal(number, signal.SIGKILL)

    def wreak(self):
        """The exit codes if the job ended meanwhile."""
        while not self.job.has_trained():
            codes = self.job.tend()
            if codes is not None:
                return codes
            time.sleep(0.05)
        self.began = time.monotonic()
        following = self.began + 1
        while time.monotonic() < self.began + self.args.seconds:
            codes = self.job.tend()
            if codes is not None:
                return codes
            now = time.monotonic()
            self.end_pauses(now)
            if now >= following:
                self.strike()
                following = now + self.random.uniform(0.3, 4.3)
            time.sleep(0.02)
        self.end_pauses(float("inf"))
        return None


def break_and_compare(args, hosts):
    sample = peace(args, hosts, 100)
    epochs = max(100, int(100 / max(sample["seconds"], 0.01) * args.seconds / (1.5 if args.plain else 6)))
    calm = peace(args, hosts, epochs)
    print(f"undisturbed: {epochs} epochs in {calm['seconds']:.1f} s", flush=True)
    with tempfile.TemporaryDirectory(prefix="lockstep-chaos-") as name:
        folder = pathlib.Path(name)
        prepare(args, folder)
        job = Job(args, hosts, folder, epochs)
        try:
            strikes = Strikes(args, job)
            codes = strikes.wreak()
            if codes is None:
                codes = to_the_end(job, 300 + 10 * args.seconds)
            said = "".join(log.read_text(errors="replace") for log in folder.glob("launcher.*.log"))
            print(", ".join(f"{count} {kind}" for kind, count in strikes.counts.items()))
            print(f"{said.count('and pid')} ranks and {said.count('takes its place, and the other')} nodes replaced in "
                  f"place, {job.starts} launchers started")
            if not strikes.counts:
                print("nothing was broken: the job ended before, or its processes were not found")
                return 1
            if codes is not None and not any(codes) and job.result().get("params_sha256") == calm["params_sha256"]:
                print(f"the weights are those of the undisturbed run: {calm['params_sha256']}")
                return 0
            print(f"DIFFERENT END: exit codes {codes}, {job.result().get('params_sha256')} instead of "
                  f"{calm['params_sha256']}\n{last_words(folder)}")
            return 1
        finally:
            job.end()


def main():
    args = arguments()
    with Hosts(args.hosts) as hosts:
        return break_and_compare(args, hosts)


if __name__ == "__main__":
    sys.exit(main())
