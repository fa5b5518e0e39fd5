#!/usr/bin/env python3
"""Embedding tables on parameter servers, beside data parallel with whole tables and with rows, over a link of limited speed.

    lockstep data synthesize criteo --rows 40000 --scale 0.01 --out DIR
    bench/servers_over_link.py --mbit 200 --data DIR --rounds 3 --json servers.json

Two workers in two network namespaces, and for `servers` a server beside each. Each round trains the same steps in all
three ways, in turn; ratios are medians of each round's ratio. All must give the same params_sha256. Needs root, `ip`,
`tc`, and the release build. Further KEY=VALUE arguments replace keys of the configuration.
"""
import argparse
import json
import statistics
import tempfile
from pathlib import Path

from auto_over_link import TwoHosts
from step_times import median_step_seconds

WAYS = {
    "dense": ["parallel.mode=data_parallel", "parallel.sparse_gradients=dense"],
    "rows": ["parallel.mode=data_parallel", "parallel.sparse_gradients=rows"],
    "servers": ["parallel.mode=parameter_server", "cluster.server_num=2"],
}


def train(hosts, args, way, folder, port):
    out = folder / way
    hosts.together([args.build / "lockstep", "train", "--config", args.config, *WAYS[way], f"data.root={args.data}",
                    f"system.work_dir={out}", f"train.steps={args.steps}", f"data.global_batch_size={2 * args.batch}", "data.ids=hash",
                    f"data.rows={args.rows}", f"model.rows={args.rows}", f"model.dim={args.dim}", "optimizer.groups=[]",
                    "optimizer.name=lazy_adagrad", "optimizer.lr=0.01", "train.eval_every=0", "checkpoint.every_epochs=0",
                    "checkpoint.export_weights=false", "data.eval_share=0", "callbacks.metrics_every=1", *args.overrides],
                   port, ranks=4 if way == "servers" else 2, backend="auto")
    return (median_step_seconds(out, 2 * args.batch, args.warmup),
            json.loads((out / "result.json").read_text())["params_sha256"])


def measure(args):
    rounds = []
    with TwoHosts(args.mbit) as hosts, tempfile.TemporaryDirectory() as folder:
        for number in range(args.rounds):
            seconds, hashes = {}, {}
            for index, way in enumerate(WAYS):
                seconds[way], hashes[way] = train(hosts, args, way, Path(folder) / str(number), 29700 + 3 * number + index)
            if len(set(hashes.values())) != 1:
                raise RuntimeError(f"the parameters differ: {hashes}")
            rounds.append(seconds)
            print(", ".join(f"{way} {time * 1e3:.0f} ms" for way, time in seconds.items()), flush=True)
    ratio = {way: statistics.median(each[way] / each["servers"] for each in rounds) for way in ("dense", "rows")}
    return {"mbit": args.mbit, "rounds": rounds, "over_servers": ratio}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--build", type=Path, default=Path("build/release"))
    parser.add_argument("--config", default="configs/recsys/wide_and_deep_criteo.yaml")
    parser.add_argument("--data", required=True)
    parser.add_argument("--mbit", type=int, default=200, help="speed of the link; 0: as fast as it can")
    parser.add_argument("--batch", type=int, default=1024, help="samples of each worker")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    args.build, args.data = args.build.resolve(), str(Path(args.data).resolve())
    result = measure(args)
    print("median step over that with servers: " + ", ".join(f"{way} {value:.2f}" for way, value in result["over_servers"].items()))
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
