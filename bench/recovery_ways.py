"""The jobs of recovery_race.py: one small GPT, four ways to recover from the loss of a rank.

Each job has start(); ended(), which starts again what the way leaves to others and raises if the job failed; progress(), the
files in which it notes completed steps, and step_of(line); process_of(rank); result(); and end(), after which no process runs.
"""
import json
import os
import subprocess
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


class Processes:
    """What a job has started. The output of all goes to one file."""

    def __init__(self, folder):
        self.log = folder / "console.log"
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(("MS_", "LOCKSTEP_", "TORCHFT_"))}
        self.environment["OMP_NUM_THREADS"] = "1"
        self.all = []

    def start(self, command, stdin=subprocess.DEVNULL):
        with open(self.log, "ab") as log:
            process = subprocess.Popen([*map(str, command)], env=self.environment, stdin=stdin, stdout=log, stderr=log)
        self.all.append(process)
        return process

    def failure(self, code):
        return RuntimeError(f"exit code {code}\n{self.log.read_text(errors='replace')[-6000:]}")

    def end(self):
        running = [process for process in self.all if process.poll() is None]
        for process in running:
            process.terminate()
        for process in running:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def running_processes():
    return [entry for entry in Path("/proc").iterdir() if entry.name.isdigit()]


class Lockstep:
    """`lockstep run` with `lockstep train`. metrics.jsonl is cut back when a run continues from an earlier step."""

    def __init__(self, args, folder, flags):
        self.args, self.folder, self.flags, self.processes = args, folder, flags, Processes(folder)

    def start(self):
        args, program = self.args, self.args.build / "lockstep"
        (self.folder / "run.yaml").write_text(f"""system: {{seed: 1, work_dir: {self.folder}/out}}
model: {{name: gpt, vocabulary: 256, context: {args.context}, layers: {args.layers}, heads: {args.heads}, width: {args.width}}}
task: {{name: language_modelling, sample_bytes: 0}}
data: {{name: text, file: {args.text}, length: {args.context}, eval_share: 0, global_batch_size: {args.batch}}}
optimizer: {{name: adamw, lr: 0.001, weight_decay: 0.01}}
train: {{steps: {args.steps}, eval_every: 0}}
callbacks: {{loss_every: 0, metrics_every: 1}}
checkpoint: {{every_epochs: 0, every_steps: {args.checkpoint_every}, keep: 3}}
""")
        self.job = self.processes.start([program, "run", "--nproc-per-node", args.ranks, "--max-restarts", args.losses + 1, *self.flags,
                                         program, "train", "--config", self.folder / "run.yaml"])

    def ended(self):
        if self.job.poll():
            raise self.processes.failure(self.job.returncode)
        return self.job.returncode == 0

    def progress(self):
        return [self.folder / "out" / "metrics.jsonl"]

    def step_of(self, line):
        return json.loads(line)["step"]

    def process_of(self, rank):
        """The process that has this rank's log open: ranks are forks, whose environments do not have their numbers."""
        log = str(self.folder / "out" / "log" / f"rank.{rank}")
        for entry in running_processes():
            try:
                if any(os.readlink(file) == log for file in (entry / "fd").iterdir()):
                    return int(entry.name)
            except OSError:
                pass  # it has ended, or is another user's
        return None

    def result(self):
        result = json.loads((self.folder / "out" / "result.json").read_text())
        return {"params_sha256": result["params_sha256"], "shares": self.args.steps * self.args.ranks}

    def end(self):
        self.processes.end()


def training(args, folder, way):
    sizes = [word for name in ("steps", "batch", "context", "layers", "heads", "width", "checkpoint_every", "ranks")
             for word in (f"--{name.replace('_', '-')}", getattr(args, name))]
    return [HERE / "pytorch_recovery.py", "--way", way, "--text", args.text, "--work-dir", folder, "--keep", 3, *sizes]


