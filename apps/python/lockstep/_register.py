"""The registration of the backend, and the groups that are alive."""
import atexit
import os
import threading

import torch.distributed as dist

from lockstep import _backend

_lock = threading.Lock()
_alive = []  # at exit their threads end before Python does
_process = os.getpid()


def _make_backend(options, _user_options):
    backend = _backend.Backend(options.store, options.group_rank, options.group_size, options.timeout)
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


def register():
    """Makes the backend known to torch.distributed as "lockstep", for tensors on the CPU and on CUDA devices."""
    if "lockstep" in dist.Backend.backend_list:
        return
    dist.Backend.register_backend("lockstep", _make_backend, extended_api=True, devices=["cpu", "cuda"])
    atexit.register(_end_all)
