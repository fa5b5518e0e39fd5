#!/usr/bin/env python3
"""PyTorch's own tests of torch.distributed (in its wheel: distributed_test) with a backend, on the CPU.

    PYTHONPATH=build/torch2/python:FOLDER PYTHON tests/python/peer_suite.py --backend lockstep --json lockstep.json
    PYTHONPATH=...                        PYTHON tests/python/peer_suite.py --backend gloo --json gloo.json
    PYTHON tests/python/peer_suite.py --compare lockstep.json gloo.json

FOLDER has the package expecttest (pip install --target FOLDER expecttest). --only WORD... takes tests whose names contain one
of the words. The JSON has "passed", "failed" or "skipped: REASON" for each test; --compare fails where gloo passed and
lockstep did not, but for the exceptions below.
"""
import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
import unittest


# Tests that PyTorch runs with gloo (or nccl and mpi) alone, by its name, though any backend could pass them. With lockstep
# they run as well, and are counted apart.
NEUTRAL = ["all_reduce_coalesced_", "test_get_future", "test_scatter_object_list",
           "test_grads_same_across_ranks_with_no_sync", "test_batch_isend_irecv_gloo", "test_sparse_all_reduce_sum"]
# What a plugin cannot pass, with the reason.
OUT_OF_REACH = {
    "test_ddp_logging_data_cpu": "DDP's log has \"custom\" as the backend of each plugin",
    "test_accumulate_gradients_no_sync": "the test makes its model for gloo, nccl and mpi alone, by their names",
    "test_monitored_barrier": "Python allows monitored_barrier with gloo alone",
    "test_barrier_timeout": "tests the text of gloo's monitored_barrier",
}


def parsed():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--backend", default="lockstep")
    arguments.add_argument("--ranks", type=int, default=3)
    arguments.add_argument("--json")
    arguments.add_argument("--only", nargs="+", default=[""])
    arguments.add_argument("--compare", nargs=2, metavar=("LOCKSTEP", "GLOO"))
    return arguments.parse_args()


def run_anyway(test):
    while test is not None:
        test.__unittest_skip__ = False
        test = getattr(test, "__wrapped__", None)


def load_tests_of(backend, ranks):
    """The class of tests. PyTorch's decorators are evaluated while its module is imported, so the order here counts."""
    os.environ.update(BACKEND=backend, WORLD_SIZE=str(ranks), CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1",
                      TEMP_DIR=tempfile.mkdtemp(prefix="peer_suite_"))
    from torch.testing._internal.common_distributed import DistTestCases
    if backend == "lockstep":
        import lockstep  # noqa: F401: it registers the backend
        for feature in ("gpu", "ddp", "subgroup", "plugin"):
            DistTestCases.backend_feature[feature].add(backend)
    from torch.testing._internal.distributed import distributed_test as peer
    if backend == "lockstep":
        for titles in (peer.PROFILING_SUPPORTED_BACKENDS, peer.SEND_RECV_PROFILING_SUPPORTED_BACKENDS):
            titles.append(backend)

    class PeerTests(peer.TestDistBackend, peer.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._start_processes(multiprocessing.get_context("fork").Process)  # PyTorch is loaded already

    for name in dir(PeerTests):
        if backend == "lockstep" and name.startswith("test_") and any(word in name for word in NEUTRAL) and "cuda" not in name:
            run_anyway(getattr(PeerTests, name))
    return PeerTests


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


def run(arguments):
    tests = load_tests_of(arguments.backend, arguments.ranks)
    names = [name for name in unittest.defaultTestLoader.getTestCaseNames(tests) if any(word in name for word in arguments.only)]
    recorder = Recorder()
    unittest.TestSuite(tests(name) for name in names).run(recorder)
    outcomes = recorder.outcomes
    if arguments.json:
        with open(arguments.json, "w") as out:
            json.dump(outcomes, out, indent=1, sort_keys=True)
    counts = {word: sum(outcome.startswith(word) for outcome in outcomes.values()) for word in ("passed", "failed", "skipped")}
    print(f"{arguments.backend}, {arguments.ranks} ranks: {counts}")
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
    sys.exit(compare(*given.compare) if given.compare else run(given))
