#!/usr/bin/env python3
"""How long 1,000 to 10,000 simulated ranks take to meet through Lockstep's store and through c10d's, and what it costs the store.

    bench/rendezvous_curve.py --build build/torch2 --csv bench/results/rendezvous.csv

Runs bench/rendezvous for each number of ranks, exchange and store, in turns; medians of the rounds. With libtorch 2.4 and newer
c10d's store is the one with libuv. A store is a process of its own; the ranks are threads of one other process, and of those that
get the list of all, one in 100 decodes it, as the others would on cores of their own.
"""
import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path


def measure(args, ranks, exchange, store):
    command = [args.build / "bench" / "rendezvous", "--ranks", ranks, "--store", store, "--exchange", exchange, "--limit", args.limit]
    if exchange == "list":
        command += ["--decode-every", 100]
    # c10d writes a line for each connection whose peer has no name.
    done = subprocess.run([*map(str, command)], env={**os.environ, "TORCH_CPP_LOG_LEVEL": "ERROR"}, capture_output=True, text=True)
    if not done.stdout:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.returncode} {done.stderr[-2000:]}")
    result = json.loads(done.stdout)
    if result["met"] != ranks:
        raise RuntimeError(f"{' '.join(map(str, command))}: only {result['met']} ranks have met: {result['error']}")
    return result


def median(results, name):
    return statistics.median(result[name] for result in results)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build/torch2"))
    parser.add_argument("--ranks", default="1000,2000,5000,10000")
    parser.add_argument("--exchanges", default="number,list")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=int, default=300, help="seconds")
    parser.add_argument("--machine", default="unknown", help="its name in the CSV")
    parser.add_argument("--csv", type=Path)
    args = parser.parse_args()
    rows = []
    for exchange in args.exchanges.split(","):
        for ranks in map(int, args.ranks.split(",")):
            results = {"own": [], "c10d": []}
            for number in range(args.rounds):
                for store in sorted(results, reverse=number % 2 == 0):
                    results[store].append(measure(args, ranks, exchange, store))
            for store, name in (("own", "Lockstep"), ("c10d", "c10d")):
                found = results[store]
                rows.append({"exchange": exchange, "store": name, "ranks": ranks, "seconds": f"{median(found, 'seconds'):.2f}",
                             "lowest": f"{min(result['seconds'] for result in found):.2f}",
                             "highest": f"{max(result['seconds'] for result in found):.2f}",
                             "processor s of the store": f"{median(found, 'service_cpu_s'):.2f}",
                             "MiB of the store": f"{median(found, 'service_grown_mb'):.0f}",
                             "MB to the store": f"{median(found, 'mb_to_service'):.2f}", "MB from it": f"{median(found, 'mb_from_service'):.2f}"})
                print(", ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    if args.csv:
        with open(args.csv, "w", encoding="utf-8", newline="") as out:
            out.write(f"# simulated ranks meet on one machine through Lockstep's store and c10d's, machine {args.machine}, medians of {args.rounds} "
                      f"rounds in turns, libtorch {found[0]['libtorch']}\n")
            out.write(f"# bench/rendezvous_curve.py --ranks {args.ranks} --rounds {args.rounds}\n")
            writer = csv.DictWriter(out, rows[0].keys(), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    sys.exit(main())
