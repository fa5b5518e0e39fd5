#!/usr/bin/env python3
"""The alternatives that plans are shown beside, trained: measured step times beside the predicted ones, and their order.

    bench/planned_alternatives.py --config configs/mlp_mnist_auto.yaml --data DIR --mbit 1000 --json alternatives.json

`lockstep calibrate` measures the machine and the link, `lockstep plan --choose NAME --save FILE` writes each alternative's
plan, and each round trains as many steps with each of them (parallel.plan) in turn. Two alternatives whose medians are
within --close of each other have no order. --mbit needs root, `ip` and `tc`. Further KEY=VALUE arguments replace keys of
the configuration.
"""
import argparse
import itertools
import json
import statistics
import subprocess
import tempfile
from pathlib import Path

import planned_steps

NAMES = ["data_parallel", "zero3", "megatron", "auto"]


def saved_plan(args, folder, name, cluster):
    """The alternative's plan for two devices, as file and as content."""
    file = folder / f"{name}.json"
    subprocess.run([args.build / "lockstep", "plan", "--config", args.config, "--devices", "2", "--cluster", cluster, "--choose", name,
                    "--save", file, f"data.batch_size={args.batch}", *args.overrides], check=True, stdout=subprocess.DEVNULL)
    return file, json.loads(file.read_text())


def measure(args):
    seconds = {name: [] for name in NAMES}
    with planned_steps.hosts(args) as hosts, tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        cluster = planned_steps.calibrated(hosts, args, folder, 29700)
        plans = {name: saved_plan(args, folder, name, cluster) for name in NAMES}
        port = 29701
        for number, name in itertools.product(range(args.rounds), NAMES):
            took, _ = planned_steps.train(hosts, args, folder / f"{name}{number}", port, "parallel.mode=auto",
                                          f"parallel.plan={plans[name][0]}")
            seconds[name].append(took)
            port += 1
        text = cluster.read_text()
    rows = [{"name": name, "measured_s": statistics.median(seconds[name]), "rounds_s": seconds[name],
             "predicted_s": plans[name][1]["cost_s"], "plan_hash": plans[name][1]["plan_hash"]} for name in NAMES]
    return {"config": args.config, "mbit": args.mbit, "alternatives": rows, "cluster": text, "disorder": disorder(rows, args.close)}


def disorder(rows, close):
    """Pairs that were predicted in the other order than measured."""
    wrong = []
    for a, b in itertools.combinations(rows, 2):
        fast, slow = sorted((a, b), key=lambda row: row["measured_s"])
        told_apart = slow["measured_s"] > (1 + close) * fast["measured_s"]
        if told_apart and fast["predicted_s"] > slow["predicted_s"]:
            wrong.append([fast["name"], slow["name"]])
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default="configs/mlp_mnist_auto.yaml")
    parser.add_argument("--data", required=True)
    parser.add_argument("--close", type=float, default=0.05, help="medians that differ by less have no order")
    planned_steps.add_arguments(parser, batch=64, steps=20, warmup=4, rounds=2)
    args = parser.parse_args()
    args.build, args.data = args.build.resolve(), str(Path(args.data).resolve())
    result = measure(args)
    for row in result["alternatives"]:
        print(f"{row['name']:14} measured {row['measured_s'] * 1e3:8.1f} ms, predicted {row['predicted_s'] * 1e3:8.1f} ms "
              f"({row['predicted_s'] / row['measured_s'] - 1:+.0%})")
    print("order: " + ("as predicted" if not result["disorder"] else
                       ", ".join(f"{fast} is faster than {slow}, which was predicted the other way" for fast, slow in result["disorder"])))
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
