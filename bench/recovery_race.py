#!/usr/bin/env python3
"""The same training with the same losses of ranks, in four ways to recover: what a loss costs in time and in steps.

    bench/recovery_race.py --python PYTHON --torchft FOLDER --csv bench/results/recovery_race.csv

    replacement  lockstep run --max-restarts N: a new process takes the place of the lost one, the others have the state in memory
    restart      lockstep run --max-restarts N --on-loss restart: all ranks begin again from the newest checkpoint
    torchrun     torchrun --max-restarts N, DistributedDataParallel over gloo, checkpoints of torch.distributed.checkpoint
    torchft      torchft over gloo: the others go on without the lost rank, and a new process joins them

A small GPT, one thread for each rank, all ranks on this machine. Each way trains once undisturbed and once with losses: when
the job has completed a certain step, a certain rank gets SIGKILL. --seed decides which, the same for all ways. torchft has no
launcher, so this script starts its lost ranks again, at once.

PYTHON has PyTorch 2.11. For torchft (0.2.0), without another PyTorch:

    PYTHON -m pip install --target FOLDER --no-deps torchft==0.2.0
    PYTHON -m pip install --target FOLDER opentelemetry-exporter-otlp-proto-http

A way that cannot run is left out, with the reason. The CSV has a row for each way; the losses are beside it, in NAME_losses.csv.
"""
import argparse
import csv
import os
import random
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from recovery_ways import WAYS, why_not


def text_in(folder):
    """A file with 400,000 letters and blanks, always the same."""
    numbers = random.Random(1)
    words = ["".join(numbers.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(numbers.randint(2, 9))) for _ in range(500)]
    file = folder / "text.txt"
    file.write_text(" ".join(numbers.choice(words) for _ in range(80000))[:400000])
    return file


@dataclass
class Loss:
    rank: int
    step: int  # completed steps of the job, after which this rank is killed
    killed_s: float = 0
    resumed_s: float = 0  # end of the longest time without a completed step that follows
    regained_s: float = 0  # the first new step is complete
    repeated: int = 0  # completed steps that were made again


def losses_of(args):
    """One in each of as many equal parts of the run, without its first and last twentieth, and not close to each other."""
    numbers = random.Random(args.seed)
    part = 0.9 * args.steps / max(args.losses, 1)
    return [Loss(numbers.randrange(args.ranks), int(0.05 * args.steps + part * (i + 0.1 + 0.8 * numbers.random()))) for i in range(args.losses)]


class GrowingFile:
    """Lines of a file that grows, and may be replaced by one that begins with the same lines, and has fewer."""

    def __init__(self, path):
        self.path, self.inode, self.size, self.lines, self.rest = path, 0, 0, [], b""

    def new_lines(self):
        try:
            now = self.path.stat()
            if (now.st_ino, now.st_size) == (self.inode, self.size):
                return []
            with open(self.path, "rb") as file:
                inode = os.fstat(file.fileno()).st_ino
                file.seek(self.size if inode == self.inode else 0)
                data = file.read()
        except FileNotFoundError:
            return []
        kept = self.lines
        if inode != self.inode:
            whole = data[:data.rfind(b"\n") + 1].splitlines()
            same = next((i for i, (old, new) in enumerate(zip(self.lines, whole)) if old != new), min(len(self.lines), len(whole)))
            kept, new, self.rest, self.size = whole[:same], whole[same:], data[data.rfind(b"\n") + 1:], 0
        else:
            *new, self.rest = (self.rest + data).split(b"\n")
        self.inode, self.size, self.lines = inode, self.size + len(data), kept + new
        return new


class Steps:
    """(seconds, step) of each completed step of a job, once for all ranks that note it, and again where it was repeated."""

    def __init__(self, job):
        self.job, self.seen, self.newest = job, [], 0
        self.files = [GrowingFile(path) for path in job.progress()]
        self.last = [0] * len(self.files)

    def read(self, seconds):
        for i, file in enumerate(self.files):
            for line in file.new_lines():
                step = self.job.step_of(line)
                if step > self.newest or step <= self.last[i]:
                    self.seen.append((seconds, step))
                    self.newest = step
                self.last[i] = step


def run(job, losses, limit):
    """Seconds until the job has ended, and its steps. Fills in the times of the losses."""
    pending, begin = list(losses), time.monotonic()
    job.start()
    steps = Steps(job)
    try:
        while not job.ended():
            now = time.monotonic() - begin
            if now > limit:
                raise job.processes.failure(f"none after {limit} s and {steps.newest} steps")
            steps.read(now)
            if pending and steps.newest >= pending[0].step:
                process = job.process_of(pending[0].rank)
                if process is not None:
                    os.kill(process, signal.SIGKILL)
                    pending.pop(0).killed_s = time.monotonic() - begin
            time.sleep(0.005)
        seconds = time.monotonic() - begin
        steps.read(seconds)
    finally:
        job.end()
    if pending:
        raise RuntimeError(f"the job ended before {len(pending)} of the losses")
    for loss, following in zip(losses, [*losses[1:], None]):
        describe(loss, steps.seen, following.killed_s if following else seconds)
    return seconds


