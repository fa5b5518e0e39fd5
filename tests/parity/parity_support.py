"""What the parity tests share: job files, processes with a deadline, and comparisons."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

# Thread pools take their size when torch is loaded; equal sizes on both sides make equal orders of summation.
os.environ["OMP_NUM_THREADS"] = "1"

import torch  # noqa: E402

import safetensors_io  # noqa: E402

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "support"))

from free_port import free_port  # noqa: E402

PROGRAMS = Path(os.environ.get("LOCKSTEP_PARITY_PROGRAMS", HERE.parents[1] / "build" / "release" / "tests"))
DEADLINE_S = 300  # generous: a loaded machine is slow, not wrong

torch.set_num_threads(1)

MODEL_DEFAULTS = {"num_classes": 10, "in_channels": 3, "in_features": 784, "hidden": [1024, 1024]}


def end_with_parent():
    """Run in a child before its program: the kernel kills it when this process goes, however that happens."""
    prctl_set_death_signal = 1
    ctypes.CDLL(None).prctl(prctl_set_death_signal, signal.SIGKILL)


def run_together(commands, folder):
    """Runs (arguments, environment) pairs at the same time; raises with their output unless all of them succeed."""
    logs = [open(Path(folder) / f"process{i}.log", "w+b") for i in range(len(commands))]
    processes = []
    try:
        for (arguments, environment), log in zip(commands, logs):
            processes.append(
                subprocess.Popen(
                    [str(argument) for argument in arguments],
                    env={**os.environ, **environment},
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=end_with_parent,
                )
            )
        wait_for_all(processes)
        if any(process.returncode != 0 for process in processes):
            raise AssertionError(describe(processes, logs))
    finally:
        for process in processes:
            process.kill()
            process.wait()
        for log in logs:
            log.close()


def wait_for_all(processes):
    """Returns when all succeeded, one failed, or the deadline passed."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        codes = [process.poll() for process in processes]
        if all(code == 0 for code in codes) or any(code not in (None, 0) for code in codes):
            time.sleep(0 if all(code is not None for code in codes) else 1)  # let the others say their reason
            return
        time.sleep(0.01)


def describe(processes, logs):
    lines = []
    for i, (process, log) in enumerate(zip(processes, logs)):
        state = f"still running after {DEADLINE_S} s or when another failed"
        if process.poll() is not None:
            state = f"exit code {process.returncode}"
        log.seek(0)
        lines.append(f"process {i}: {state}\n{log.read().decode(errors='replace')}")
    return "\n".join(lines)


def run_program(name, *arguments, folder):
    run_together([([PROGRAMS / name, *arguments], {})], folder)


def run_ranks(world, name, *arguments, folder):
    """Starts a program as `world` ranks in the environment that torchrun gives."""
    shared = {
        "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
        "LOCKSTEP_START_TIMEOUT_S": "60", "LOCKSTEP_TIMEOUT_S": "60",
    }
    commands = [
        ([PROGRAMS / name, *arguments], {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(world)
    ]
    run_together(commands, folder)


def run_ddp_peer(world, job_files, folder):
    run_together([([sys.executable, HERE / "ddp_peer.py", world, *job_files], {})], folder)


def relative_difference(actual, expected, floor=0.0):
    """Largest difference, relative to the largest expected value, or to `floor` if that is larger."""
    if actual.shape != expected.shape:
        raise AssertionError(f"shape {list(actual.shape)} instead of {list(expected.shape)}")
    if expected.numel() == 0:
        return 0.0
    scale = max(expected.abs().max().item(), floor)
    difference = (actual.double() - expected.double()).abs().max().item()
    if difference == 0:
        return 0.0
    return difference / scale if scale > 0 else float("inf")


class ParityTest(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-parity-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write_job(self, name, **job):
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps({**MODEL_DEFAULTS, **job}))
        return path

    def assert_same_tensors(self, actual, expected, tolerance, floor=0.0):
        """Compares two dicts of tensors; returns the largest relative difference of any tensor."""
        self.assertEqual(sorted(actual), sorted(expected))
        worst = 0.0
        for name in expected:
            self.assertEqual(actual[name].dtype, expected[name].dtype, name)
            difference = relative_difference(actual[name], expected[name], floor)
            self.assertLessEqual(difference, tolerance, name)
            worst = max(worst, difference)
        return worst


def save_weights(model, path):
    safetensors_io.write(path, model.state_dict())
