"""Short training runs of two ranks, on one host or on two that a cable joins, and how long their steps took."""
import json
import os
import subprocess
from pathlib import Path

from auto_over_link import TwoHosts
from step_times import median_step_seconds


class OneHost:
    """As TwoHosts: both ranks here, under `lockstep run`."""

    def __init__(self, build):
        self.build = build

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def together(self, command, port):
        words = [self.build / "lockstep", "run", "--nproc-per-node", "2", "--master-port", port, *command]
        job = subprocess.run([str(word) for word in words], env=dict(os.environ, OMP_NUM_THREADS="1"), stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True, timeout=1800)
        if job.returncode:
            raise RuntimeError(job.stderr)


def hosts(args):
    """Where --mbit says: None is one host, 0 a cable as fast as it can, else its speed."""
    return OneHost(args.build) if args.mbit is None else TwoHosts(args.mbit)


def train(hosts, args, folder, port, *keys):
    """Median seconds of the steps after the first few, and the plan where there was one."""
    hosts.together([args.build / "lockstep", "train", "--config", args.config, f"system.work_dir={folder}", f"train.steps={args.steps}",
                    f"data.root={args.data}", f"data.batch_size={args.batch}", "train.eval_every=0", "data.eval_batch_size=100",
                    "checkpoint.every_epochs=0", "checkpoint.every_steps=0", "checkpoint.export_weights=false",
                    "callbacks.metrics_every=1", "callbacks.loss_every=0", "callbacks.loss_curve=false", *keys, *args.overrides], port)
    plan = folder / "plan.json"
    return median_step_seconds(folder, 2 * args.batch, args.warmup), json.loads(plan.read_text()) if plan.exists() else None


def calibrated(hosts, args, folder, port):
    cluster = folder / "cluster.yaml"
    hosts.together([args.build / "lockstep", "calibrate", "--out", cluster, "--rounds", args.calibrate_rounds], port)
    return cluster


def add_arguments(parser, batch, steps, warmup, rounds):
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--build", type=Path, default=Path("build/release"))
    parser.add_argument("--mbit", type=int, help="two network namespaces joined by a link of this speed (0: as fast as it can); "
                        "without it one host")
    parser.add_argument("--batch", type=int, default=batch, help="pictures of each rank")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--warmup", type=int, default=warmup)
    parser.add_argument("--calibrate-rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