def describe(loss, seen, until):
    """What the steps say of a loss whose consequences last until the next one."""
    before = [(when, step) for when, step in seen if when <= loss.killed_s]
    after = [(when, step) for when, step in seen if loss.killed_s < when <= until]
    pauses = [(late[0] - early[0], late[0]) for early, late in zip([before[-1], *after], after)]
    loss.resumed_s = max(pauses)[1]
    newest = max(step for _, step in before)
    for when, step in after:
        if step <= newest:
            loss.repeated += 1
        newest = max(newest, step)
    newest = max(step for when, step in before + after if when < loss.resumed_s)
    loss.regained_s = next((when for when, step in after if when >= loss.resumed_s and step > newest), until)


def race(args, keep):
    """A row for each way, and the losses of each; `keep` gets them after each way, as the whole takes half an hour."""
    rows, all_losses = [], []
    for way in args.ways:
        reason = why_not(args, way)
        if reason:
            print(f"{way}: left out: {reason}", flush=True)
            continue
        times, results, losses = {}, {}, losses_of(args)
        for disturbed in (False, True):
            with tempfile.TemporaryDirectory(prefix="recovery-race-", dir=args.folder) as folder:
                job = WAYS[way](args, Path(folder))
                times[disturbed] = run(job, losses if disturbed else [], args.limit)
                results[disturbed] = job.result()
            print(f"{way}: {'with losses' if disturbed else 'undisturbed'} {times[disturbed]:.1f} s", flush=True)
        rows.append({"way": way, "undisturbed s": f"{times[False]:.1f}", "with losses s": f"{times[True]:.1f}",
                     "goodput": f"{times[False] / times[True]:.3f}", "repeated steps": sum(loss.repeated for loss in losses),
                     "share of the samples": f"{results[True]['shares'] / (args.steps * args.ranks):.4f}",
                     "weights of the undisturbed run": "yes" if results[True]["params_sha256"] == results[False]["params_sha256"] else "no"})
        all_losses += [{"way": way, "rank": loss.rank, "step": loss.step, "killed s": f"{loss.killed_s:.2f}", "resumed s": f"{loss.resumed_s:.2f}",
                        "regained s": f"{loss.regained_s:.2f}", "repeated steps": loss.repeated} for loss in losses]
        keep(rows, all_losses)
    return rows, all_losses


def write_csv(file, args, what, rows):
    with open(file, "w", encoding="utf-8", newline="") as out:
        out.write(f"# {what}, {args.steps:,} steps of a small GPT on {args.ranks} ranks, {args.losses} times a rank gets SIGKILL, machine {args.machine}\n")
        out.write(f"# bench/recovery_race.py --ranks {args.ranks} --steps {args.steps} --losses {args.losses} --seed {args.seed} --batch {args.batch} "
                  f"--checkpoint-every {args.checkpoint_every}\n")
        writer = csv.DictWriter(out, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_files(args, rows, losses):
    if not args.csv:
        return
    write_csv(args.csv, args, "four ways to recover", rows)
    if losses:
        write_csv(args.csv.with_stem(args.csv.stem + "_losses"), args, "each loss in four ways to recover", losses)


def print_table(rows):
    widths = [max(len(name), *(len(str(row[name])) for row in rows)) for name in rows[0]]
    for cells in [list(rows[0]), *([str(row[name]) for name in row] for row in rows)]:
        print("  ".join(cell.ljust(width) for cell, width in zip(cells, widths)).rstrip())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--build", type=Path, default=Path("build/torch2"))
    parser.add_argument("--python", type=Path, default=Path("build/torch2-python/bin/python"))
    parser.add_argument("--torchft", type=Path, default=Path("build/torchft"), help="folder with torchft and what it needs")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--losses", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checkpoint-every", type=int, default=100, help="steps")
    parser.add_argument("--batch", type=int, default=8, help="samples of a step, of all ranks together")
    parser.add_argument("--context", type=int, default=64, help="tokens of a sample")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--limit", type=float, default=3600, help="seconds after which a run has failed")
    parser.add_argument("--folder", type=Path, help="where the jobs have their files (default: that of temporary files)")
    parser.add_argument("--machine", default="unknown", help="its name in the CSV")
    parser.add_argument("--csv", type=Path)
    args = parser.parse_args()
    if args.batch % args.ranks:
        parser.error("--batch must be a multiple of --ranks")
    # Not resolve(): the Python of a virtual environment is a link, and is that of the environment only by this name.
    args.build, args.python, args.torchft = args.build.resolve(), Path(os.path.abspath(args.python)), args.torchft.resolve()
    with tempfile.TemporaryDirectory(prefix="recovery-race-") as folder:
        args.text = text_in(Path(folder))
        rows, losses = race(args, lambda *seen: write_files(args, *seen))
    if not rows:
        sys.exit("no way can run here")
    print_table(rows)
    if losses:
        print_table(losses)


if __name__ == "__main__":
    main()
