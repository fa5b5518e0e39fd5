#!/usr/bin/env python3
"""test_live_page.py LOCKSTEP: the live pages of real jobs in a real browser: four ranks train, the page shows their loss and the slow
one, its button kills rank 2, and it shows the loss and the return of that rank without a reload. The page of a scheduler shows a
worker that is killed, and the process that takes its place. The files that stay open from disk."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

import browser

sys.path.append(str(Path(__file__).resolve().parent.parent / "support"))

from free_port import free_port  # noqa: E402

LOCKSTEP = sys.argv[1] if len(sys.argv) > 1 else ""
LIMIT = 300  # seconds, against hangs only
SKIPPED = 77
EARLY_END = 75  # of `lockstep train` after SIGTERM
CONFIG = """system:
  work_dir: {folder}/out
model:
  name: mlp
  hidden: [16]
data:
  name: cifar10
  root: {folder}/data
  batch_size: 10
  train_transforms: &transforms
    - rescale: {{scale: 0.00392}}
    - hwc2chw
  eval_transforms: *transforms
optimizer:
  name: momentum
  lr: 0.05
train:
  epochs: 2000
checkpoint:
  every_epochs: 10
callbacks:
  metrics_every: 1
"""
# A cell in the row of a rank.
CELL = "[...document.querySelectorAll('#rows tr')].find((row) => row.querySelector('.c-rank').textContent === arguments[0])?.querySelector('.c-' + arguments[1])"


class Command:
    """A command of lockstep in the background, in this folder or in `there`. Its output goes to files."""

    def __init__(self, folder, name, words, environment, there=None):
        self.err = Path(folder, f"{name}.err")
        with self.err.open("wb") as err, Path(folder, f"{name}.out").open("wb") as out:
            self.process = subprocess.Popen([LOCKSTEP, *words], stdout=out, stderr=err, env={**os.environ, **environment}, cwd=there)

    def said(self, pattern):
        """The first match in stderr, once it is there."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            found = re.search(pattern, self.err.read_text(errors="replace"))
            if found is not None:
                return found
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        found = re.search(pattern, self.err.read_text(errors="replace"))
        if found is None:
            raise AssertionError(f"stderr never had {pattern}:\n{self.err.read_text(errors='replace')}")
        return found

    def stop(self):
        """Asks it to end; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(LIMIT)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(LIMIT)


class LivePage(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-live-page-", ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        subprocess.run([LOCKSTEP, "data", "synthesize", "cifar10", "--out", f"{self.folder}/data", "--train", "200", "--test", "10"],
                       check=True, stdout=subprocess.DEVNULL, timeout=LIMIT)
        self.config = Path(self.folder, "run.yaml")
        self.config.write_text(CONFIG.format(folder=self.folder))
        opened = browser.open_browser()
        self.driver = opened.__enter__()
        self.addCleanup(opened.__exit__, None, None, None)

    def start(self, name, words, environment, there=None):
        command = Command(self.folder, name, words, environment, there)
        self.addCleanup(command.close)
        return command

    def wait(self, script, *arguments):
        try:
            return browser.wait_until(self.driver, script, *arguments, seconds=LIMIT)
        except Exception as error:
            page = self.driver.execute_script("return document.body.innerText;")
            raise AssertionError(f"{error}\nthe page:\n{page}\nstderr:\n{self.job.err.read_text(errors='replace')}") from None

    def wait_for_text(self, element, words):
        return self.wait("document.getElementById(arguments[0]).textContent.includes(arguments[1])", element, words)

    def cell(self, rank, name):
        return self.driver.execute_script(f"return {CELL}.textContent;", str(rank), name)

    def wait_for_cell(self, rank, name, words):
        self.wait(f"{CELL}?.textContent.includes(arguments[2])", str(rank), name, words)

    def check_refusals(self, address):
        port = re.search(r":(\d+)/", address).group(1)
        for path in ("", "?token=", "?token=" + "0" * 32, "v1/view", "v1/status"):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=LIMIT)
            self.assertEqual(refused.exception.code, 403, path)
            self.assertEqual(refused.exception.read(), b"", path)
            refused.exception.close()

    def kill(self, rank):
        """Two presses: the second one confirms."""
        self.driver.execute_script(f"{CELL}.click();", str(rank), "rank")
        self.wait("!document.getElementById('kill-box').hidden && !document.getElementById('kill').disabled")
        self.wait_for_text("details-title", f"Rank {rank}")
        button = self.driver.find_element("id", "kill")
        button.click()
        self.wait_for_text("kill", "Press again")
        time.sleep(0.5)  # sooner, a press does not count: it may be the second one of a double click
        button.click()
        self.wait_for_text("answer", "was sent SIGKILL")

    def check_parts(self):
        """Each moment of the job belongs to one part of the time."""
        goodput = self.driver.execute_script("return view.goodput;")
        self.assertAlmostEqual(sum(goodput["parts"].values()), goodput["wall"], delta=0.01 * goodput["wall"])
        self.assertGreaterEqual(min(goodput["parts"].values()), 0)

    def check_steps(self):
        step = self.driver.execute_script("return document.getElementById('step').textContent;")
        self.wait("document.getElementById('step').textContent !== arguments[0]", step)

    def check_file(self, file, change):
        """The page of a job that has ended, from disk."""
        self.assertEqual(file, f"{self.folder}/out/dashboard.html")
        self.driver.get("file://" + file)
        self.wait("document.querySelector('#curves .value')?.getAttribute('d')?.includes('L')")
        self.wait_for_text("all-title", "All events")
        self.wait_for_text("changes", change)
        self.assertEqual(browser.problems(self.driver), [])

    def test_kill_and_return(self):
        # Rank 0 takes longer for each step.
        self.job = self.start("run", ["run", "--nproc-per-node", "4", "--max-restarts", "3", "--dashboard", "0", "--dashboard-kill", "lockstep",
                                      "train", "--config", str(self.config)], {"LOCKSTEP_FAULT": "rank=0,step=1,action=slow,ms=300"})
        address = self.job.said(r"lockstep run: the live page of this job: (http://127\.0\.0\.1:\d+/\?token=[0-9a-f]{32})\n").group(1)
        self.check_refusals(address)
        self.driver.get(address)
        self.driver.execute_script("window.stays = true;")
        self.wait_for_text("state", "running")
        self.wait("document.querySelectorAll('#rows tr').length === 4")
        self.wait("document.querySelector('#curves .value')?.getAttribute('d')?.includes('L')")
        self.wait_for_cell(0, "doing", "its own part of a step takes")

        before = self.cell(2, "pid")
        self.kill(2)
        self.wait_for_text("changes", "rank 2 (pid")
        self.wait_for_text("changes", "is lost")
        self.wait_for_text("changes", "takes part again")
        self.wait_for_text("changes", "generation 2 began")
        self.wait_for_cell(2, "state", "running")
        self.wait_for_cell(2, "generation", "2")
        self.assertNotEqual(self.cell(2, "pid"), before)
        self.check_steps()
        self.check_parts()
        self.assertTrue(self.driver.execute_script("return window.stays === true;"), "the page was not loaded again")
        # A rank that stands makes all of them stand.
        stopped = int(self.cell(3, "pid"))
        os.kill(stopped, signal.SIGSTOP)
        self.wait_for_text("moving", "No new step for")
        self.wait_for_text("moving", "ranks are in all_reduce")
        self.check_parts()
        os.kill(stopped, signal.SIGCONT)
        self.wait_for_text("moving", "Yes: step")

        self.job.said(r"rank 2 \(pid \d+\) was lost after [0-9.]+ s: signal 9 \(SIGKILL\), by the button of the live page; the others keep running")

        self.assertEqual(self.job.stop(), EARLY_END)
        self.wait("!document.getElementById('ending').hidden")
        self.assertIn("exit code 75", self.driver.execute_script("return document.getElementById('ending').textContent;"))
        self.assertEqual([problem for problem in browser.problems(self.driver) if "WebSocket" not in problem], [])

        self.check_file(self.job.said(r"lockstep run: the page of this job: (.*)\n").group(1), "takes part again")
        self.wait("document.querySelectorAll('#rows tr').length === 4")
        self.check_parts()

    def test_scheduler(self):
        job = {"MS_WORKER_NUM": "2", "MS_SCHED_HOST": "127.0.0.1", "MS_SCHED_PORT": str(free_port()), "MS_ENABLE_RECOVERY": "1",
               "MS_RECOVERY_PATH": f"{self.folder}/state"}
        self.job = self.start("scheduler", ["scheduler", "--dashboard", "0"], job)
        address = self.job.said(r"the live page of this job: (http://127\.0\.0\.1:\d+/\?token=[0-9a-f]{32})\n").group(1)
        self.check_refusals(address)
        self.driver.get(address)
        self.driver.execute_script("window.stays = true;")

        def worker(name, node):
            # The folder of the run is relative to another folder than that of the scheduler.
            return self.start(name, ["train", "--config", str(self.config), "system.work_dir=out", "train.epochs=1000000"],
                              {**job, "MS_ROLE": "MS_WORKER", "MS_NODE_ID": node}, self.folder)

        first, second = worker("first", "w0"), worker("second", "w1")
        self.wait_for_text("state", "running")
        self.wait("document.querySelectorAll('#rows tr').length === 2")
        self.wait("document.querySelector('#curves .value')?.getAttribute('d')?.includes('L')")
        self.wait_for_cell(1, "pid", str(second.process.pid))
        self.wait_for_cell(1, "memory", "iB")

        second.process.kill()
        self.wait_for_text("changes", "is lost")
        self.wait_for_cell(1, "state", "lost")
        third = worker("third", "w1")
        self.wait_for_text("changes", "takes part again")
        self.wait_for_text("changes", "generation 2 began")
        self.wait_for_cell(1, "pid", str(third.process.pid))
        self.check_steps()
        self.check_parts()
        self.assertTrue(self.driver.execute_script("return window.stays === true;"), "the page was not loaded again")

        # A scheduler that is started again has lost no worker. Its flag does not take the key for a port.
        self.assertEqual(self.job.stop(), 128 + signal.SIGTERM)
        self.wait_for_text("state", "not watched")
        self.wait_for_text("ending", "workers that train go on without it")
        self.job = self.start("again", ["scheduler", "--dashboard", "cluster.node_timeout_s=40"], job)
        self.driver.get(self.job.said(r"the live page of this job: (http://\S+)\n").group(1))
        self.wait_for_text("state", "running")
        self.wait_for_cell(1, "pid", str(third.process.pid))
        self.check_steps()
        self.check_parts()
        self.assertEqual(self.driver.execute_script("return document.getElementById('stops').textContent;"), "No.")

        for one in (first, third):
            one.process.send_signal(signal.SIGTERM)
        self.assertEqual([one.process.wait(LIMIT) for one in (first, third)], [EARLY_END, EARLY_END])
        self.job.process.wait(LIMIT)
        self.wait("!document.getElementById('ending').hidden")
        self.check_file(self.job.said(r"the page of this job: (.*)\n").group(1), "generation 2 began")
        self.wait("document.querySelectorAll('#rows tr').length === 2")


if __name__ == "__main__":
    reason = browser.missing()
    if reason is not None:
        print(f"skipped: the live page needs a browser: {reason}")
        sys.exit(SKIPPED)
    if not LOCKSTEP:
        sys.exit(__doc__)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
