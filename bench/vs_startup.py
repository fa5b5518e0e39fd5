#!/usr/bin/env python3
"""From the command to the end of the first all_reduce on all local ranks: `lockstep run` against Python processes.

    bench/vs_startup.py --ranks 8,32 --rounds 5 --json startup.json

Python's ranks are started all at once by this script, which is less work than torchrun does. Each round runs both in
turn; ratios are medians of each round's ratio (Python's time / ours). Needs the release build and a Python with torch.
"""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


def seconds_until_last(outputs, start, ranks):
    """Each rank printed when it was done, and the sum of ones."""
    lines = [line.split() for line in "".join(outputs).splitlines()]
    if len(lines) != ranks or any(float(words[1]) != ranks for words in lines):
        raise RuntimeError(f"expected {ranks} lines that end in {ranks}, got {lines}")
    return max(float(words[0]) for words in lines) - start


def run_lockstep(args, ranks):
    start = time.time()
    result = subprocess.run(
        [args.build / "lockstep", "run", "--no-prefix", "--nproc-per-node", str(ranks), args.build / "bench" / "first_all_reduce"],
        capture_output=True, text=True, timeout=600, check=True)
    return seconds_until_last([result.stdout], start, ranks)


def run_python(args, ranks):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    start = time.time()
    jobs = []
    for rank in range(ranks):
        environment = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks),
                           MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), OMP_NUM_THREADS="1")
        jobs.append(subprocess.Popen([args.python, HERE / "pytorch_first_all_reduce.py"], env=environment,
                                     stdout=subprocess.PIPE, text=True))
    outputs = [job.communicate(timeout=1200)[0] for job in jobs]
    if any(job.returncode for job in jobs):
        raise RuntimeError(f"Python's ranks ended with {[job.returncode for job in jobs]}")
    return seconds_until_last(outputs, start, ranks)


def measure(args, ranks):
    ours, theirs = [], []
    for _ in range(args.rounds):
        ours.append(run_lockstep(args, ranks))
        theirs.append(run_python(args, ranks))
    ratios = [b / a for a, b in zip(ours, theirs)]
    return {"ranks": ranks, "lockstep_s": statistics.median(ours), "python_s": statistics.median(theirs),
            "ratio_median": statistics.median(ratios), "ratio_min": min(ratios), "ratio_max": max(ratios)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="8,32", help="numbers of ranks, separated by commas")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--build", type=Path, default=HERE.parent / "build" / "release")
    parser.add_argument("--python", default="/usr/bin/python3", help="a Python with torch")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = [measure(args, int(ranks)) for ranks in args.ranks.split(",")]
    for row in rows:
        print("{ranks:>4} ranks: lockstep {lockstep_s:.2f} s, Python {python_s:.2f} s, ratio {ratio_median:.1f} "
              "({ratio_min:.1f} to {ratio_max:.1f})".format(**row))
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    sys.exit(main())
