"""The process groups of this process, the variables of its launcher, and the reason of its end."""
import atexit
import json
import os
import sys
import threading
import time
import traceback
import warnings

import torch.distributed as dist

from lockstep import _backend

_lock = threading.Lock()
_alive = []  # at exit their threads end before Python does
_process = os.getpid()


def make(options):
    """A group for torch.distributed, which ends at the latest when Python does."""
    name = options.group_id if options.global_ranks_in_group else "world"
    backend = _backend.Backend(options.store, options.group_rank, options.group_size, options.timeout, name)
    with _lock:
        _alive[:] = [other for other in _alive if not other.closed]
        _alive.append(backend)
    return backend


def _end_all():
    if os.getpid() != _process:
        return  # a forked child has none of the threads
    with _lock:
        alive, _alive[:] = list(_alive), []
    for backend in alive:
        backend.shutdown()


def set_variables():
    """Under srun and mpirun, sets the variables that init_process_group() reads and that torchrun would have set."""
    try:
        for name, value in _backend.variables_of_launcher().items():
            os.environ.setdefault(name, value)
    except RuntimeError as error:
        warnings.warn(f"the ranks of this job are not known: {error}", stacklevel=3)


def _leave_reason(kind, error, trace):
    """Leaves an uncaught exception for the launcher, in torchrun's format. A rank that lost another one says so, because
    launchers show the first failure, and ranks end in any order."""
    file = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if file and os.getpid() == _process and not issubclass(kind, KeyboardInterrupt):
        lost = issubclass(kind, dist.DistBackendError) and str(error).startswith("lockstep: ")
        now = time.time_ns()
        extra = {"py_callstack": "".join(traceback.format_exception(kind, error, trace)).rstrip(), "timestamp_ns": now,
                 "timestamp": str(now // 1_000_000_000), "kind": "peer_lost" if lost else "exception"}
        try:
            with open(file, "w") as out:
                json.dump({"message": {"message": f"{kind.__name__}: {error}", "extraInfo": extra}}, out)
        except OSError:
            pass  # the exception is printed all the same
    _hook_before(kind, error, trace)


_hook_before, sys.excepthook = sys.excepthook, _leave_reason
atexit.register(_end_all)
