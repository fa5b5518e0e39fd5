#!/usr/bin/env python3
"""Training steps a second: Lockstep against PyTorch DDP, in turn on this machine.

    bench/vs_pytorch_ddp.py --cases resnet50_32,resnet18_32,mlp,toy --json ratios.json
    bench/vs_pytorch_ddp.py --cases resnet50_224 --bfloat16
    bench/vs_pytorch_ddp.py --cases resnet50_32 --efficiency        (weak scaling, against Lockstep on 1 rank)
    bench/vs_pytorch_ddp.py --build build/torch2 --compile          (today's PyTorch on both sides; scripts/install_torch.sh)

Lockstep's ResNets call to_channels_last(), one line of the program (docs/channels_last.md); --contiguous leaves it out, and
--peer-channels-last gives PyTorch the same memory format.

Each round runs Lockstep, then the other, and takes the ratio of that pair, so that a machine whose speed drifts does not
favour either. Ranks have one thread each. Needs a build with benchmarks, and a Python with torch and torchvision: the one
whose libtorch that build has, else Debian's (python3-torch, python3-torchvision).
"""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# case: (warm-up steps, timed steps)
STEPS = {"resnet50_32": (3, 15), "resnet18_32": (3, 15), "resnet20_32": (3, 15), "mlp": (10, 200), "toy": (200, 4000),
         "resnet50_224": (1, 3), "gpt2_124m": (1, 2)}
ON_CUDA = {"resnet50_32": (10, 100), "resnet18_32": (10, 200), "resnet20_32": (10, 200), "mlp": (50, 1000),
           "toy": (200, 4000), "resnet50_224": (5, 30), "gpt2_124m": (5, 30)}


def parse_result(output, who):
    for line in reversed(output.splitlines()):
        start = line.find("{")
        if start >= 0:
            return json.loads(line[start:])
    raise RuntimeError(f"{who} printed no result:\n{output}")


def step_arguments(args, case):
    warmup, steps = (ON_CUDA if args.device == "cuda" else STEPS)[case]
    return ["--case", case, "--warmup", str(warmup), "--steps", str(steps), "--batch", str(args.batch)]


def lockstep_command(args, case, world):
    # The toy's parameters fit in two cache lines: there is nothing to divide.
    extra = [] if case == "toy" or args.graph else ["--sharded-optimizer"]
    extra += ["--graph"] if args.graph else []
    extra += ["--channels-last"] if case.startswith("resnet") and not args.contiguous else []
    extra += ["--bfloat16"] if args.bfloat16 else []
    extra += ["--device", "cuda"] if args.device == "cuda" else []
    return [args.build / "lockstep", "run", "--nproc-per-node", str(world), args.build / "bench" / "train_step",
            *step_arguments(args, case), *extra]


def run_lockstep(args, case, world, copies=1):
    """With several copies, that many jobs which know nothing of each other run at once; returns the first's result with
    the sum of their samples a second."""
    env = {"OMP_NUM_THREADS": "1", **os.environ}
    jobs = [subprocess.Popen(lockstep_command(args, case, world), env=env, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True) for _ in range(copies)]
    outputs = [job.communicate(timeout=1800)[0] for job in jobs]
    if any(job.returncode for job in jobs):
        raise RuntimeError(f"Lockstep failed on {case}:\n" + "\n".join(outputs))
    results = [parse_result(output, "Lockstep") for output in outputs]
    return {**results[0], "samples_per_s": sum(result["samples_per_s"] for result in results)}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def rank_environments(world, port):
    """As torchrun gives them, with one thread a rank."""
    return [dict(os.environ, RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1",
                 MASTER_PORT=str(port), OMP_NUM_THREADS="1") for rank in range(world)]


def run_pytorch_ranks(command, world, case):
    """What rank 0 of these processes measures; they are ended whatever happens."""
    ranks = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
             for env in rank_environments(world, free_port())]
    try:
        outputs = [process.communicate(timeout=1800)[0] for process in ranks]
    finally:
        for process in ranks:
            if process.poll() is None:
                process.kill()
    if any(process.returncode for process in ranks):
        raise RuntimeError(f"PyTorch failed on {case}:\n" + "\n".join(outputs))
    return parse_result(outputs[0], "PyTorch")


def run_pytorch(args, case, world):
    extra = ["--set-to-none"] if args.peer_set_to_none else []
    extra += ["--channels-last"] if args.peer_channels_last else []
    extra += ["--bfloat16"] if args.peer_bfloat16 else []
    extra += ["--compile", "--compile-mode", args.compile_mode] if args.compile else []
    extra += ["--fused"] if args.peer_fused else []
    extra += ["--device", args.device]
    command = [args.python, HERE / "pytorch_ddp_step.py", *step_arguments(args, case), *extra]
    return run_pytorch_ranks(command, world, case)


def python_of(build):
    """The Python whose libtorch the build has, else the system's."""
    for line in (build / "CMakeCache.txt").read_text().splitlines():
        name, _, value = line.partition("=")
        if name.startswith("LOCKSTEP_TORCH_PYTHON:") and value:
            return value
    return "/usr/bin/python3"


