#!/usr/bin/env python3
"""Mode auto with --verify-plan against plain data parallel, on one host without a slow link, for every model of configs/ and a
small GPT (planned by auto_parallel() with verify_steps, beside DataParallel): is auto ever slower?

    bench/auto_vs_data_parallel.py --json never_slower.json

Each round trains as many steps in both modes in turn; a ratio is the median of each round's (auto's step time over data
parallel's), so 1.03 is 3 % slower. Pictures are synthetic. With the defaults all of it takes about 8 minutes on two cores;
--models names fewer.
"""
import argparse
import json
import statistics
import subprocess
import tempfile
from pathlib import Path
from types import SimpleNamespace

import planned_steps

# Configuration, data set, pictures of each rank, further keys.
MODELS = {
    "mlp": ("configs/mlp_mnist.yaml", "mnist", 64, []),
    "wide_mlp": ("configs/mlp_mnist_auto.yaml", "mnist", 64, []),
    "lenet5": ("configs/mlp_mnist.yaml", "mnist", 64, ["model.name=lenet5"]),
    "resnet20": ("configs/resnet20_cifar10.yaml", "cifar10", 32, []),
    "resnet18": ("configs/resnet18_cifar10.yaml", "cifar10", 8, []),
    "resnet50_32": ("configs/resnet50_cifar10_32.yaml", "cifar10", 8, []),
    "vgg11": ("configs/vgg11_cifar10_auto.yaml", "cifar10", 8, []),
}
GPT = "gpt"


def picture_step(hosts, args, folder, port, name, mode, cluster):
    config, _, batch, keys = MODELS[name]
    run = SimpleNamespace(**{**vars(args), "config": config, "batch": batch, "data": folder / MODELS[name][1], "overrides": [*keys, *args.overrides]})
    more = [f"parallel.cluster={cluster}", "--verify-plan"] if mode == "auto" else []
    return planned_steps.train(hosts, run, folder / f"{name}{port}", port, f"parallel.mode={mode}", *more)[0]


def gpt_step(hosts, args, folder, port, mode, cluster):
    out = folder / f"gpt{port}.json"
    hosts.together([args.build / "bench/planned_gpt", "--mode", mode, "--cluster", cluster, "--verify", 5, "--steps", args.steps,
                    "--warmup", args.warmup, "--out", out], port)
    return json.loads(out.read_text())["step_s"]


def compare(args, names):
    rows = []
    with planned_steps.hosts(args) as hosts, tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for data in {MODELS[name][1] for name in names if name != GPT}:
            subprocess.run([args.build / "lockstep", "data", "synthesize", data, "--out", folder / data, "--train", "2000", "--test",
                            "100"], check=True, stdout=subprocess.DEVNULL)
        cluster = planned_steps.calibrated(hosts, args, folder, 29800)
        port = 29801
        for name in names:
            rounds = []
            for _ in range(args.rounds):
                took = {}
                for mode in ("data_parallel", "auto"):
                    took[mode] = (gpt_step(hosts, args, folder, port, mode, cluster) if name == GPT else
                                  picture_step(hosts, args, folder, port, name, mode, cluster))
                    port += 1
                rounds.append({"data_parallel_s": took["data_parallel"], "auto_s": took["auto"],
                               "ratio": took["auto"] / took["data_parallel"]})
            rows.append({"model": name, "ratio": statistics.median(row["ratio"] for row in rounds), "rounds": rounds})
            print(f"{name:12} auto / data parallel {rows[-1]['ratio']:.3f}   " +
                  ", ".join(f"{row['auto_s'] * 1e3:.1f} / {row['data_parallel_s'] * 1e3:.1f} ms" for row in rounds), flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join([*MODELS, GPT]), help="comma-separated")
    planned_steps.add_arguments(parser, batch=0, steps=10, warmup=2, rounds=2)
    args = parser.parse_args()
    args.build = args.build.resolve()
    names = args.models.split(",")
    unknown = [name for name in names if name != GPT and name not in MODELS]
    if unknown:
        parser.error(f"no model {unknown[0]}; there are {', '.join([*MODELS, GPT])}")
    rows = compare(args, names)
    worst = max(rows, key=lambda row: row["ratio"])
    print(f"slowest beside data parallel: {worst['model']}, {worst['ratio']:.3f}")
    if args.json:
        args.json.write_text(json.dumps({"models": rows, "worst": worst["ratio"]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