class Torchrun:
    """torchrun with a training under DistributedDataParallel."""

    def __init__(self, args, folder):
        self.args, self.folder, self.processes = args, folder, Processes(folder)
        # Else restarted ranks find the addresses of the former ones in torchrun's store: gloo cannot connect (PyTorch 2.11).
        self.processes.environment["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"

    def start(self):
        self.job = self.processes.start([self.args.python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", self.args.ranks,
                                         "--max-restarts", self.args.losses + 1, *training(self.args, self.folder, "torchrun")])

    def ended(self):
        if self.job.poll():
            raise self.processes.failure(self.job.returncode)
        return self.job.returncode == 0

    def progress(self):
        return [self.folder / "progress.0"]

    def step_of(self, line):
        return int(line)

    def process_of(self, rank):
        """The child of torchrun whose environment has this rank."""
        for entry in running_processes():
            try:
                parent = int((entry / "stat").read_text().rpartition(") ")[2].split()[1])
                if parent == self.job.pid and f"RANK={rank}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    return int(entry.name)
            except OSError:
                pass
        return None

    def result(self):
        result = json.loads((self.folder / "result.json").read_text())
        return {"params_sha256": result["params_sha256"], "shares": self.args.steps * self.args.ranks}

    def end(self):
        self.processes.end()


class Torchft:
    """A lighthouse, and a process for each rank that is one replica. This class starts a lost one again."""

    def __init__(self, args, folder):
        self.args, self.folder, self.processes, self.restarts = args, folder, Processes(folder), 0
        self.processes.environment["PYTHONPATH"] = os.pathsep.join([str(args.torchft), os.environ.get("PYTHONPATH", "")])

    def start(self):
        address = self.folder / "lighthouse"
        self.lighthouse = self.processes.start([self.args.python, HERE / "pytorch_recovery.py", "--way", "lighthouse", "--address-file", address],
                                               stdin=subprocess.PIPE)
        while not address.exists():
            if self.lighthouse.poll() is not None:
                raise self.processes.failure(self.lighthouse.returncode)
            time.sleep(0.01)
        self.address = address.read_text()
        self.ranks = [self.start_rank(rank) for rank in range(self.args.ranks)]

    def start_rank(self, rank):
        return self.processes.start([self.args.python, *training(self.args, self.folder, "torchft"), "--rank", rank, "--lighthouse-at", self.address])

    def ended(self):
        """When the first replica has all steps: one that was started again late would train alone."""
        for rank, process in enumerate(self.ranks):
            code = process.poll()
            if code == 0:
                return True
            if code is not None:
                self.restarts += 1
                if self.restarts > 2 * self.args.losses:  # a survivor may fail with the lost one
                    raise self.processes.failure(code)
                self.ranks[rank] = self.start_rank(rank)
        return False

    def progress(self):
        return [self.folder / f"progress.{rank}" for rank in range(self.args.ranks)]

    def step_of(self, line):
        return int(line)

    def process_of(self, rank):
        return self.ranks[rank].pid

    def result(self):
        files = sorted(self.folder.glob("result.*.json"))
        return json.loads(files[0].read_text())

    def end(self):
        self.processes.end()


WAYS = {"replacement": lambda args, folder: Lockstep(args, folder, []),
        "restart": lambda args, folder: Lockstep(args, folder, ["--on-loss", "restart"]),
        "torchrun": Torchrun, "torchft": Torchft}


def why_not(args, way):
    """Why a way cannot run here; empty: it can."""
    if way in ("replacement", "restart"):
        program = args.build / "lockstep"
        return "" if program.exists() else f"there is no {program}"
    modules = "torch, torchft, torchft.coordination" if way == "torchft" else "torch"
    paths = os.pathsep.join([str(args.torchft), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run([args.python, "-c", f"import {modules}"], env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True)
    return "" if done.returncode == 0 else f"{args.python} cannot import {modules}: {done.stderr.strip().splitlines()[-1]}"
