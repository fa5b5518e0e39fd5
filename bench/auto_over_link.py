#!/usr/bin/env python3
"""Two ranks in two network namespaces, joined by a link of limited speed: the planner's layout against data parallel.

    bench/auto_over_link.py --mbit 1000 --config configs/mlp_mnist_auto.yaml --data DIR --rounds 3 --json link.json

`lockstep calibrate` measures the link first, then each round trains the same steps with parallel.mode data_parallel and
auto in turn; ratios are medians of each round's ratio (data parallel's step time over auto's). Needs root, `ip`, `tc`,
and the release build. Further KEY=VALUE arguments replace keys of the configuration.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

from step_times import median_step_seconds


class TwoHosts:
    """Namespaces with a cable between them; gone at the end."""

    def __init__(self, mbit):
        self.names = [f"lockstep-link-{os.getpid()}-{host}" for host in (0, 1)]
        self.mbit = mbit

    def __enter__(self):
        for name in self.names:
            run("ip", "netns", "add", name)
        run("ip", "link", "add", "cable", "netns", self.names[0], "type", "veth", "peer", "name", "cable", "netns", self.names[1])
        for host, name in enumerate(self.names):
            run("ip", "-n", name, "addr", "add", f"10.77.0.{host + 1}/24", "dev", "cable")
            run("ip", "-n", name, "link", "set", "cable", "up")
            run("ip", "-n", name, "link", "set", "lo", "up")
            if self.mbit:
                run("tc", "-n", name, "qdisc", "add", "dev", "cable", "root", "tbf", "rate", f"{self.mbit}mbit", "burst", "256kb",
                    "latency", "50ms")
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False)

    def start(self, rank, command, port, ranks, backend):
        """Ranks are on the hosts in turn."""
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank // 2), LOCAL_WORLD_SIZE=str(ranks // 2),
                           MASTER_ADDR="10.77.0.1", MASTER_PORT=str(port), OMP_NUM_THREADS="1", LOCKSTEP_BACKEND=backend,
                           LOCKSTEP_SOCKET_IFNAME="cable")
        return subprocess.Popen(["ip", "netns", "exec", self.names[rank % 2], *map(str, command)], env=environment,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def together(self, command, port, ranks=2, backend="tcp"):
        jobs = [self.start(rank, command, port, ranks, backend) for rank in range(ranks)]
        errors = [job.communicate(timeout=1800)[1] for job in jobs]
        if any(job.returncode for job in jobs):
            raise RuntimeError("\n".join(errors))


def run(*words):
    subprocess.run(words, check=True)


def train(hosts, args, mode, folder, port, cluster):
    out = folder / mode
    command = [args.build / "lockstep", "train", "--config", args.config, f"parallel.mode={mode}", f"data.root={args.data}",
               f"system.work_dir={out}", f"train.steps={args.steps}", f"data.batch_size={args.batch}",
               "train.eval_every=0", "checkpoint.every_epochs=0",
               "callbacks.metrics_every=1", *args.overrides]
    if mode == "auto":
        command.append(f"parallel.cluster={cluster}")
    hosts.together(command, port)
    plan = json.loads((out / "plan.json").read_text()) if mode == "auto" else None
    return median_step_seconds(out, 2 * args.batch, args.warmup), plan


def measure(args):
    rows, plan = [], None
    with TwoHosts(args.mbit) as hosts, tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        cluster = folder / "cluster.yaml"
        hosts.together([args.build / "lockstep", "calibrate", "--out", cluster], 29600)
        for number in range(args.rounds):
            here = folder / str(number)
            plain, _ = train(hosts, args, "data_parallel", here, 29610 + 2 * number, cluster)
            planned, plan = train(hosts, args, "auto", here, 29611 + 2 * number, cluster)
            rows.append({"data_parallel_s": plain, "auto_s": planned, "ratio": plain / planned})
        text = cluster.read_text()
    ratios = [row["ratio"] for row in rows]
    predicted = {each["name"]: each["cost_s"] for each in plan["alternatives"]}
    return {"mbit": args.mbit, "rounds": rows, "ratio": statistics.median(ratios), "predicted": predicted,
            "plan": plan["parameters"], "inputs": plan["inputs"], "cluster": text}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--build", type=Path, default=Path("build/release"))
    parser.add_argument("--config", default="configs/mlp_mnist_auto.yaml")
    parser.add_argument("--data", required=True)
    parser.add_argument("--mbit", type=int, default=1000, help="speed of the link; 0: as fast as it can")
    parser.add_argument("--batch", type=int, default=64, help="pictures of each rank")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    args.build, args.data = args.build.resolve(), str(Path(args.data).resolve())
    result = measure(args)
    for row in result["rounds"]:
        print(f"data parallel {row['data_parallel_s'] * 1e3:.1f} ms, auto {row['auto_s'] * 1e3:.1f} ms: {row['ratio']:.2f}")
    print(f"median ratio {result['ratio']:.2f}; predicted " + ", ".join(f"{k} {v * 1e3:.1f} ms" for k, v in result["predicted"].items()))
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
