#!/usr/bin/env python3
"""What recovery costs a job to which nothing happens: the same steps with it and without it, in turn.

    bench/recovery_cost.py --config configs/resnet20_cifar10.yaml --data DIR --rounds 5 --json cost.json

Each run is a scheduler and its workers (one thread each) on this machine, with MS_ENABLE_RECOVERY=1 or 0. A run's step time
is the median of its steps after the first ones; a round's ratio is that with recovery over that without. Further KEY=VALUE
arguments replace keys of the configuration.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

from step_times import median_step_seconds


def start(command, environment, log):
    return subprocess.Popen([*map(str, command)], env=environment, stdout=subprocess.DEVNULL, stderr=open(log, "w"))


def step_seconds(args, folder, recovers, port):
    folder.mkdir(parents=True)
    job = {name: value for name, value in os.environ.items() if not name.startswith(("MS_", "LOCKSTEP_"))}
    job.update(OMP_NUM_THREADS="1", MS_WORKER_NUM=str(args.workers), MS_SCHED_HOST="127.0.0.1", MS_SCHED_PORT=str(port),
               MS_ENABLE_RECOVERY=str(int(recovers)))
    if recovers:
        job["MS_RECOVERY_PATH"] = str(folder / "state")
    command = [args.build / "lockstep", "train", "--config", args.config, f"data.root={args.data}",
               f"system.work_dir={folder / 'out'}", f"train.steps={args.steps}", f"data.batch_size={args.batch}",
               "train.eval_every=0", "checkpoint.every_epochs=0", "callbacks.metrics_every=1", *args.overrides]
    processes = [start(command, dict(job, MS_ROLE="MS_SCHED"), folder / "scheduler.log")]
    processes += [start(command, dict(job, MS_ROLE="MS_WORKER", MS_NODE_ID=f"w{number}"), folder / f"w{number}.log")
                  for number in range(args.workers)]
    if any([process.wait(timeout=1800) for process in processes]):
        raise RuntimeError("\n".join(log.read_text() for log in folder.glob("*.log")))
    return median_step_seconds(folder / "out", args.workers * args.batch, args.warmup)


def measure(args):
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(args.rounds):
            times = {}
            # Who begins changes from round to round: machines warm up and slow down.
            for recovers in ((False, True) if number % 2 == 0 else (True, False)):
                here = Path(folder) / f"{number}-{'with' if recovers else 'without'}"
                times[recovers] = step_seconds(args, here, recovers, args.port + 2 * number + recovers)
            rounds.append({"without_s": times[False], "with_s": times[True], "ratio": times[True] / times[False]})
    return rounds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--build", type=Path, default=Path("build/release"))
    parser.add_argument("--config", default="configs/resnet20_cifar10.yaml")
    parser.add_argument("--data", required=True)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64, help="samples of each worker")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--port", type=int, default=29700)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    args.build, args.data = args.build.resolve(), str(Path(args.data).resolve())
    rounds = measure(args)
    for row in rounds:
        print(f"without {row['without_s'] * 1e3:.2f} ms, with {row['with_s'] * 1e3:.2f} ms: {row['ratio']:.3f}")
    ratios = [row["ratio"] for row in rounds]
    print(f"median ratio {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")
    if args.json:
        args.json.write_text(json.dumps(rounds, indent=1) + "\n")


if __name__ == "__main__":
    main()
