"""The process groups of this process, and the variables of its launcher."""
import atexit
import os
import threading
import warnings

from lockstep import _backend

_lock = threading.Lock()
_alive = []  # at exit their threads end before Python does
_process = os.getpid()


def make(options):
    """A group for torch.distributed, which ends at the latest when Python does."""
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


def set_variables():
    """Under srun and mpirun, sets the variables that init_process_group() reads and that torchrun would have set."""
    try:
        for name, value in _backend.variables_of_launcher().items():
            os.environ.setdefault(name, value)
    except RuntimeError as error:
        warnings.warn(f"the ranks of this job are not known: {error}", stacklevel=3)


atexit.register(_end_all)
