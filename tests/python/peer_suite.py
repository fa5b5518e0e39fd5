#!/usr/bin/env python3
"""PyTorch's own tests of torch.distributed (in its wheel: distributed_test) with a backend, on the CPU.

    PYTHONPATH=build/torch2/python PYTHON tests/python/peer_suite.py --backend lockstep --json lockstep.json
    PYTHONPATH=...                 PYTHON tests/python/peer_suite.py --backend gloo --json gloo.json
    PYTHON tests/python/peer_suite.py --compare lockstep.json gloo.json
    PYTHONPATH=...                 PYTHON tests/python/peer_suite.py --choice tests/python/peer_suite_choice.txt

The package expecttest must be there (scripts/install_torch.sh installs it). --only WORD... takes tests whose names contain one
of the words. --suite cpu leaves out the tests that ask for GPUs, --suite gpu runs them alone; their tensors are on the CPU
(peer_on_cpu.py). The JSON has "passed", "failed" or "skipped: REASON" for each test; --compare fails where gloo passed and
lockstep did not, but for the exceptions below. --choice FILE runs the tests that the file names, at least 40, each of which
must pass: a skip is a failure.
"""
import argparse
import json
import multiprocessing
import os
import pathlib
import sys
import tempfile
import time
import unittest
from unittest import mock


# Tests that PyTorch runs with gloo (or nccl and mpi) alone, by its name, though any backend could pass them. They run here
# with either backend.
NEUTRAL = ["all_reduce_coalesced_", "test_get_future", "test_scatter_object_list", "test_all_to_all", "test_barrier_timeout",
           "test_grads_same_across_ranks_with_no_sync", "test_accumulate_gradients_no_sync", "test_batch_isend_irecv_gloo",
           "test_sparse_all_reduce_sum"]
# What a plugin cannot pass, with the reason.
OUT_OF_REACH = {
    "test_ddp_logging_data_cpu": "DDP's log has \"custom\" as the backend of each plugin",
    "test_monitored_barrier": "Python allows monitored_barrier with gloo alone",
}
# Left out, with the reason.
TOO_LONG = {"test_ddp_uneven_inputs": "more than 400 s on two cores, with gloo as well"}


def parsed():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--backend", default="lockstep")
    arguments.add_argument("--ranks", type=int, default=3)
    arguments.add_argument("--suite", choices=["all", "cpu", "gpu"], default="all")
    arguments.add_argument("--choice", type=pathlib.Path)
    arguments.add_argument("--json")
    arguments.add_argument("--only", nargs="+", default=[""])
    arguments.add_argument("--compare", nargs=2, metavar=("LOCKSTEP", "GLOO"))
    return arguments.parse_args()


def run_anyway(test):
    while test is not None:
        test.__unittest_skip__ = False
        test = getattr(test, "__wrapped__", None)


