#!/usr/bin/env python3
"""Tests of the backend: real processes, which must end within a time that only a hang reaches.

    PYTHONPATH=build/torch2/python PYTHON tests/python/test_backend.py [-v] [Tests.NAME...]

PYTHON is the one that the build was made for. Needs no other package than PyTorch. LOCKSTEP_PROGRAM: the program `lockstep`
of the same build (the one beside the package's folder).
"""
import functools
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

import lockstep

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "support"))

from free_port import free_port  # noqa: E402

EXAMPLES = HERE.parent.parent / "examples" / "python"
PROGRAM = os.environ.get("LOCKSTEP_PROGRAM", str(pathlib.Path(lockstep.__file__).resolve().parents[2] / "lockstep"))
LIMIT = 900  # only a hang reaches it


def run_ranks(program, *arguments, ranks=2):
    """Exit codes and outputs of ranks without a launcher: nobody ends the others when one of them fails."""
    environment = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), WORLD_SIZE=str(ranks), OMP_NUM_THREADS="1",
                       PYTHONFAULTHANDLER="1")
    with tempfile.TemporaryDirectory() as folder:
        environment["TMPDIR"] = folder
        processes = [
            subprocess.Popen([sys.executable, str(program), *arguments], env=dict(environment, RANK=str(rank), LOCAL_RANK=str(rank)),
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            for rank in range(ranks)]
        try:
            outputs = [process.communicate(timeout=LIMIT)[0] for process in processes]
        except subprocess.TimeoutExpired:
            for process in processes:
                process.send_signal(signal.SIGABRT)  # prints where its threads are
            outputs = [process.communicate()[0] for process in processes]
            raise AssertionError("\n".join(["not ended in time", *outputs])) from None
        finally:
            for process in processes:
                process.kill()
    return [process.returncode for process in processes], outputs


def run_together(*commands, **variables):
    """Outputs of programs that start ranks: of all their processes, as an output ends with the last process that has it.

    Each command has variables of its own, and its words.
    """
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, TMPDIR=folder, OMP_NUM_THREADS="1", PYTHON=sys.executable, CUDA_VISIBLE_DEVICES="", **variables)
        programs = [subprocess.Popen([str(word) for word in command], env=dict(environment, **own), start_new_session=True,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                    for own, command in commands]
        try:
            outputs = [program.communicate(timeout=LIMIT)[0] for program in programs]
        except subprocess.TimeoutExpired:
            outputs = []
            for program in programs:
                program.terminate()  # a launcher ends its ranks
            for program in programs:
                try:
                    outputs.append(program.communicate(timeout=60)[0])
                except subprocess.TimeoutExpired:
                    os.killpg(program.pid, signal.SIGKILL)
            raise AssertionError("\n".join(["not ended in time", *outputs])) from None
    return [program.returncode for program in programs], "\n".join(outputs)


class Tests(unittest.TestCase):
    def check(self, name, expected=(0, 0)):
        codes, outputs = run_ranks(HERE / "failures.py", name)
        self.assertEqual(tuple(codes), tuple(expected), "\n".join(outputs))
        for code, output in zip(codes, outputs):
            if code == 0:
                self.assertIn("ok", output)
        return outputs

    def test_compare_with_gloo_on_2_ranks(self):
        codes, outputs = run_ranks(HERE / "compare_with_gloo.py")
        self.assertEqual(codes, [0, 0], "\n".join(outputs))

    def test_compare_with_gloo_on_3_ranks(self):
        codes, outputs = run_ranks(HERE / "compare_with_gloo.py", ranks=3)
        self.assertEqual(codes, [0, 0, 0], "\n".join(outputs))

    def test_ddp_computes_what_it_computes_with_gloo(self):
        def results(backend):
            codes, outputs = run_ranks(EXAMPLES / "ddp.py", "--backend", backend, "--steps", "20")
            if backend == "lockstep":  # gloo's threads abort some processes while Python ends
                self.assertEqual(codes, [0, 0], "\n".join(outputs))
            found = re.findall(rf"rank (\d) of 2 with {backend}: (.*)", "\n".join(outputs))
            self.assertEqual([rank for rank, _ in found], ["0", "1"], outputs)
            return found
        self.assertEqual(results("lockstep"), results("gloo"))

    def test_users_of_collectives(self):
        codes, outputs = run_ranks(HERE / "users_of_collectives.py")
        self.assertEqual(codes, [0, 0], "\n".join(outputs))

    def test_users_of_meshes(self):
        codes, outputs = run_ranks(HERE / "users_of_meshes.py", ranks=4)
        self.assertEqual(codes, [0] * 4, "\n".join(outputs))

    def test_a_killed_rank_is_named(self):
        self.check("killed", (0, -9))

    def test_a_killed_sender_is_named(self):
        self.check("killed_while_receiving", (0, -9))

    def test_a_rank_that_raises_ends_the_wait_of_the_others(self):
        self.check("raises", (0, 1))

    def test_the_report_of_the_launcher_has_the_traceback_of_the_first_failure(self):
        ran = subprocess.run([PROGRAM, "run", "--nproc-per-node", "3", sys.executable, HERE / "failures.py", "raises_and_destroys"],
                             env=dict(os.environ, OMP_NUM_THREADS="1"), capture_output=True, text=True, timeout=LIMIT)
        report = ran.stderr[ran.stderr.index("lockstep run: "):]
        self.assertEqual(ran.returncode, 1, ran.stderr)
        self.assertRegex(report.splitlines()[0], "rank 1 .*failed first")
        self.assertRegex(report, "(?s)reason: Traceback .*raises_and_destroys.*KeyError: 'batch 7 has no label'")
        self.assertRegex(report, "rank 0 .*because it lost another rank")

    def test_a_rank_that_ends_before_the_first_collective_is_named(self):
        self.check("ended_before_the_first_collective", (0, 3))

    def test_a_rank_that_leaves_before_the_first_collective_says_so(self):
        self.check("left_before_the_first_collective")

    def test_another_world_size_is_an_error_on_all_ranks(self):
        self.check("other_world_size")

    def test_a_rank_outside_the_group_is_an_error(self):
        self.check("rank_outside")

    def test_a_forked_child_does_not_wait_for_ever(self):
        self.check("forked_with_pending_work")

    def test_another_collective_is_an_error_on_all_ranks(self):
        self.check("other_collective")

    def test_another_shape_or_dtype_is_an_error_on_all_ranks(self):
        self.check("other_shape")

    def test_another_shape_in_broadcast_is_an_error_on_all_ranks(self):
        self.check("other_shape_of_broadcast")

    def test_other_splits_are_an_error_on_all_ranks(self):
        self.check("other_splits")

    def test_a_message_of_another_size_is_an_error_of_its_receiver(self):
        self.check("other_size_of_message")

    def test_a_late_rank_is_named(self):
        self.check("too_late")

    def test_a_late_message(self):
        self.check("message_too_late")

    def test_a_group_is_destroyed_while_an_operation_is_pending(self):
        self.check("destroyed_while_pending")

    def test_a_group_is_aborted(self):
        self.check("aborted")

    def test_the_exit_of_python_without_destroy(self):
        self.check("exit_without_destroy")

    def test_the_exit_of_python_before_the_ranks_met(self):
        self.check("exit_at_once")

    def test_a_forked_child(self):
        self.check("forked")

    def test_groups_after_each_other(self):
        self.check("again")

    def test_groups_in_threads(self):
        self.check("threads")

    def test_the_environment_changes_while_ranks_meet(self):
        self.check("environment")

    def test_memory(self):
        self.check("memory")


class OneStep(unittest.TestCase):
    """Each way to start examples/python/one_step.py, with two ranks, which compute what they compute with gloo."""

    @staticmethod
    @functools.cache
    def expected():
        _, output = run_together(({}, [sys.executable, EXAMPLES / "one_step_spawn.py", "--init_method", f"tcp://127.0.0.1:{free_port()}",
                                           "--world_size", 1, "--rank", 0, "--ranks_per_host", 2]), LOCKSTEP_EXAMPLE_BACKEND="gloo")
        return OneStep.sums(output, "gloo")

    @staticmethod
    def sums(output, backend):
        return sorted(re.findall(rf"rank (\d) of 2 with {backend}: sum of parameters (-?\d+\.\d{{12}})", output))

    def check(self, *commands, **variables):
        codes, output = run_together(*commands, **variables)
        self.assertEqual(codes, [0] * len(commands), output)
        found = self.sums(output, "lockstep")
        self.assertEqual([rank for rank, _ in found], ["0", "1"], output)
        self.assertEqual(found, self.expected())

    def check_cloud(self, script, **variables):
        self.check(*[({"VC_TASK_INDEX": str(host)}, ["bash", EXAMPLES / script]) for host in (0, 1)], VC_WORKER_HOSTS="127.0.0.1,127.0.0.1",
                   MA_NUM_HOSTS="2", MA_NUM_GPUS="1", MASTER_PORT=str(free_port()), **variables)

    def test_spawn_on_one_host(self):
        self.check(({}, [sys.executable, EXAMPLES / "one_step_spawn.py", "--init_method", f"tcp://127.0.0.1:{free_port()}",
                         "--world_size", 1, "--rank", 0, "--ranks_per_host", 2]))

    def test_spawn_on_two_hosts(self):
        meet = f"tcp://127.0.0.1:{free_port()}"
        self.check(*[({}, [sys.executable, EXAMPLES / "one_step_spawn.py", "--init_method", meet, "--world_size", 2, "--rank", host])
                     for host in (0, 1)])

    def test_torch_distributed_launch_on_two_hosts(self):
        self.check_cloud("one_step_launch.sh")

    def test_torch_distributed_run_on_two_hosts(self):
        self.check_cloud("one_step_run.sh")

    def test_torch_distributed_run_with_given_numbers_of_hosts(self):
        self.check_cloud("one_step_run.sh", RDZV_BACKEND="static")

    def test_lockstep_run(self):
        self.check(({}, [PROGRAM, "run", "--nproc-per-node", 2, "--no-prefix", sys.executable, EXAMPLES / "one_step.py"]))

    def test_lockstep_run_on_two_hosts(self):
        port = free_port()
        self.check(*[({}, [PROGRAM, "run", "--nnodes", 2, "--node-rank", host, "--master-addr", "127.0.0.1", "--master-port", port,
                           sys.executable, EXAMPLES / "one_step.py"]) for host in (0, 1)])


if __name__ == "__main__":
    unittest.main()
