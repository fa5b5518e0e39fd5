#!/usr/bin/env python3
"""all_reduce of float32 over shared memory against Gloo (through torch.distributed) and Open MPI's MPI_Allreduce.

    bench/vs_all_reduce.py --world 2 --sizes 1K,64K,256K,16M,100M --json all_reduce.json

Each round runs all four in turn: Lockstep in memory that it allocated (as gradient buckets are), Lockstep in ordinary
memory, Gloo, MPI. Times are medians of the rounds; ratios are medians of each round's ratio (peer's time / ours). Needs the release
build, mpirun and a Python with torch (Debian: python3-torch).
"""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size_of(text):
    return int(text[:-1]) * UNITS[text[-1]] if text[-1] in UNITS else int(text)


def checked(command, **options):
    result = subprocess.run(command, capture_output=True, text=True, timeout=1200, **options)
    if result.returncode:
        raise RuntimeError(f"{command} failed:\n{result.stdout}{result.stderr}")
    return result.stdout


def lines_of(text):
    return {row["bytes"]: row["us"] for row in map(json.loads, text.splitlines())}


def run_lockstep(args, memory):
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        checked([args.build / "lockstep", "bench", "all_reduce", "--backend", "shm", "--world", str(args.world), "--rounds",
                 "1", "--memory", memory, "--sizes", ",".join(map(str, args.sizes)), "--json", file.name])
        rows = json.load(open(file.name))
    if not all(row["correct"] for row in rows):
        raise RuntimeError("wrong values")
    return {row["bytes"]: row["us"] for row in rows}


def run_mpi(args):
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return lines_of(checked(["mpirun", *root, "--oversubscribe", "-n", str(args.world),
                             args.build / "bench" / "mpi_all_reduce", *map(str, args.sizes)]))


def run_gloo(args):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ranks = []
    for rank in range(args.world):
        env = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(args.world), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                   OMP_NUM_THREADS="1")
        ranks.append(subprocess.Popen([args.python, HERE / "gloo_all_reduce.py", *map(str, args.sizes)], env=env,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    try:
        outputs = [process.communicate(timeout=1200) for process in ranks]
    finally:
        for process in ranks:
            if process.poll() is None:
                process.kill()
    if any(process.returncode for process in ranks):
        raise RuntimeError("Gloo failed:\n" + "\n".join(err for _, err in outputs))
    return lines_of(outputs[0][0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", type=int, default=2)
    parser.add_argument("--sizes", default="1K,4K,16K,64K,256K,1M,4M,16M,64M,100M")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--build", type=Path, default=HERE.parent / "build" / "release")
    parser.add_argument("--python", default="/usr/bin/python3", help="an interpreter that has torch")
    parser.add_argument("--json", type=Path, help="write the results here")
    args = parser.parse_args()
    args.sizes = [size_of(text) for text in args.sizes.split(",")]

    runs = {"allocated": lambda: run_lockstep(args, "allocated"), "ordinary": lambda: run_lockstep(args, "ordinary"),
            "gloo": lambda: run_gloo(args), "mpi": lambda: run_mpi(args)}
    rounds = [{who: run() for who, run in runs.items()} for _ in range(args.rounds)]

    results = []
    print(f"{'bytes':>11}  {'allocated':>11} {'ordinary':>11} {'gloo':>11} {'mpi':>11} us   gloo/alloc  mpi/alloc  "
          "best/ordinary")
    for size in args.sizes:
        us = {who: statistics.median(times[who][size] for times in rounds) for who in runs}
        row = {
            "bytes": size, "world": args.world, "rounds": args.rounds, "us": us,
            "gloo_over_allocated": statistics.median(t["gloo"][size] / t["allocated"][size] for t in rounds),
            "mpi_over_allocated": statistics.median(t["mpi"][size] / t["allocated"][size] for t in rounds),
            "best_over_ordinary": statistics.median(
                min(t["gloo"][size], t["mpi"][size]) / t["ordinary"][size] for t in rounds),
        }
        results.append(row)
        print(f"{size:>11}  {us['allocated']:>11.2f} {us['ordinary']:>11.2f} {us['gloo']:>11.2f} {us['mpi']:>11.2f}      "
              f"{row['gloo_over_allocated']:>9.1f} {row['mpi_over_allocated']:>10.2f} {row['best_over_ordinary']:>14.2f}")
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