def load_tests_of(backend, ranks):
    """The class of tests, and which of them ask for GPUs. PyTorch's decorators are evaluated while its module is imported, so the order here counts."""
    os.environ.update(BACKEND=backend, WORLD_SIZE=str(ranks), CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1",
                      TEMP_DIR=tempfile.gettempdir())
    import peer_on_cpu
    from torch.testing._internal import common_distributed
    if backend == "lockstep":
        import lockstep  # noqa: F401: it registers the backend
        for feature in ("gpu", "cuda", "ddp", "subgroup", "plugin"):
            common_distributed.DistTestCases.backend_feature[feature].add(backend)
    if ranks > 2:  # these tests make a group of the ranks 1 and 2, for which PyTorch wants 8 ranks
        common_distributed.skip_if_small_worldsize = lambda test: test
    peer_on_cpu.before_import()
    from torch.testing._internal.distributed import distributed_test as peer
    if backend == "lockstep":
        for titles in (peer.PROFILING_SUPPORTED_BACKENDS, peer.SEND_RECV_PROFILING_SUPPORTED_BACKENDS):
            titles.append(backend)

    class PeerTests(peer.TestDistBackend, peer.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            if "barrier_timeout" in self._testMethodName:  # the others reload models in ways that fail, if ranks meet in a file
                peer.INIT_METHOD = os.environ["INIT_METHOD"]
            self._start_processes(multiprocessing.get_context("fork").Process)  # PyTorch is loaded already

        @classmethod
        def _run(cls, rank, test, *arguments, **options):
            if peer_on_cpu.wants_gpus(getattr(cls, test)):
                with peer_on_cpu.in_this_process(peer):
                    super()._run(rank, test, *arguments, **options)
            else:
                super()._run(rank, test, *arguments, **options)

        def _test_accumulate_gradients_no_sync(self, *arguments, **options):
            # A name decides here only where the model is: on a GPU for nccl, on the CPU for gloo.
            with mock.patch.object(peer, "BACKEND", "gloo"):
                super()._test_accumulate_gradients_no_sync(*arguments, **options)

    for name in unittest.defaultTestLoader.getTestCaseNames(PeerTests):
        test = getattr(PeerTests, name)
        if any(word in name for word in NEUTRAL) or peer_on_cpu.wants_gpus(test):
            run_anyway(test)
    # PyTorch skips it, as its decorator asks for the debug level DETAIL, with which it fails.
    PeerTests.test_broadcast_object_list = lambda self: self._test_broadcast_object_list()
    return PeerTests, peer_on_cpu.wants_gpus


class Recorder(unittest.TestResult):
    """The outcome of each test, printed at once."""

    def __init__(self):
        super().__init__()
        self.outcomes = {}
        self.begin = 0.0

    def startTest(self, test):
        super().startTest(test)
        self.begin = time.time()

    def note(self, test, outcome):
        self.outcomes[test._testMethodName] = outcome
        print(f"{test._testMethodName}: {outcome} ({time.time() - self.begin:.1f} s)", flush=True)

    def addSuccess(self, test):
        self.note(test, "passed")

    def addSkip(self, test, reason):
        self.note(test, f"skipped: {reason}")

    def addFailure(self, test, error):
        print(self._exc_info_to_string(error, test), flush=True)
        self.note(test, "failed")

    addError = addFailure


def read_choice(file):
    return [line for line in file.read_text().splitlines() if line and not line.startswith("#")]


def run(arguments):
    tests, wants_gpus = load_tests_of(arguments.backend, arguments.ranks)
    names = [name for name in unittest.defaultTestLoader.getTestCaseNames(tests) if any(word in name for word in arguments.only)
             and name not in TOO_LONG]
    if arguments.choice:
        names = read_choice(arguments.choice)
    elif arguments.suite != "all":
        names = [name for name in names if wants_gpus(getattr(tests, name)) == (arguments.suite == "gpu")]
    recorder = Recorder()
    unittest.TestSuite(tests(name) for name in names).run(recorder)
    outcomes = recorder.outcomes
    if arguments.json:
        with open(arguments.json, "w") as out:
            json.dump(outcomes, out, indent=1, sort_keys=True)
    counts = {word: sum(outcome.startswith(word) for outcome in outcomes.values()) for word in ("passed", "failed", "skipped")}
    print(f"{arguments.backend}, {arguments.ranks} ranks: {counts}")
    if arguments.choice:
        missing = [name for name in names if outcomes.get(name) != "passed"]
        print(f"of {len(names)} tests that {arguments.choice.name} names, these did not pass:", ", ".join(missing) or "none")
        return 1 if missing or len(set(names)) < 40 else 0
    return 1 if counts["failed"] else 0


def compare(lockstep_file, gloo_file):
    with open(lockstep_file) as one, open(gloo_file) as other:
        lockstep, gloo = json.load(one), json.load(other)
    status = 0
    for name, outcome in sorted(gloo.items()):
        found = lockstep.get(name, "not run")
        if outcome != "passed" or found == "passed":
            continue
        reason = next((why for word, why in OUT_OF_REACH.items() if name.startswith(word)), None)
        print(f"{'exception' if reason else 'MISSING'}: {name}: {found}" + (f" ({reason})" if reason else ""))
        status = status or int(reason is None)
    both = sum(outcome == "passed" and lockstep.get(name) == "passed" for name, outcome in gloo.items())
    print(f"passed with both: {both}")
    return status


if __name__ == "__main__":
    given = parsed()
    if given.compare:
        sys.exit(compare(*given.compare))
    with tempfile.TemporaryDirectory(prefix="peer_suite_") as folder:
        tempfile.tempdir = os.environ["TMPDIR"] = folder  # PyTorch's tests leave files
        status = run(given)
    sys.exit(status)