def spread(ratios):
    return {"ratio_median": statistics.median(ratios), "ratio_min": min(ratios), "ratio_max": max(ratios)}


def compare(args, case):
    ours, theirs = [], []
    for _ in range(args.rounds):
        ours.append(run_lockstep(args, case, args.world))
        theirs.append(run_pytorch(args, case, args.world))
    result = {
        "case": case,
        **spread([a["samples_per_s"] / b["samples_per_s"] for a, b in zip(ours, theirs)]),
        "lockstep_samples_per_s": statistics.median(r["samples_per_s"] for r in ours),
        "pytorch_samples_per_s": statistics.median(r["samples_per_s"] for r in theirs),
        "lockstep_peak_memory_mb": statistics.median(r["peak_memory_mb"] for r in ours),
        "pytorch_peak_memory_mb": statistics.median(r["peak_memory_mb"] for r in theirs),
        "lockstep_backend": ours[0]["backend"],
        "pytorch": theirs[0]["pytorch"],
        "world": args.world,
        "rounds": args.rounds,
    }
    print(f"{case:13} ratio {result['ratio_median']:6.2f} ({result['ratio_min']:.2f}..{result['ratio_max']:.2f})   "
          f"Lockstep {result['lockstep_samples_per_s']:10.1f}  PyTorch {result['pytorch']} "
          f"{result['pytorch_samples_per_s']:10.1f} samples/s   "
          f"peak {result['lockstep_peak_memory_mb']:.0f} / {result['pytorch_peak_memory_mb']:.0f} MB a rank", flush=True)
    return result


def weak_scaling(args, case):
    """Against 1 rank alone, and against as many jobs of 1 rank at once, which is what the machine's memory and clock
    leave when nobody communicates."""
    rounds = [(run_lockstep(args, case, args.world), run_lockstep(args, case, 1),
               run_lockstep(args, case, 1, copies=args.world)) for _ in range(args.rounds)]
    of_copies = statistics.median(many["samples_per_s"] / copies["samples_per_s"] for many, _, copies in rounds)
    result = {
        "case": case,
        **spread([many["samples_per_s"] / (args.world * one["samples_per_s"]) for many, one, _ in rounds]),
        "ratio_of_copies_median": of_copies,
        "samples_per_s": statistics.median(many["samples_per_s"] for many, _, _ in rounds),
        "one_rank_samples_per_s": statistics.median(one["samples_per_s"] for _, one, _ in rounds),
        "copies_samples_per_s": statistics.median(copies["samples_per_s"] for _, _, copies in rounds),
        "world": args.world,
        "rounds": args.rounds,
    }
    print(f"{case:13} efficiency {100 * result['ratio_median']:.1f} % ({100 * result['ratio_min']:.1f}.."
          f"{100 * result['ratio_max']:.1f}) of 1 rank alone, {100 * of_copies:.1f} % of {args.world} jobs at once   "
          f"{args.world} ranks {result['samples_per_s']:.1f}  1 rank {result['one_rank_samples_per_s']:.1f}  "
          f"{args.world} jobs {result['copies_samples_per_s']:.1f} samples/s", flush=True)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="resnet50_32,resnet18_32,mlp,toy", help=f"of {', '.join(STEPS)}")
    parser.add_argument("--world", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--build", type=Path, default=HERE.parent / "build" / "release")
    parser.add_argument("--python", help="another Python that has torch and torchvision")
    parser.add_argument("--bfloat16", action="store_true",
                        help="Lockstep with bfloat16 autocast, PyTorch with its float32 default")
    parser.add_argument("--peer-bfloat16", action="store_true", help="PyTorch with bfloat16 autocast, too")
    parser.add_argument("--compile", action="store_true", help="PyTorch with torch.compile (2.0 and newer)")
    parser.add_argument("--compile-mode", default="default", help="the mode of torch.compile, for example reduce-overhead")
    parser.add_argument("--graph", action="store_true", help="Lockstep's step as a CUDA graph")
    parser.add_argument("--batch", type=int, default=0, help="samples of a rank on both sides; 0: the case's own number")
    parser.add_argument("--peer-fused", action="store_true", help="PyTorch with a fused optimizer (2.4 and newer)")
    parser.add_argument("--contiguous", action="store_true", help="Lockstep's ResNets in libtorch's usual memory format")
    parser.add_argument("--peer-channels-last", action="store_true", help="PyTorch's ResNets in channels_last, too")
    parser.add_argument("--peer-set-to-none", action="store_true",
                        help="PyTorch 1.13 with zero_grad(set_to_none=True), the default since 2.0")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="cuda: one device for each rank, on both sides")
    parser.add_argument("--efficiency", action="store_true", help="compare with Lockstep on 1 rank instead")
    parser.add_argument("--json", type=Path, help="write the results here")
    args = parser.parse_args()
    args.python = args.python or python_of(args.build)

    cases = args.cases.split(",")
    for case in cases:
        if case not in STEPS:
            parser.error(f"unknown case {case!r}; there are {', '.join(STEPS)}")
    results = [(weak_scaling if args.efficiency else compare)(args, case) for case in cases]
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
